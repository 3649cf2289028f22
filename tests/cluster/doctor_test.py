#!/usr/bin/env python3
"""kolo doctor on an emulated cluster: it finds each deliberate fault."""

import json
import os
import subprocess
import unittest

import emulated
from emulated import CLUSTER, KOLO, call, namespace

NAME = f"doctor.{os.getpid()}"
TIMEOUT_S = 100


def ip(host, *arguments):
    call("ip", "-n", namespace(NAME, host), *arguments)


class Doctor(unittest.TestCase):
    def setUp(self):
        # Host 2's link has a tenth of the bandwidth of the other links.
        call(CLUSTER, "up", "--hosts", "3", "--name", NAME, "--rate", "500mbit", "--rate-of", "2=50mbit")

    def tearDown(self):
        call(CLUSTER, "down", "--name", NAME)

    def examine(self, expect, script='exec "$@"'):
        """`script` starts kolo doctor in each host."""
        done = subprocess.run([CLUSTER, "run", "--name", NAME, "--no-prefix", "--", "sh", "-c", script, "sh", KOLO, "doctor",
                               "--json"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        found = json.loads(done.stdout)
        self.problems = [one["what"] for one in found["findings"] if one["severity"] == "problem"]
        self.warnings = [one["what"] for one in found["findings"] if one["severity"] == "warning"]
        return found

    def test_measures_what_the_links_give(self):
        found = self.examine(0)
        self.assertEqual(self.problems, [])
        self.assertEqual([dial["outcome"] for dial in found["dials"]], ["ok"] * 6)
        for dial in found["dials"]:
            self.assertEqual((dial["card"]["name"], dial["card"]["family"], dial["card"]["mtu"]), ("eth0", "IPv4", 1500))
        for pair in found["pairs"]:
            limit = 6.25e6 if pair["to"] == 2 else 62.5e6
            for measured in (pair["there"], pair["back"]):
                # Bursts are short, and the machine may be busy, so only a tenth of the bandwidth is a reliable difference.
                self.assertLess(measured, 2 * limit, pair)
                self.assertGreater(measured, 0.2 * limit, pair)
            self.assertLess(abs(pair["clock_s"]), 0.1)

    def test_tells_who_cannot_reach_whom(self):
        ip(2, "route", "add", "unreachable", "10.77.0.2/32")
        found = self.examine(1)
        outcomes = {(dial["from"], dial["to"]): dial["outcome"] for dial in found["dials"] if dial["outcome"] != "ok"}
        # Host 2 cannot send to host 1, not even answers.
        self.assertEqual(outcomes, {(2, 1): "no route", (1, 2): "silent"})
        self.assertEqual(len(self.problems), 2)
        self.assertTrue(any(what.startswith("10.77.0.2 cannot reach 10.77.0.3: no answer") for what in self.problems))
        self.assertEqual([(pair["from"], pair["to"]) for pair in found["pairs"]], [(0, 1), (0, 2)])

    def test_compares_hosts(self):
        ip(1, "link", "set", "eth0", "mtu", "1400")
        self.examine(1, 'ulimit -n 60; exec "$@"')
        self.assertEqual(len(self.problems), 1)
        self.assertIn("a process may open 60 files", self.problems[0])
        self.assertTrue(any("1400 (10.77.0.2), 1500 (10.77.0.1, 10.77.0.3)" in what for what in self.warnings),
                        self.warnings)

    def test_names_a_rank_that_does_not_come(self):
        self.examine(1, '[ $RANK = 2 ] && export KOLO_KEY=another; exec "$@"')
        self.assertEqual(len(self.problems), 1)
        self.assertIn("rank 2 of 3 did not come", self.problems[0])


if __name__ == "__main__":
    emulated.main(NAME)
