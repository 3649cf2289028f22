#!/usr/bin/env python3
"""scripts/compare-network speaks to the programs of this build: kolo beside plain sockets, two ranks over loopback."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT, PROGRAMS = sys.argv[1:3]


class CompareNetwork(unittest.TestCase):
    def test_each_library_is_measured_at_each_size(self):
        with tempfile.TemporaryDirectory() as folder:
            results = os.path.join(folder, "results.jsonl")
            done = subprocess.run([SCRIPT, "--loopback", "2", "--sizes", "8,64K", "--peers", "exchange", "--rounds", "1",
                                   "--seconds", "0.05", "--programs", PROGRAMS, "--json", results], text=True, timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout)
            rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("|")][2:]
            self.assertEqual([row[0].strip() for row in rows], ["8", "64K"], done.stdout)
            for row in rows:
                self.assertGreater(float(row[1]), 0, done.stdout)
                self.assertGreater(float(row[3]), 0, done.stdout)
                self.assertEqual(row[-1].strip(), "0", done.stdout)
            with open(results, encoding="utf-8") as file:
                self.assertTrue([json.loads(line) for line in file])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
