#!/usr/bin/env python3
"""scripts/local_tables.py: the runs that the table `local` requests as rows arrive, and its summary."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "scripts"))
import local_tables  # noqa: E402
from batch_tables import of_table  # noqa: E402

KNOWN = [{"table": "accuracy", "arm": "float32", "rate": 0.1, "seed": seed, "accuracy": 91 + seed / 10} for seed in (1, 2)]
KNOWN.append({"table": "compression", "arm": "float32", "sent_bytes_per_step": 1600.0})


def run(accuracy, known=KNOWN, seeds=2):
    """All rows of runs that end with accuracy(key) (None: the run fails), in the order of the requests."""
    rows = list(known)
    while True:
        left = [row for row in local_tables.local(rows, seeds) if not of_table(rows, "local", **row.key)]
        if not left:
            return rows
        key = left[0].key
        end = accuracy(key)
        sent = {"gossip": 1067.0, "local H=16": 100.0}.get(key["arm"], 1600.0)
        rows.append({"table": "local", **key, **({"failed": "diverged"} if end is None else
                                                {"accuracy": end, "sent_bytes_per_step": sent})})


def tried(rows, arm, name):
    return [row[name] for row in of_table(rows, "local", arm=arm) if row["held_out"]]


def taken(rows, arm, name):
    return {row[name] for row in of_table(rows, "local", arm=arm) if not row["held_out"]}


class LocalTables(unittest.TestCase):
    def test_a_rate_that_is_hardly_better_is_not_taken(self):
        accuracies = {("local H=16", 0.2): 90.1, ("late", 0.05): 91}
        rows = run(lambda key: accuracies.get((key["arm"], key["rate"]), 90))
        self.assertEqual(tried(rows, "local H=16", "rate"), [0.1, 0.2, 0.4])
        self.assertEqual(taken(rows, "local H=16", "rate"), {0.1})
        self.assertEqual(taken(rows, "late", "rate"), {0.05})

    def test_a_run_that_fails_ends_the_search(self):
        rows = run(lambda key: None if key["rate"] > 0.1 else 90)
        self.assertEqual(tried(rows, "local H=64", "rate"), [0.1, 0.2, 0.05])
        self.assertEqual(taken(rows, "local H=64", "rate"), {0.1})

    def test_the_longer_period_takes_the_outer_rate_of_the_shorter_one(self):
        rows = run(lambda key: 90 - abs((key["outer_rate"] or 0.2) - 0.2))
        self.assertEqual(tried(rows, "DiLoCo H=16", "outer_rate"), [0.4, 0.7, 0.2, 0.1])
        self.assertEqual(tried(rows, "DiLoCo H=64", "outer_rate"), [])
        self.assertEqual(taken(rows, "DiLoCo H=64", "outer_rate"), {0.2})

    def test_every_step_is_known_from_other_tables(self):
        self.assertEqual(of_table(run(lambda key: 90), "local", arm=local_tables.EVERY_STEP), [])
        alone = run(lambda key: 90, known=[])
        self.assertEqual(len(of_table(alone, "local", arm=local_tables.EVERY_STEP)), 2)

    def test_bytes_and_points_are_those_of_every_step(self):
        rows = run(lambda key: 91 + key["seed"] / 10 - (0.5 if key["arm"] == "local H=16" else 0))
        text = local_tables.local_summary(rows)
        def cells(arm):
            line = next(line for line in text.splitlines() if line.startswith(f"| {arm} "))
            return [cell.strip() for cell in line.split("|")[2:-1]]
        self.assertEqual(cells("local H=16"), ["0.1", "2", "100", "1/16.0", "90.65 ± 0.07", "0.50 ± 0.00"])
        self.assertEqual(cells("gossip")[3], "0.67")
        self.assertEqual(cells("every step")[-1], "-")
        self.assertIn("local", local_tables.local_plot(rows))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
