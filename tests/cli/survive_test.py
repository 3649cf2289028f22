#!/usr/bin/env python3
"""survive_test.py PROGRAM KOLO TOLERANCE: an example that survives its ranks. Any rank is killed for real, and training ends
as if nothing had been, up to TOLERANCE in each number of the result."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

SURVIVE, KOLO, TOLERANCE = sys.argv[1:4]
STEPS = 500
END = re.compile(r"rank \d of (\d) ends at step (\d+) with (?:weights|loss) (.*)")


class Job:
    """kolo run of the example; `kill` is called with the process ids of its ranks once the text `after` is there."""

    def __init__(self, checkpoint, ranks=4, steps=STEPS, after=None, kill=None):
        command = [KOLO, "run", "-n", str(ranks), "--keep-going", "--", SURVIVE, checkpoint, str(steps)]
        self.lines, self.processes = [], {}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            for line in process.stdout:
                self.lines.append(line.strip())
                if found := re.search(r"rank (\d+) of \d+ is process (\d+)", line):
                    self.processes[int(found[1])] = int(found[2])
                if after and after in line:
                    kill(self.processes)
                    after = None
            self.code = process.wait()
        self.text = "\n".join(self.lines)
        self.ends = END.findall(self.text)


def killing(*ranks):
    def kill(processes):
        for rank in ranks:
            os.kill(processes[rank], signal.SIGKILL)
    return kill


class Survive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            undisturbed = Job(os.path.join(folder, "checkpoint"))
        assert undisturbed.code == 0 and len(undisturbed.ends) == 4, undisturbed.text
        cls.expected = [float(number) for number in undisturbed.ends[0][2].split()]

    def check(self, job, left, steps=STEPS):
        self.assertEqual(job.code, 0, job.text)
        self.assertEqual(len(job.ends), left, job.text)
        self.assertEqual(len(set(job.ends)), 1, job.text)
        for size, step, numbers in job.ends:
            self.assertEqual((int(size), int(step)), (left, steps), job.text)
            for number, expected in zip(map(float, numbers.split()), self.expected, strict=True):
                self.assertAlmostEqual(number, expected, delta=float(TOLERANCE))

    def test_any_rank_may_be_killed(self):
        for rank in (2, 0):  # rank 0 writes the checkpoints
            with self.subTest(rank=rank), tempfile.TemporaryDirectory() as folder:
                job = Job(os.path.join(folder, "checkpoint"), after="step 100:", kill=killing(rank))
                self.check(job, left=3)
                self.assertIn(f"lost rank {rank}", job.text)
                start = [int(at) for at in re.findall(r"3 ranks go on from step (\d+)", job.text)]
                self.assertEqual(len(start), 1, job.text)
                self.assertGreaterEqual(start[0], 50)

    def test_several_ranks_may_be_killed_together(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check(Job(os.path.join(folder, "checkpoint"), after="step 100:", kill=killing(0, 3, 1)), left=1)

    def test_a_job_goes_on_where_another_was_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = os.path.join(folder, "checkpoint")
            ended = Job(checkpoint, after="step 100:", kill=killing(0, 1, 2, 3))
            self.assertEqual(ended.code, 128 + signal.SIGKILL)
            resumed = Job(checkpoint, ranks=2)
            self.check(resumed, left=2)
            start = int(re.search(r"2 ranks go on from step (\d+)", resumed.text)[1])
            self.assertGreaterEqual(start, 50)  # that of step 100 may have been under way
            self.assertLess(start, STEPS)
            again = Job(checkpoint, ranks=3)
            self.check(again, left=3)
            self.assertNotRegex(again.text, r"step \d+: loss", "it had ended")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
