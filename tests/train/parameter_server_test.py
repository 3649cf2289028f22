#!/usr/bin/env python3
"""The parameter servers with real ranks: each rule learns, a killed server comes back, a killed worker is
dropped, and all ranks refuse impossible options."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

KOLO, PROGRAM = sys.argv[1:3]
TIMEOUT_S = 150
# One epoch, because each ends with an evaluation, which takes as long as a small epoch.
EPOCH = ["--epochs", "1"]
SMALL = ["--limit", "12288"]
BATCH = ["--batch", "96"]  # which 2, 3 and 4 workers divide


def command(ranks, *arguments, run=()):
    return [KOLO, "run", "-n", str(ranks), *run, "--", PROGRAM, *EPOCH, *(SMALL if "--limit" not in arguments else []), *(BATCH if "--batch" not in arguments else []), *arguments]


def finished(process, expect=0):
    said, _ = process.communicate(timeout=TIMEOUT_S)
    if process.returncode != expect:
        raise AssertionError(f"exit code {process.returncode}\n{said}")
    return said


def begin(ranks, *arguments, run=(), output=subprocess.PIPE):
    return subprocess.Popen(command(ranks, *arguments, run=run), text=True, stdout=output, stderr=subprocess.STDOUT)


def read(output):
    """The output of a job so far; the position in the file belongs to the job too."""
    return os.pread(output.fileno(), 1 << 20, 0).decode()


def train(ranks, *arguments, expect=0):
    """The output, and metrics.json."""
    with tempfile.TemporaryDirectory() as folder:
        said = finished(begin(ranks, "--output", folder, *arguments), expect)
        file = Path(folder) / "metrics.json"
        return said, json.loads(file.read_text()) if file.exists() else None


def wait_for(found, process):
    """Waits until `found` returns a value, while the process runs."""
    while process.poll() is None:
        if result := found():
            return result
        time.sleep(0.05)
    raise AssertionError(f"it ended too soon\n{process.communicate()[0]}")


def rank_process(job, rank):
    """The process of a rank; None before it starts."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = re.search(r"^PPid:\s*(\d+)", (entry / "status").read_text(), re.MULTILINE)
            if int(parent[1]) == job and f"\0RANK={rank}\0" in "\0" + (entry / "environ").read_text():
                return int(entry.name)
        except OSError:
            continue
    return None


class ParameterServer(unittest.TestCase):
    def test_each_rule_learns(self):
        for rule in (["synchronous"], ["unbounded"], ["clocks", "--staleness", "1"],
                     ["versions", "--staleness", "2", "--late", "divide"]):
            said, metrics = train(4, "--servers", "2", "--require-accuracy", "70", "--rule", *rule)
            self.assertIn("wrote", said)
            pushes = sum(metrics["staleness_histogram"])
            self.assertEqual(pushes, sum(worker["steps"] for worker in metrics["workers"]))
            self.assertEqual(metrics["servers"][0]["updates"], metrics["workers"][0]["steps"] if rule == ["synchronous"] else pushes)
            for worker in metrics["workers"]:
                self.assertEqual(len(worker["staleness"]), worker["steps"], "one of each push")

    def test_weights_are_averaged(self):
        train(3, "--push", "weights", "--local-steps", "4", "--require-accuracy", "70")

    def test_a_server_that_is_killed_goes_on(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
            process = begin(4, "--servers", "2", "--limit", "24576", "--checkpoint", folder, "--checkpoint-every", "20",
                            "--restarts", "1", "--rule", "unbounded", "--require-accuracy", "70", output=output)
            wait_for(lambda: re.search(r"step +([2-9]\d|\d{3})", read(output)), process)
            os.kill(int(re.search(r"server 1: serves as process (\d+)", read(output))[1]), signal.SIGKILL)
            self.assertEqual(process.wait(TIMEOUT_S), 0, read(output))
            said = read(output)
            self.assertIn("was ended by signal 9", said)
            self.assertRegex(said, r"server 1: goes on from .*server1 at update [1-9]\d*0\n")

    def test_a_worker_that_is_killed_is_dropped(self):
        for rule in ("synchronous", "clocks"):
            with tempfile.TemporaryFile("w+") as output:
                process = begin(4, "--limit", "18432", "--rule", rule, "--require-accuracy", "70", run=["--keep-going"], output=output)
                wait_for(lambda: re.search(r"step +[1-9]", read(output)), process)
                os.kill(rank_process(process.pid, 3), signal.SIGKILL)
                self.assertEqual(process.wait(TIMEOUT_S), 0, read(output))
                self.assertIn("worker 2 is dropped", read(output))

    def test_what_cannot_be_is_refused_by_all_ranks(self):
        def refused(*arguments):
            said, _ = train(3, *arguments, expect=1)
            return said

        self.assertIn("rank 0: a staleness of -1", refused("--rule", "clocks", "--staleness", "-1"))
        self.assertIn("there is no worker", refused("--servers", "3"))
        self.assertIn("there is no server", refused("--servers", "0"))
        self.assertIn("which 2 workers do not divide", refused("--batch", "127"))
        self.assertIn("rank 1: cannot open /nowhere/train-images", refused("--data", "/nowhere"))
        alone = subprocess.run([PROGRAM], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S,
                               env={**os.environ, "RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1",
                                    "MASTER_PORT": "29811"}, check=False)
        self.assertEqual(alone.returncode, 1)
        self.assertIn("rank 0 would serve the store", alone.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
