#!/usr/bin/env python3
"""train_fashion_mnist --synchronization: each way learns, ends with equal models, and sends the stated bytes."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

KOLO, PROGRAM = sys.argv[1:3]
RANKS = 4
STEPS = 64  # an epoch of 16,384 images, which is evaluated once


def train(*arguments, ranks=RANKS, expect=0):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([KOLO, "run", "-n", str(ranks), "--", PROGRAM, "--output", folder, "--limit", "16384", "--epochs",
                               "1", *arguments], text=True, timeout=100, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**os.environ, "KOLO_ALGORITHM": "ring"})
        if done.returncode != expect:
            raise AssertionError(f"exit code {done.returncode}\n{done.stdout}")
        metrics = Path(folder) / "metrics.json"
        return json.loads(metrics.read_text()) if metrics.exists() else done.stdout


class Synchronization(unittest.TestCase):
    def learn(self, *arguments, accuracy=70, averages, of_a_ring):
        """`averages`: how often the whole model was sent; `of_a_ring`: the bytes as a share of a ring's."""
        found = train("--synchronization", *arguments, "--require-accuracy", str(accuracy))
        communication = found["communication"]
        # Without the first step.
        expected = averages * of_a_ring * communication["ring_bytes_per_step"] / (STEPS - 1)
        self.assertAlmostEqual(communication["sent_bytes_per_step"], expected, delta=0.05 * expected)
        return found

    def test_averages_of_gradients_arrive_late(self):
        self.learn("late", "--momentum", "0.5", averages=STEPS, of_a_ring=1, accuracy=55)

    def test_models_meet_in_pairs(self):
        # And all bytes once at the end.
        self.learn("gossip", "--period", "1", averages=STEPS - 1 + 1.5, of_a_ring=1 / 1.5)

    def test_models_are_averaged_now_and_then(self):
        self.learn("local", "--period", "16", averages=STEPS // 16, of_a_ring=1)
        # The models differ nearly all the time.
        self.learn("local", "--period", "60", averages=2, of_a_ring=1, accuracy=40)

    def test_gradients_are_averaged_first(self):
        found = self.learn("post-local", "--period", "16", "--averaged-epochs", "0.25", averages=15 + 4, of_a_ring=1)
        self.assertEqual(found["options"]["averaged_epochs"], 0.25)

    def test_an_outer_optimizer_steps(self):
        self.learn("local", "--period", "4", "--outer-lr", "0.7", "--outer-momentum", "0.5", averages=STEPS // 4, of_a_ring=1)

    def test_what_does_not_go_together_is_refused(self):
        def refused(*arguments):
            return train("--synchronization", *arguments, ranks=2, expect=1)

        self.assertIn("a period of 0 steps", refused("local", "--period", "0"))
        self.assertIn("excludes --hook", refused("late", "--hook", "int8"))
        self.assertIn("momentum of 1.5", refused("local", "--outer-lr", "1", "--outer-momentum", "1.5"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
