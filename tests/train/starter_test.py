#!/usr/bin/env python3
"""The program to copy: two ranks learn, and a job that is started again goes on from its checkpoint."""

import glob
import gzip
import os
import re
import subprocess
import sys
import tempfile
import unittest

KOLO, PROGRAM = sys.argv[1:3]
IMAGES = "/usr/share/datasets/fashion-mnist/*.gz"


class Starter(unittest.TestCase):
    def start(self, *arguments, expect=0):
        done = subprocess.run([KOLO, "run", "-n", "2", "--", PROGRAM, *arguments], text=True, timeout=100,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, expect, done.stdout)
        return done.stdout

    def test_it_learns_and_goes_on(self):
        with tempfile.TemporaryDirectory() as data:
            for path in glob.glob(IMAGES):
                with gzip.open(path) as packed, open(f"{data}/{os.path.basename(path)[:-3]}", "wb") as file:
                    file.write(packed.read())
            run = f"{data}/run"
            for first, steps in ((0, 30), (30, 40)):
                said = self.start(data, str(steps), run)
                self.assertIn(f"2 ranks begin at step {first}\n", said)
                step, loss, right = re.search(r"step (\d+): loss (\S+), (\S+) % right\n", said).groups()
                self.assertEqual(int(step), steps)
                self.assertLess(float(loss), 1.8)
                self.assertGreater(float(right), 40)

    def test_missing_data_is_named(self):
        self.assertIn("/nowhere/train-images-idx3-ubyte", self.start("/nowhere", "10", expect=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
