#!/usr/bin/env python3
"""torchrun_test.py PROGRAM: the example whose ranks come and go, under torchrun's elastic agent, which restarts all ranks for one."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SURVIVE = sys.argv[1]
STEPS = 3000  # the agent shows a rank's lines after up to 0.1 s


class UnderTheAgent(unittest.TestCase):
    def test_a_job_whose_ranks_are_killed_ends_from_its_checkpoint(self):
        def give_up(*_):
            os.killpg(agent.pid, signal.SIGKILL)

        with tempfile.TemporaryDirectory() as folder:
            # Its default, no redirection, fails where Python is newer than torch 1.13.
            agent = subprocess.Popen(
                ["torchrun", "--standalone", "--nnodes", "1", "--nproc_per_node", "3", "--max_restarts", "3", "--monitor_interval", "0.1",
                 "-r", "1", "-t", "1", "--log_dir", f"{folder}/log", "--no_python", SURVIVE, f"{folder}/checkpoint", str(STEPS)],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"})
            self.addCleanup(agent.stdout.close)
            signal.signal(signal.SIGALRM, give_up)
            signal.alarm(100)
            text, pids, victims = "", {}, [1, 0]
            for line in agent.stdout:
                text += line
                if found := re.search(r"rank (\d) of 3 is process (\d+)", line):
                    pids[int(found[1])] = int(found[2])
                if "step " in line and "loss" in line and len(pids) == 3 and victims:
                    os.kill(pids[victims.pop(0)], signal.SIGKILL)
                    pids = {}
            signal.alarm(0)
            self.assertEqual(agent.wait(), 0, text)
        starts = [int(step) for step in re.findall(r"3 ranks go on from step (\d+)", text)]
        self.assertEqual(len(starts), 3, text)
        self.assertTrue(0 == starts[0] < starts[1] < starts[2], text)
        ends = re.findall(rf"rank \d of 3 ends at step {STEPS} with weights(.*)", text)
        self.assertEqual(len(ends), 3, text)
        self.assertEqual(len(set(ends)), 1, text)


if __name__ == "__main__":
    if shutil.which("torchrun") is None:
        print("skipped: there is no torchrun here (python3-torch)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
