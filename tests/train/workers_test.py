#!/usr/bin/env python3
"""The program that trains by replicas or by ranks: both learn, and the same."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

KOLO, PROGRAM = sys.argv[1:3]


def train(number, workers, *arguments, expect=0):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "results.json")
        command = [PROGRAM, "--workers", workers, "--json", file, "--batch", "64", "--hidden", "32", *arguments]
        command = [*command, "--replicas", str(number)] if workers == "replicas" else [KOLO, "run", "-n", str(number), "--", *command]
        done = subprocess.run(command, text=True, timeout=100, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != expect:
            raise AssertionError(f"exit code {done.returncode}\n{done.stdout}")
        if expect != 0:
            return done.stdout
        with open(file, encoding="utf-8") as results:
            return json.load(results)


class Workers(unittest.TestCase):
    def test_replicas_and_ranks_learn_the_same(self):
        runs = [train(number, workers, "--steps", "20")
                for number, workers in ((2, "ranks"), (2, "replicas"), (3, "replicas"))]
        self.assertLess(runs[0]["loss"][-1], 0.7 * runs[0]["loss"][0], "it learns")
        for run in runs[1:]:
            self.assertEqual(len(run["loss"]), 20)
            for one, other in zip(runs[0]["loss"], run["loss"], strict=True):
                self.assertAlmostEqual(one, other, delta=2e-3)

    def test_a_batch_that_ranks_cannot_share_is_refused(self):
        self.assertIn("a batch of 64 cannot be shared by 3 ranks", train(3, "ranks", expect=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
