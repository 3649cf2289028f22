#!/usr/bin/env python3
"""Launchers of today start a program of kolo's as it is: launchers_test.py FOLDER PROGRAM."""
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from index_environments import environment  # noqa: E402

FOLDER, PROGRAM = sys.argv[1:3]
RANKS = 3


class Launchers(unittest.TestCase):
    def expect_sum(self, *command, **variables):
        done = subprocess.run([*command, PROGRAM], env={**os.environ, **variables}, text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        for rank in range(RANKS):
            self.assertIn(f"rank {rank} of {RANKS}: the sum is 6", done.stdout)

    def test_intel_mpi(self):
        place = environment(FOLDER, "intelmpi")
        self.expect_sum(place / "bin/mpiexec", "-n", str(RANKS), I_MPI_ROOT=str(place),
                        FI_PROVIDER_PATH=str(place / "lib/libfabric"))

    def test_open_mpi(self):
        place = environment(FOLDER, "openmpi5")
        self.expect_sum(place / "bin/mpirun", "-n", str(RANKS), "--map-by", ":OVERSUBSCRIBE",
                        OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def test_mpich(self):
        place = environment(FOLDER, "mpich5")
        self.expect_sum(place / "bin/mpiexec", "-n", str(RANKS))

    def test_torchrun(self):
        place = environment(FOLDER, "torch2.15")
        self.expect_sum(place / "bin/torchrun", "--standalone", "--no-python", "--nproc-per-node", str(RANKS))


unittest.main(argv=sys.argv[:1], verbosity=2)
