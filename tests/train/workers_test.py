#!/usr/bin/env python3
"""Training by replicas and by ranks: both learn, and equally."""
import sys
import unittest

from results import results_of

KOLO, PROGRAM = sys.argv[1:3]


def train(number, workers, *arguments, expect=0):
    def command(file):
        train = [PROGRAM, "--workers", workers, "--json", file, "--batch", "64", "--hidden", "32", *arguments]
        return [*train, "--replicas", str(number)] if workers == "replicas" else [KOLO, "run", "-n", str(number), "--", *train]
    return results_of(command, expect)


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
