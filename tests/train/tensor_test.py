#!/usr/bin/env python3
"""The divided transformer with real ranks: the losses of one rank, the bytes of the formulas, a profile, refused options."""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

from results import results_of

KOLO, PROGRAM = sys.argv[1:3]
WORDS = "gradient ring sum worker bucket bytes of the and sends receives each".split()
STEPS = 8
SMALL = {"--width": 16, "--layers": 1, "--heads": 4, "--context": 12, "--batch": 2, "--experts": 4, "--steps": STEPS, "--progress": "none"}


def words(options):
    return [str(word) for option in {**SMALL, **options}.items() for word in option]


class Tensor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.text = os.path.join(cls.folder.name, "text")
        draw = random.Random(1)
        with open(cls.text, "w", encoding="utf-8") as file:
            for number in range(400):
                file.write(f"word{number:04}\n    n 1: {' '.join(draw.choice(WORDS) for _ in range(12))};\n")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def train(self, ranks, options, expect=0):
        return results_of(lambda file: [KOLO, "run", "-n", str(ranks), "--", PROGRAM, "--text", self.text, *words(options), "--json",
                                        file], expect)

    def test_two_ranks_learn_as_one_does(self):
        # Division makes no difference to one rank.
        for modes, dropout in ((("tensor", "sequence"), 0.1), (("experts",), 0), (("branches",), 0), (("ulysses", "ring"), 0)):
            one = self.train(1, {"--mode": modes[0], "--dropout": dropout})
            self.assertEqual(len(one["loss"]), STEPS)
            self.assertEqual(one["parameters"], one["parameters_of_a_rank"])
            self.assertLess(one["loss"][-1], one["loss"][0])
            for mode in modes:
                with self.subTest(mode=mode):
                    two = self.train(2, {"--mode": mode, "--dropout": dropout})
                    self.assertEqual(one["parameters"], two["parameters"])
                    for a, b in zip(one["loss"], two["loss"], strict=True):
                        self.assertAlmostEqual(a, b, delta=1e-4)
                    share = two["parameters_of_a_rank"] / two["parameters"]
                    if mode in ("ulysses", "ring"):
                        self.assertEqual(share, 1)
                    else:
                        self.assertLess(share, 0.55)

    def test_a_profile_has_what_a_plan_needs(self):
        file = os.path.join(self.folder.name, "profile.json")
        subprocess.run([PROGRAM, *words({"--profile": file})], check=True, timeout=60)
        with open(file, encoding="utf-8") as profile:
            found = json.load(profile)
        self.assertEqual(found["batch"], 2)
        self.assertEqual([layer["name"] for layer in found["layers"]], ["embedding", "block_1", "head"])
        for layer in found["layers"]:
            for name in ("parameters", "activation_bytes", "output_bytes", "forward_ms", "backward_ms", "tensor_sums"):
                self.assertGreater(layer[name], 0, name)
        self.assertEqual(found["layers"][1]["tensor_sums"], 2 * 4 * 2 * 12 * 16)

    def test_what_cannot_be_divided_is_refused(self):
        for options, says in (({"--heads": 1}, "ParallelAttention: rank 0: 1 heads cannot be divided among 2 ranks"),
                              ({"--profile": "/nowhere"}, "--profile measures on one rank")):
            self.assertIn(says, self.train(2, options, expect=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
