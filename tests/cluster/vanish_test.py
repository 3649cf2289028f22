#!/usr/bin/env python3
"""vanish_test.py CLUSTER KOLO SURVIVE: the plug of a host is pulled; the ranks of the others go on as soon as they have noticed."""

import os
import subprocess
import sys
import threading
import time
import unittest

import emulated
from emulated import CLUSTER, call, inside, namespace, wait_for

NAME = f"vanish.{os.getpid()}"
SURVIVE = sys.argv[3]
HOSTS, RANKS = 3, 2  # on each
HEARTBEAT_S = 2
MORE_S = 0.9  # less than regroup() waits for a store that does not answer, and than another heartbeat


class Vanish(unittest.TestCase):
    def setUp(self):
        self.addCleanup(call, CLUSTER, "down", "--name", NAME)
        call(CLUSTER, "up", "--hosts", str(HOSTS), "--name", NAME)
        self.lines = []  # (when, host, line)

    def start(self, rank):
        host = rank // RANKS
        place = {"RANK": rank, "WORLD_SIZE": HOSTS * RANKS, "LOCAL_RANK": rank % RANKS, "LOCAL_WORLD_SIZE": RANKS,
                 "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": 29500, "KOLO_KEY": "a key of this test", "KOLO_LOG": "info",
                 "KOLO_HEARTBEAT": HEARTBEAT_S}
        process = subprocess.Popen(inside(NAME, host, SURVIVE, f"/tmp/{NAME}.{host}", "1000000"), text=True,
                                   env={**os.environ, **{name: str(value) for name, value in place.items()}},
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        reader = threading.Thread(target=lambda: [self.lines.append((time.monotonic(), host, line)) for line in process.stdout])
        reader.start()
        for end in (process.stdout.close, reader.join, process.wait, process.kill):  # called from the last to the first
            self.addCleanup(end)

    def times(self, said):
        return [when for when, host, line in self.lines if host > 0 and said in line]

    def test_no_time_is_lost_for_the_other_rank_of_the_host_and_for_its_store(self):
        for host in range(HOSTS):
            self.addCleanup(lambda path=f"/tmp/{NAME}.{host}": os.path.exists(path) and os.remove(path))
        for rank in range(HOSTS * RANKS):
            self.start(rank)
        wait_for(lambda: any("step 50" in line for _, _, line in self.lines), "the first checkpoint")
        call("ip", "-n", namespace(NAME, 0), "link", "set", "eth0", "down")
        pulled = time.monotonic()
        wait_for(lambda: len(self.times("of 4 (ranks 2, 3, 4, 5, 0 newcomers)")) == 4, "the group of those that are left")
        lost = max(self.times("of 4 (ranks")) - pulled
        self.assertLess(lost, HEARTBEAT_S + MORE_S, "".join(line for _, _, line in self.lines))


if __name__ == "__main__":
    emulated.main(NAME)
