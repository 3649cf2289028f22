#!/usr/bin/env python3
"""Averages during backward and during the next forward give the same losses."""
import sys
import unittest

from results import results_of

KOLO, PROGRAM = sys.argv[1:3]


def train(*arguments, expect=0):
    return results_of(lambda file: [KOLO, "run", "-n", "2", "--", PROGRAM, "--json", file, "--width", "64", "--layers",
                                    "3", "--steps", "30", *arguments], expect)


class Overlap(unittest.TestCase):
    def test_all_ways_give_the_same_losses(self):
        plain = train()
        self.assertLess(plain["loss"][-1], 0.5 * plain["loss"][0], "it learns")
        for options in (("--under", "forward"), ("--borders", "measured"), ("--static-graph",)):
            other = train(*options)
            for one, two in zip(plain["loss"], other["loss"], strict=True):
                self.assertAlmostEqual(one, two, delta=1e-3 * plain["loss"][0])

    def test_options_that_exclude_each_other_are_named(self):
        self.assertIn("static_graph and overlap_forward", train("--under", "forward", "--static-graph", expect=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
