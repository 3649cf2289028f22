#!/usr/bin/env python3
"""The table tensor of scripts/compare-training: its runs, its formulas and its summary."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "scripts"))
from tensor_table import BATCH, CONTEXT, LAYERS, MODES, ONE_HOST, PROFILE, WIDTH, sent_by_formula, tensor, tensor_summary  # noqa: E402


def cells(text, name):
    line = next(line for line in text.splitlines() if f"| {name} " in line)
    return [cell.strip() for cell in line.split("|")[1:-1]]


class Tensor(unittest.TestCase):
    def test_each_mode_is_run_and_times_take_turns(self):
        rows = list(tensor([], 1))
        self.assertEqual({row.key["arm"] for row in rows if row.key["part"] == "bytes"}, set(MODES))
        blocks = [row.key["block"] for row in rows if row.key["part"] == "time"]
        self.assertEqual(blocks, sorted(blocks))
        sequence = next(row for row in rows if row.key["part"] == "time" and row.key["arm"] == "sequence")
        self.assertIn("--sequence", sequence.program(Path("p"), Path("f")))

    def test_the_profile_is_what_the_plan_reads(self):
        profile = json.loads(PROFILE.read_text())
        self.assertGreater(profile["batch"], 0)
        for layer in profile["layers"]:
            self.assertLessEqual({"name", "parameters", "activation_bytes", "output_bytes", "forward_ms", "backward_ms"}, set(layer))
        self.assertTrue(any(layer["tensor_sums"] > 0 for layer in profile["layers"]))

    def test_formulas_add_up(self):
        activations = 4 * BATCH * CONTEXT * WIDTH
        # With two ranks an all_reduce sends its data once. There are four in a block, one in each end, and three numbers a byte.
        self.assertAlmostEqual(sent_by_formula("tensor", 2, 0), (4 * LAYERS + 2) * activations + 12 * BATCH * CONTEXT)
        self.assertAlmostEqual(sent_by_formula("ring", 2, 100), 400 + LAYERS * 4 * activations)
        self.assertAlmostEqual(sent_by_formula("ulysses", 2, 100), 400 + LAYERS * 2 * activations)

    def test_results_are_those_of_the_programs(self):
        for part, found, said in (("bytes", {"loss": [3, 2], "parameters": 10, "parameters_of_a_rank": 5,
                                             "sent_bytes_per_step": 2e6}, "2.00 MB"),
                                  ("time", {"step_mean_s": 1, "alone_mean_s": 3, "communication_s": 0.2, "sent_bytes": 3}, "3.00")):
            row = next(row for row in tensor([], 1) if row.key["part"] == part)
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "results.json").write_text(json.dumps(found))
                self.assertIn(said, row.said(row.results(Path(folder))))

    def test_the_fastest_block_counts(self):
        rows = [{"arm": "tensor", "part": "time", "ranks": 4, "network": ONE_HOST, "slower": 1, "step_mean_s": step,
                 "alone_mean_s": 3 * step, "communication_s": 0.1} for step in (1, 2)]
        self.assertEqual(cells(tensor_summary(rows), "one host, tensor"),
                         ["one host, tensor", "4", "3,000", "1,000", "3.00", "3.00 to 3.00", "100"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
