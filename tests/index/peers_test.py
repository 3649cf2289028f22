#!/usr/bin/env python3
"""kolo bench beside the MPIs and the oneCCL of today: peers_test.py FOLDER SOURCE."""
import json
import subprocess
import sys
import unittest
from pathlib import Path

FOLDER, SOURCE = (Path(argument) for argument in sys.argv[1:3])
BUILD = FOLDER / "with-peers"
SAYS = {"openmpi5": "Open MPI v5.0.11", "mpich5": "MPICH Version: 5.0.2", "intelmpi": "Intel(R) MPI Library 2021.18.1",
        "oneccl": "oneCCL 2022.2.0"}


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1500)
    assert done.returncode == 0, done.stdout
    return done.stdout


class Peers(unittest.TestCase):
    def test_all_are_built_run_and_verified(self):
        run(SOURCE / "scripts/peers-of-today", FOLDER)
        run("cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", "-D", "CMAKE_BUILD_TYPE=Release",
            "-D", "CMAKE_CXX_COMPILER_LAUNCHER=ccache", "-D", "KOLO_TRAIN=OFF", "-D", "KOLO_TESTS=OFF", "-D", "KOLO_EXAMPLES=OFF",
            "-D", "KOLO_JOIN=ON", "-D", f"KOLO_PEERS={FOLDER}")
        run("cmake", "--build", BUILD)
        for what in (["--sizes", "8,70001"], ["--sizes", "8,5000", "--tensors", "3", "--calls-a-barrier", "2"]):
            output = run(BUILD / "bin/kolo", "bench", "all_reduce", "--ranks", "2", "--iterations", "10", *what,
                         "--against", ",".join(SAYS), "--json", BUILD / "lines")
            lines = [json.loads(line) for line in (BUILD / "lines").read_text().splitlines()]
            for peer, version in SAYS.items():
                rows = [line for line in lines if line.get("library") == peer]
                self.assertEqual([row["wrong"] for row in rows], [0, 0], output)
                self.assertTrue(rows[0]["version"].startswith(version), rows[0])


unittest.main(argv=sys.argv[:1], verbosity=2)
