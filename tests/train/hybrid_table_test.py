#!/usr/bin/env python3
"""The table hybrid of scripts/compare-training: its runs and its summary."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "scripts"))
from hybrid_table import NETWORKS, WAYS, WIDER, HybridRow, hybrid, hybrid_summary, model  # noqa: E402


class Hybrid(unittest.TestCase):
    def test_all_ways_take_turns_on_each_network(self):
        rows = [row.key for row in hybrid([], 1)]
        for network in NETWORKS:
            self.assertEqual([key["arm"] for key in rows if key.get("network") == network and key["block"] == 1], list(WAYS))
        self.assertEqual([key["arm"] for key in rows if key["part"] == "memory"], list(WAYS))

    def test_the_model_is_a_profile(self):
        layers = model("time")["layers"]
        self.assertEqual([one["tensor_sums"] > 0 for one in layers], [False, *[True] * 8, False])
        wide = model("memory")["layers"]
        self.assertEqual([one["parameters"] for one in wide], [WIDER**2 * one["parameters"] for one in layers])
        self.assertEqual({one["forward_ms"] for one in wide}, {0})

    def test_a_way_is_replayed_as_it_was_planned(self):
        row = HybridRow("data 2 x pipeline 2", "time", network=NETWORKS[0], block=1)
        way = {"way": "data 2 x pipeline 2", "data": 2, "tensor": 1, "stages": 2, "micro_batches": 8, "first_layers": [0, 5]}
        command = row.replay(way, Path("p"), Path("f"))
        for option, value in (("--data", "2"), ("--pipeline", "2"), ("--borders", "5"), ("--batches", "2"), ("--micro-batches", "8")):
            self.assertEqual(command[command.index(option) + 1], value)
        self.assertNotIn("--shard", command)
        way = {**way, "way": "ShardedDataParallel, gradients", "data": 4, "stages": 1, "micro_batches": 1, "first_layers": [0]}
        command = row.replay(way, Path("p"), Path("f"))
        self.assertEqual(command[command.index("--shard") + 1], "gradients")
        self.assertNotIn("--borders", command)

    def test_results_stand_beside_the_plan(self):
        row = HybridRow("tensor 4", "memory")
        row.planned = {"memory_bytes": 90e6}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "results.json").write_text(json.dumps({"peak_bytes": 100e6, "step_s": 1, "step_mean_s": 1}))
            results = row.results(Path(folder))
        self.assertEqual((results["peak_bytes"], results["planned_bytes"]), (100e6, 90e6))

    def test_the_summary_tells_both_orders(self):
        rows = [{"arm": arm, "part": "time", "network": NETWORKS[0], "block": block, "step_s": step, "planned_s": planned}
                for block in (1, 2) for arm, step, planned in (("tensor 4", 1.0, 0.9), ("pipeline 4", 0.8, 1.0))]
        rows.append({"arm": "tensor 4", "part": "memory", "peak_bytes": 100e6, "planned_bytes": 90e6})
        text = hybrid_summary(rows)
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "ensor 4" in line or "pipe" in line]
        self.assertEqual(lines[0][1:], ["pipeline 4", "800", "1,000", "1.25", "1.25 to 1.25", "1", "2"])
        self.assertEqual(lines[1][1:], ["tensor 4", "1,000", "900", "0.90", "0.90 to 0.90", "2", "1"])
        self.assertEqual(lines[2], ["tensor 4", "100", "90", "0.90"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
