#!/usr/bin/env python3
"""The table pipeline of scripts/compare-training: its runs and its summary."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "scripts"))
from pipeline_table import ARMS, PROFILE, RANKS, ROUNDS, pipeline, pipeline_summary  # noqa: E402


def cells(text, name):
    line = next(line for line in text.splitlines() if f"| {name} " in line)
    return [cell.strip() for cell in line.split("|")[1:-1]]


class Pipeline(unittest.TestCase):
    def test_all_schedules_run_with_all_numbers(self):
        rows = list(pipeline([], 1))
        keys = [json.dumps(row.key, sort_keys=True) for row in rows]
        self.assertEqual(len(set(keys)), len(keys))
        bubbles = [row for row in rows if row.key["part"] == "bubble"]
        self.assertEqual(len(bubbles), len(ARMS) * len(RANKS) * len(ROUNDS))
        interleaved = next(row for row in bubbles if row.key["arm"] == "interleaved")
        self.assertIn("--chunks", interleaved.program(Path("p"), None))
        # Every cut into two is tried beside that of partition().
        layers = json.loads(PROFILE.read_text())["layers"]
        self.assertEqual(sum(row.key["part"] == "split" for row in rows), len(layers))

    def test_results_are_those_of_the_program(self):
        row = next(iter(pipeline([], 1)))
        found = {"kind": "replayed", "step_mean_s": 0.5, "bubble": 0.25, "formula": 0.2, "ranks": 2, "most_held": [2, 1]}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "results.json").write_text(json.dumps(found))
            results = row.results(Path(folder))
        self.assertEqual((results["bubble"], results["most_held"], results["kind"]), (0.25, [2, 1], "replayed"))
        self.assertIn("0.250", row.said(results))

    def test_bubbles_stand_beside_the_formula(self):
        rows = [{"arm": arm, "part": "bubble", "pipeline_ranks": 4, "micro_batches": 8, "bubble": bubble, "formula": 0.25,
                 "most_held": held} for arm, bubble, held in (("1f1b", 0.26, [4, 3, 2, 1]), ("gpipe", 0.24, [8, 8, 8, 8]))]
        text = pipeline_summary(rows)
        self.assertEqual(cells(text, "4")[2:], ["1f1b", "0.260", "0.250", "1.040", "4", "1"])
        self.assertIn("at most 4.0 % from the formula", text)

    def test_recomputing_is_compared_with_the_same_schedule(self):
        rows = [{"arm": "1f1b", "part": "computed", "micro_batches": 4, "recompute": recompute, "step_mean_s": step,
                 "bubble": 0.2, "formula": 0.2, "most_held": [2, 1], "peak_bytes": [2e6, 1e6]}
                for recompute, step in ((False, 1.0), (True, 1.3))]
        self.assertEqual(cells(pipeline_summary(rows), "1f1b, recompute")[2:4], ["1300", "1.30"])

    def test_cuts_are_compared_with_the_best_of_all(self):
        rows = [{"arm": arm, "part": "split", "borders": [border], "step_mean_s": step}
                for arm, border, step in (("partition", 2, 1.02), ("border 1", 1, 1.5), ("border 2", 2, 1.0))]
        self.assertEqual(cells(pipeline_summary(rows), "partition"), ["partition", "2", "1020", "1.020"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
