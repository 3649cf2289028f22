#!/usr/bin/env python3
"""train_pipeline: the same curve on one rank and on four, and a profile of its layers."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

from results import results_of

KOLO, PROGRAM = sys.argv[1:3]
SMALL = ["--limit", "1024", "--epochs", "1", "--width", "32", "--blocks", "4", "--batch", "128"]


def train(ranks, *arguments, expect=0):
    return results_of(lambda file: [KOLO, "run", "-n", str(ranks), "--", PROGRAM, "--json", file, *SMALL, *arguments], expect)


class Pipeline(unittest.TestCase):
    def test_stages_learn_what_one_process_does(self):
        whole = train(1, "--micro-batches", "1")
        self.assertEqual(len(whole["loss"]), 8)
        self.assertLess(whole["loss"][-1], 0.9 * whole["loss"][0], "it learns")
        # Two pipelines of four stages on two ranks each.
        parts = train(4, "--replicas", "2", "--schedule", "interleaved", "--chunks", "2", "--borders", "1,3,6",
                      "--micro-batches", "4", "--recompute")
        self.assertEqual((parts["stages"], parts["most_held"]), (4, [5, 3]))
        self.assertEqual(sum(parts["parameters"]), sum(whole["parameters"]))
        self.assertAlmostEqual(parts["test_accuracy"][-1], whole["test_accuracy"][-1], delta=0.5)
        for one, other in zip(whole["loss"], parts["loss"], strict=True):
            self.assertAlmostEqual(one, other, delta=1e-3)

    def test_a_profile_has_what_layers_cost_and_stages_are_cut_by_times(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "profile.json"
            run = train(2, "--partition", "--profile", str(file), "--steps", "2")
            profile = json.loads(file.read_text())
        self.assertEqual(sorted(profile), ["batch", "layers", "name"])
        self.assertEqual((profile["batch"], len(profile["layers"])), (128, 7))
        self.assertEqual(sum(layer["parameters"] for layer in profile["layers"]), sum(run["parameters"]))
        for layer in profile["layers"]:
            self.assertGreater(layer["forward_ms"], 0)
            self.assertGreater(layer["backward_ms"], 0)
        self.assertEqual(profile["layers"][0]["output_bytes"], 4 * 128 * 32)
        self.assertGreater(profile["layers"][3]["activation_bytes"], 4 * 128 * 32)
        self.assertEqual(len(run["borders"]), 1)

    def test_what_cannot_be_is_refused(self):
        self.assertIn("cannot be cut into 1 x 3 equal micro-batches", train(2, "--micro-batches", "3", expect=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
