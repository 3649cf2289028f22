#!/usr/bin/env python3
"""The table latency of scripts/compare-training: its runs and its summary."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "scripts"))
from latency_table import ARMS, BLOCKS, SEEDS, latency, latency_summary  # noqa: E402


def cells(text, name, place=0):
    line = [line for line in text.splitlines() if line.startswith(f"| {name} ")][place]
    return [cell.strip() for cell in line.split("|")[1:-1]]


class Latency(unittest.TestCase):
    def test_all_arms_take_turns_in_each_block(self):
        rows = list(latency([], 1))
        updates = [row.key for row in rows if row.key["part"] == "updates"]
        self.assertEqual([key["block"] for key in updates], sorted(key["block"] for key in updates))
        for block in range(1, BLOCKS + 1):
            self.assertEqual([key["arm"] for key in updates if key["block"] == block and key["ranks"] == 2], list(ARMS))
        self.assertEqual([row.key["seed"] for row in rows if row.key["part"] == "seeds"], list(range(1, SEEDS + 1)))

    def test_arms_differ_in_what_averages(self):
        commands = {row.key["arm"]: row.command(Path("p"), Path("f")) for row in latency([], 1) if row.key["ranks"] == 2}
        self.assertIn("gloo", commands["Gloo"])
        self.assertNotIn("KOLO_TRANSPORTS=tcp", commands["kolo"])
        self.assertIn("KOLO_TRANSPORTS=tcp", commands["kolo over TCP"])

    def test_results_are_those_of_the_program(self):
        found = {"updates_per_s": 5000, "average_s": 2e-5, "steps": 1, "updates": 2, "seconds": 3, "parameters": 4, "minibatch": 5,
                 "solved_after_steps": 6, "solved_after_s": 7, "mean_return": 8, "returns": []}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "results.json").write_text(json.dumps(found))
            results = next(latency([], 1)).results(Path(folder))
        self.assertEqual(results["updates_per_s"], 5000)
        self.assertNotIn("returns", results)

    def test_ratios_are_within_a_block(self):
        rows = [{"arm": arm, "part": "updates", "ranks": 2, "block": block, "updates_per_s": rate * block, "average_s": 1e-6 * rate}
                for block in (1, 2, 3) for arm, rate in (("kolo", 300), ("Gloo", 100))]
        text = latency_summary(rows)
        self.assertEqual(cells(text, "kolo"), ["kolo", "2", "600", "300 to 900", "300", "3.00 (3.00 to 3.00)"])
        self.assertEqual(cells(text, "Gloo")[-1], "")

    def test_seeds_that_fail_are_told(self):
        rows = [{"arm": "kolo", "part": "seeds", "ranks": 2, "seed": seed, "solved_after_steps": steps, "solved_after_s": 1.5,
                 "mean_return": 480.25} for seed, steps in ((1, 80_000), (2, 0))]
        text = latency_summary(rows)
        self.assertEqual(cells(text, "1"), ["1", "80,000", "1.5", "480.2"])
        self.assertEqual(cells(text, "2")[1], "not")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
