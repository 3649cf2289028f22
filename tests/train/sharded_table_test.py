#!/usr/bin/env python3
"""The table sharded of scripts/compare-training: its runs and its summary."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "scripts"))
from sharded_table import CASES, SHARDS, WHOLE, sharded, sharded_summary  # noqa: E402


def cells(text, name, place=0):
    line = [line for line in text.splitlines() if f"| {name} " in line][place]
    return [cell.strip() for cell in line.split("|")[1:-1]]


class Sharded(unittest.TestCase):
    def test_each_way_is_run_beside_the_undivided_model(self):
        rows = list(sharded([], 1))
        self.assertEqual([row.key["arm"] for row in rows if row.key["part"] == "memory"], [WHOLE, *SHARDS])
        blocks = [row.key["block"] for row in rows if row.key["part"] == "time"]
        self.assertEqual(blocks, sorted(blocks))
        self.assertNotIn("--shard", rows[0].program(Path("p"), None))
        self.assertIn("gradients", rows[2].program(Path("p"), None))

    def test_results_are_those_of_the_program(self):
        row = next(row for row in sharded([], 1) if row.key["part"] == "time")
        found = {"step_mean_s": 0.5, "exposed_s": 0.1, "communication_s": 0.2, "sent_bytes": 3, "buckets": 4,
                 "sharded": {"step_mean_s": 0.6, "communication_s": 0.3}}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "results.json").write_text(json.dumps(found))
            results = row.results(Path(folder))
        self.assertEqual((results["sharded_step_mean_s"], results["step_mean_s"], results["kind"]), (0.6, 0.5, "replayed"))
        self.assertIn("1.200", row.said(results))

    def test_memory_stands_beside_the_formulas(self):
        rows = [{"arm": WHOLE, "part": "memory", "parameters": 10e6, "first_bytes": 50e6, "peak_bytes": 210e6, "sent_bytes": 60e6},
                {"arm": "gradients", "part": "memory", "parameters": 10e6, "first_bytes": 50e6, "peak_bytes": 90e6,
                 "sent_bytes": 90e6}]
        self.assertEqual(cells(sharded_summary(rows), "gradients"), ["gradients", "90", "70", "120", "90", "1.500"])

    def test_ratios_are_within_a_block(self):
        network, compute_s = CASES[0]
        rows = [{"arm": "gradients", "part": "time", "network": network, "compute_s": compute_s, "step_mean_s": step,
                 "sharded_step_mean_s": 1.1 * step, "sharded_communication_s": 0.2, "sharded_exposed_s": 0.05}
                for step in (0.5, 1.0)]
        self.assertEqual(cells(sharded_summary(rows), "gradients")[1:],
                         ["gradients", "750", "825", "1.100", "1.100 to 1.100", "200", "50"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
