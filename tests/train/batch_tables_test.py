#!/usr/bin/env python3
"""scripts/batch_tables.py: the runs that its tables request as rows arrive, and its summaries."""
import math
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "scripts"))
import batch_results  # noqa: E402
import batch_tables  # noqa: E402


def run(table, accuracy, seeds=2):
    """All rows of a table whose runs end with accuracy(key), in the order of the requests."""
    rows = []
    while True:
        left = [row for row in batch_tables.TABLES[table](rows, seeds)
                if not batch_tables.of_table(rows, table, **row.key)]
        if not left:
            return rows
        end = accuracy(left[0].key)
        looks = [[epoch / 2, end - 6 / epoch] for epoch in range(1, 12)] + [[6.0, end]]
        rows.append({"table": table, **left[0].key, "accuracy": end, "accuracies": looks, "steps": 7})


def cells(text, name):
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in line.split("|")[2:-1]]


class BatchTables(unittest.TestCase):
    def test_arms_share_runs_of_one_rate_and_take_the_best(self):
        rows = run("batch", lambda key: 90 - abs(key["rate"] - 0.4) + key["seed"] / 100)
        keys = [tuple(row[name] for name in ("arm", "batch", "rate", "held_out", "seed")) for row in rows]
        self.assertEqual(len(keys), len(set(keys)))
        tried = {row["rate"] for row in rows if (row["arm"], row["batch"]) == ("sgd", 1024) and row["held_out"]}
        self.assertEqual(tried, {0.1, 0.2, 0.4, 0.8})
        taken = [key for key in keys if key[:2] == ("sgd", 1024) and not key[3]]
        self.assertEqual(taken, [("sgd", 1024, 0.4, 0, 1), ("sgd", 1024, 0.4, 0, 2)])
        text = batch_results.batch_summary(rows)
        for arm in ("unscaled", "square root", "linear"):
            self.assertEqual(cells(text, arm)[1], "90.02 ± 0.01 (0.4; 2)")
        self.assertEqual(cells(text, "linear")[0], "as unscaled")
        self.assertEqual(cells(text, "updates"), ["1404", "348", "84", "42"])

    def test_rates_are_tried_from_the_middle_to_where_it_rises(self):
        def tried(best):
            rows = run("growing-batch", lambda key: 90 - abs(math.log2(key["rate"] / best)), seeds=1)
            return [row["rate"] for row in rows if row["arm"] == "steps" and row["held_out"]]
        self.assertEqual(tried(0.1), [0.1, 0.2, 0.05])
        self.assertEqual(tried(0.2), [0.1, 0.2, 0.4])
        self.assertEqual(tried(0.4), [0.1, 0.2, 0.4])
        self.assertEqual(tried(0.05), [0.1, 0.2, 0.05, 0.025])
        self.assertEqual(tried(0.01), [0.1, 0.2, 0.05, 0.025])

    def test_no_seeds_before_all_rates_are_tried(self):
        rows = []
        first = [row.key for row in batch_tables.TABLES["growing-batch"](rows, 5)]
        self.assertEqual({key["held_out"] for key in first}, {5000})
        rows = [{"table": "growing-batch", **key, "accuracy": 90 - key["rate"]} for key in first]
        self.assertEqual([(row.key["rate"], row.key["held_out"]) for row in batch_tables.TABLES["growing-batch"](rows, 5)],
                         [(0.05, 5000)] * 2)

    def test_what_other_tables_know_is_not_run_again(self):
        four_ranks = [{"table": "rates", "arm": "float32", "rate": rate, "seed": 1, "accuracy": 92 - rate} for rate in (0.05, 0.1, 0.2)]
        four_ranks += [{"table": "rates", "arm": "int8", "rate": 0.025, "seed": 1, "accuracy": 99},
                       {"table": "accuracy", "arm": "float32", "rate": 0.025, "seed": 1, "accuracy": 91, "steps": 7}]
        asked = [row.key for row in batch_tables.TABLES["growing-batch"](four_ranks, 1) if row.key["arm"] == "cosine"]
        self.assertEqual([(key["rate"], key["held_out"]) for key in asked], [(0.025, 5000)])
        four_ranks.append({"table": "growing-batch", "arm": "cosine", "rate": 0.025, "held_out": 5000, "seed": 1, "accuracy": 92})
        self.assertNotIn("cosine", [row.key["arm"] for row in batch_tables.TABLES["growing-batch"](four_ranks, 1)])
        self.assertEqual(cells(batch_results.growing_summary(four_ranks), "cosine")[:4], ["0.025", "7", "1", "91.00"])

    def test_the_growing_batch_has_the_rate_of_its_twin(self):
        rows = run("growing-batch", lambda key: 90 - abs(key["rate"] - 0.2) - (key["arm"] == "growing-batch") / 10)
        grown = [row for row in rows if row["arm"] == "growing-batch"]
        self.assertEqual([(row["rate"], row["held_out"], row["seed"]) for row in grown], [(0.2, 0, 1), (0.2, 0, 2)])
        self.assertEqual(cells(batch_results.growing_summary(rows), "growing-batch"),
                         ["0.2", "7", "2", "89.90 ± 0.00", "-0.10 ± 0.00"])

    def test_one_cycle_is_compared_with_where_a_constant_rate_stays(self):
        rows = run("one-cycle", lambda key: 89.25 + key["epochs"] / 2 - abs(key["rate"] - 0.1))
        constant = {row["rate"] for row in rows if row["arm"] == "constant" and not row["held_out"]}
        self.assertEqual(constant, {0.1, 0.05})
        text = batch_results.cycle_summary(rows)
        self.assertEqual(cells(text, "one-cycle, 1 epochs")[3], "-")
        self.assertEqual(cells(text, "one-cycle, 1.5 epochs")[3], "1.5")
        # 92.25 - 6 / e at e half epochs: from e = 3 on.
        self.assertEqual(cells(text, "constant, 6 epochs")[3], "1.5")

    def test_an_accuracy_that_falls_again_has_not_stayed(self):
        curve = [(0.5, 89, 0), (1, 91, 0), (1.5, 89.9, 0), (2, 90, 0), (2.5, 92, 0)]
        self.assertEqual(batch_results.stays_from(curve, 90), 2)
        self.assertIsNone(batch_results.stays_from(curve, 92.5))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
