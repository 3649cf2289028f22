#!/usr/bin/env python3
"""kolo with another PyTorch than the system's libtorch, which is installed too: torch_test.py FOLDER SOURCE."""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

FOLDER, SOURCE = (Path(argument) for argument in sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "scripts"))
from index_environments import environment, site_packages  # noqa: E402

BUILD, INSTALLED = FOLDER / "with-torch", FOLDER / "with-torch-installed"


def run(*command):
    return subprocess.run([str(word) for word in command], text=True, check=True, stdout=subprocess.PIPE).stdout


def configure(source, build, prefixes, *options):
    run("cmake", "-S", source, "-B", build, "-G", "Ninja", "-D", "CMAKE_BUILD_TYPE=Release",
        "-D", "CMAKE_CXX_COMPILER_LAUNCHER=ccache", "-D", f"CMAKE_PREFIX_PATH={';'.join(str(prefix) for prefix in prefixes)}",
        "-D", "KOLO_TESTS=OFF", "-D", "KOLO_BENCH=OFF", "-D", "KOLO_EXAMPLES=OFF", "-D", "KOLO_JOIN=ON", *options)


class WithAnotherTorch(unittest.TestCase):
    """Only libraries beside the package that was found are linked; with two PyTorches in a process it dies."""

    @classmethod
    def setUpClass(cls):
        cls.torch = site_packages(environment(FOLDER, "torch2.15")) / "torch"
        cls.prefix = cls.torch / "share/cmake"  # as torch.utils.cmake_prefix_path says
        configure(SOURCE, BUILD, [cls.prefix])
        run("cmake", "--build", BUILD)
        run("cmake", "--install", BUILD, "--prefix", INSTALLED)

    def expect_one_torch(self, program):
        loaded = re.findall(r"^\s*(lib(?:torch|torch_cpu|c10)\.so) => (\S+)", run("ldd", program), re.MULTILINE)
        self.assertTrue(loaded)
        for name, path in loaded:
            self.assertTrue(os.path.samefile(path, self.torch / "lib" / name), f"{name} is {path}")

    def test_the_library(self):
        self.expect_one_torch(BUILD / "lib/libkolo_train.so")

    def test_a_project_that_finds_the_installation_trains(self):
        build = FOLDER / "with-torch-project"
        # A program's linker looks for the NCCL that PyTorch needs in the CUDA toolkit first, where it may be an older one.
        beside = ":".join(str(folder) for folder in self.torch.parent.glob("nvidia/*/lib"))
        configure(SOURCE / "examples/consumer/train", build, [INSTALLED, self.prefix],
                  *(["-D", f"CMAKE_EXE_LINKER_FLAGS=-Wl,-rpath-link,{beside}"] if beside else []))
        run("cmake", "--build", build)
        self.expect_one_torch(build / "program")
        print(run(INSTALLED / "bin/kolo", "run", "-n", "2", "--", build / "program"))


class TheBackend(unittest.TestCase):
    """What of kolo_torch only this PyTorch has."""

    def test_groups_whose_ranks_change(self):
        build, python = FOLDER / "with-torch-backend", environment(FOLDER, "torch2.15") / "bin/python"
        configure(SOURCE, build, [], "-D", "KOLO_TORCH=ON", "-D", f"Python3_EXECUTABLE={python}", "-D", "KOLO_TRAIN=OFF",
                  "-D", "KOLO_CLI=OFF", "-D", "KOLO_INSTALL=OFF")
        run("cmake", "--build", build, "--target", "kolo_torch")
        run("env", f"PYTHONPATH={build / 'python'}", "OMP_NUM_THREADS=1", python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider",
            SOURCE / "tests/torch/test_reconfigure.py")


unittest.main(argv=sys.argv[:1], verbosity=2)
