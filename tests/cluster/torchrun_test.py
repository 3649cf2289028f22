#!/usr/bin/env python3
"""kolo under torchrun: its agents in the hosts of an emulated cluster, with both of its rendezvous backends."""

import os
import shutil
import subprocess
import tempfile
import time
import unittest

import emulated
from emulated import CLUSTER, KOLO, call, inside

NAME = f"torchrun.{os.getpid()}"
TIMEOUT_S = 60
HOSTS = ("a", "b")
KEY = "a key of this test"
BENCH = (KOLO, "bench", "all_reduce", "--sizes", "100000", "--iterations", "3")


def script_of(torchrun):
    """The program's interpreter, which has torch; the Python in PATH may have none."""
    with open(torchrun, encoding="utf-8", errors="replace") as file:
        line = file.readline()
    return [*line[2:].split(), torchrun] if line.startswith("#!") else [torchrun]


class UnderTorchrun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.torchrun = script_of(shutil.which("torchrun"))
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.addClassCleanup(emulated.take_names, NAME)
        cls.addClassCleanup(call, CLUSTER, "down", "--name", NAME)
        call(CLUSTER, "up", "--hosts", str(len(HOSTS)), "--name", NAME)
        emulated.give_names(NAME, HOSTS)

    def agents(self, per_host, *options, program, key=KEY):
        """One agent on each host, each with its own name. Returns the exit codes and the output of all."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KOLO_")}
        environment["KOLO_TABLE"] = "none"
        if key:
            environment["KOLO_KEY"] = key
        running = []
        for host, (name, ranks) in enumerate(zip(HOSTS, per_host)):
            # Its default, no redirection, fails where Python is newer than torch 1.13.
            agent = [*self.torchrun, "--nnodes", "2", "--nproc_per_node", str(ranks), "-r", "1", "-t", "1", "--log_dir",
                     f"{self.folder.name}/{name}", *(option.format(host=host) for option in options), "--no_python",
                     *program]
            command = inside(NAME, host, "unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh", *agent)
            running.append(subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT))
        give_up = time.monotonic() + TIMEOUT_S
        late = False
        texts = []
        for agent in running:
            try:
                texts.append(agent.communicate(timeout=max(give_up - time.monotonic(), 0.1))[0])
            except subprocess.TimeoutExpired:
                late = True
                agent.terminate()  # it ends its ranks, which hold the other end of the pipe
                try:
                    texts.append(agent.communicate(timeout=20)[0])
                except subprocess.TimeoutExpired:
                    agent.kill()
        self.assertFalse(late, "not at its end in time:\n" + "".join(texts))
        return [agent.returncode for agent in running], "".join(texts)

    def expect_right(self, codes, out, ranks):
        self.assertEqual(codes, [0, 0], out)
        self.assertIn(f"all_reduce, {ranks} ranks over shm+tcp", out)
        self.assertIn("All results are right", out)

    def dynamic(self, *options):
        return ("--rdzv_backend", "c10d", "--rdzv_endpoint", "a:29500", "--rdzv_id", self.id(), *options)

    def test_dynamic_rendezvous(self):
        self.expect_right(*self.agents((2, 2), *self.dynamic(), program=BENCH), ranks=4)

    def test_static_rendezvous_beside_its_store(self):
        self.expect_right(*self.agents((2, 2), "--master_addr", "a", "--master_port", "29500", "--node_rank", "{host}",
                                       program=BENCH), ranks=4)

    def test_a_restarted_job_meets_again(self):
        # In the first run rank 3 dies in the middle. torchrun stops the other ranks and restarts all.
        script = f"{self.folder.name}/once"
        with open(script, "w", encoding="utf-8") as file:
            file.write("times=3\n"
                       '[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && times=1000000\n'
                       '[ "$RANK$TORCHELASTIC_RESTART_COUNT" = 30 ] && { sleep 2; kill -KILL $$; } &\n'
                       f"exec {KOLO} bench all_reduce --sizes 100000 --iterations $times\n")
        codes, out = self.agents((2, 2), *self.dynamic("--max_restarts", "2"), program=("sh", script))
        self.expect_right(codes, out, ranks=4)
        self.assertIn("lost rank 3", out)

    def test_without_a_key_ranks_are_told_what_to_set(self):
        codes, out = self.agents((1, 1), *self.dynamic(), program=BENCH, key=None)
        self.assertNotEqual(codes, [0, 0], out)
        self.assertIn("KOLO_KEY", out)


if __name__ == "__main__":
    if shutil.which("torchrun") is None:
        emulated.skip("there is no torchrun here (python3-torch)")
    emulated.main(NAME)
