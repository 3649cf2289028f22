"""whole_test.py PROJECT PROGRAMS: a demo of a minute, whose first machine, which serves the store, loses its plug."""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROJECT, PROGRAMS = map(Path, sys.argv[1:3])


class DemoTest(unittest.TestCase):
    def test_trains_every_sample_once_whatever_happens(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([PROJECT / "scripts/demo", "--seconds", "60", "--pull", "0", "--words", "60000", "--vocabulary", "5000",
                                   "--tokens", "256", "--programs", PROGRAMS, "--output", folder], capture_output=True, text=True)
            if done.returncode == 77:
                sys.exit(77)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for said in ("the plug of machine 0 is pulled", "3 machines go on at step", "4 machines train from step"):
                self.assertIn(said, done.stdout)
            epochs = re.findall(r"^ +(\d+) +([\d,]+) +(\d+) +([\d,]+)$", done.stdout, re.MULTILINE)
            self.assertGreater(len(epochs), 0, done.stdout)
            for epoch, once, missing, more in epochs:
                self.assertEqual(int(missing), 0, done.stdout)
                # An epoch's last step is filled up, so that all ranks have as many.
                self.assertLess(int(more.replace(",", "")), 4, done.stdout)
            self.assertIn("The samplers' record", (Path(folder) / "index.html").read_text())
        names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        self.assertNotIn("demo", names, "machines are left")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
