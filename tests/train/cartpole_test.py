#!/usr/bin/env python3
"""train_cartpole: it learns on two ranks, equally with Gloo, and refuses impossible options."""
import sys
import unittest

from results import results_of

KOLO, PROGRAM = sys.argv[1:3]


def train(*arguments, expect=0, ranks=2):
    return results_of(lambda file: [KOLO, "run", "-n", str(ranks), "--", PROGRAM, "--json", file, *arguments], expect,
                      OMP_NUM_THREADS="1")


class Cartpole(unittest.TestCase):
    def test_two_ranks_learn_with_either_library(self):
        # The program itself compares the ranks' parameters at its end.
        learned = train("--updates", "2560")
        self.assertEqual(learned["updates"], 2560)
        self.assertEqual(learned["ranks"], 2)
        first, last = learned["returns"][0], learned["returns"][-1]
        self.assertEqual(last[0], learned["steps"])
        self.assertLess(first[1], 40, "a pole that is pushed at random falls after some twenty steps")
        self.assertGreater(last[1], 3 * first[1])
        self.assertGreater(learned["updates_per_s"], 0)
        self.assertEqual(learned["solved_after_steps"], 0)
        try:
            with_gloo = train("--updates", "768", "--communication", "gloo")
        except AssertionError as error:
            if "built without Gloo" not in str(error):
                raise
            return
        # Two ranks' sums have one order.
        self.assertEqual(with_gloo["returns"], learned["returns"][:3])

    def test_it_ends_when_solved(self):
        solved = train("--solved", "40")
        self.assertEqual(solved["solved_after_steps"], solved["steps"])
        self.assertGreaterEqual(solved["mean_return"], 40)
        self.assertLess(solved["steps"], 40_000)

    def test_what_cannot_be_is_refused(self):
        for arguments, says, code in ((("--minibatch", "7"), "minibatches of 7 samples do not divide", 1),
                                      (("--communication", "mpi"), "--communication", 2),
                                      (("--poles", "0"), "--poles", 2)):
            self.assertIn(says, train(*arguments, expect=code))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
