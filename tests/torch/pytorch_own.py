#!/usr/bin/env python3
"""PyTorch's own distributed tests, which its wheel ships, over Gloo, kolo, and kolo under the name gloo, side by side.

    python tests/torch/pytorch_own.py [-k PART] [--size RANKS] [--over gloo kolo as-gloo] [--log FILE]

Needs PyTorch 2.15, kolo_torch, numpy, expecttest and hypothesis. For `kolo` the word gloo in the tests is kolo. Ends with 1 if a test that
passes over Gloo fails over kolo or is left out there.
"""
import argparse
import importlib.machinery
import json
import os
import re
import subprocess
import sys
import time
import unittest

NAMES = {"gloo": "gloo", "kolo": "kolo", "as-gloo": "gloo"}
TIMEOUT = 60  # seconds a test


class WithKolo(importlib.machinery.SourceFileLoader):
    """Loads a module of PyTorch's tests as if it had been written for the backend kolo."""

    def get_code(self, name):
        text = self.get_source(name)
        logged = '.get("backend_name") == "gloo"'  # what DDP logs of Gloo alone
        text = re.sub(r'(?<!== )"gloo"', '"kolo"', text.replace(logged, logged.replace('"gloo"', '"%"')))
        text = re.sub(r'(?<=[=!]= )"gloo"', '"kolo"', text).replace('"%"', '"gloo"')
        text = text.replace('BACKEND != "mpi", "Only MPI', 'BACKEND != "kolo", "Only MPI')  # all_to_all
        return compile(text.replace("Backend.GLOO", "Backend.KOLO"), self.path, "exec", dont_inherit=True)


class Finder:
    @staticmethod
    def find_spec(name, path, target=None):
        if not name.startswith("torch.testing._internal.") or name.endswith(("common_utils", "common_distributed")):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.origin:
            spec.loader = WithKolo(name, spec.origin)
        return spec


class Result(unittest.TestResult):
    """Prints a line of JSON for each test."""

    def startTest(self, test):
        super().startTest(test)
        self.begin, self.outcome, self.text = time.monotonic(), "passed", ""

    def addSkip(self, test, reason):
        self.outcome, self.text = "skipped", reason

    def addError(self, test, error):
        self.outcome, self.text = "failed", self._exc_info_to_string(error, test)

    addFailure = addError

    def addExpectedFailure(self, test, error):
        pass

    def stopTest(self, test):
        line = {"test": test._testMethodName, "outcome": self.outcome, "seconds": round(time.monotonic() - self.begin, 2)}
        print(json.dumps(dict(line, text=self.text)), flush=True)


def run_tests(over, part):
    """In a process of its own: the tests read the environment when they are imported."""
    import torch
    if over != "gloo":
        import kolo_torch  # noqa: F401
    if over == "kolo":
        sys.meta_path.insert(0, Finder)
    from torch.testing._internal import common_distributed, common_utils
    common_utils.TestCase.run = unittest.TestCase.run  # no lists of slow and disabled tests
    common_distributed.get_timeout = lambda test: TIMEOUT
    common_distributed.skip_if_small_worldsize = lambda test: test  # asks for 8 ranks where 3 do
    for features in common_distributed.DistTestCases.backend_feature.values():
        if "gloo" in features:
            features.add("kolo")
    from torch.testing._internal.distributed import ddp_under_dist_autograd_test, distributed_test
    from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import TensorPipeRpcAgentTestFixture

    if over == "as-gloo":  # the profiler's events are still named kolo:all_reduce
        find = distributed_test.get_profiling_event
        distributed_test.get_profiling_event = lambda name, *more, **options: find(name.replace("gloo:", "kolo:"), *more, **options)

    # Forked ranks need not import PyTorch.
    def start(test):
        test._start_processes(torch.multiprocessing.get_context("fork").Process)

    class Own(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            start(self)

    class WithRpc(TensorPipeRpcAgentTestFixture, common_distributed.MultiProcessTestCase):
        def setUp(self):
            super().setUp()
            start(self)

    class Autograd(ddp_under_dist_autograd_test.DdpUnderDistAutogradTest, WithRpc):
        pass

    class Comparison(ddp_under_dist_autograd_test.DdpComparisonTest, WithRpc):
        pass

    suite = unittest.TestSuite()
    for case in (Own, Autograd, Comparison):
        case.__qualname__ = case.__name__
        for name in unittest.TestLoader().getTestCaseNames(case):
            if re.search(part, name):
                suite.addTest(case(name))
    suite.run(Result())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="PART", help="a regular expression that names contain")
    parser.add_argument("--size", type=int, default=4)
    parser.add_argument("--over", nargs="*", default=list(NAMES), choices=NAMES)
    parser.add_argument("--log", default="build/pytorch_own", help="the lines of each run, and what ranks print, go to LOG.* (%(default)s)")
    parser.add_argument("--one", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return run_tests(options.one, options.k)

    os.makedirs(os.path.dirname(options.log) or ".", exist_ok=True)
    found = {}
    for over in options.over:
        environment = dict(os.environ, BACKEND=NAMES[over], WORLD_SIZE=str(options.size), OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
        environment.pop("KOLO_TORCH_AS_GLOO", None)
        if over == "as-gloo":
            environment["KOLO_TORCH_AS_GLOO"] = "1"
        with open(f"{options.log}.{over}.jsonl", "w") as lines, open(f"{options.log}.{over}.txt", "w") as text:
            subprocess.run([sys.executable, __file__, "--one", over, "-k", options.k], env=environment, stdout=lines, stderr=text, check=True)
        with open(f"{options.log}.{over}.jsonl") as lines:
            found[over] = {line["test"]: line for line in map(json.loads, (one for one in lines if one.startswith('{"test"')))}
    print("| | ran | passed | skipped | failed | seconds |\n| --- | --- | --- | --- | --- | --- |")
    for over, lines in found.items():
        counts = [sum(line["outcome"] == outcome for line in lines.values()) for outcome in ("passed", "skipped", "failed")]
        print(f"| {over} | {len(lines) - counts[1]} | {counts[0]} | {counts[1]} | {counts[2]} |"
              f" {sum(line['seconds'] for line in lines.values()):.0f} |")
    worse = 0
    for over, lines in found.items():
        for name, line in lines.items():
            reference = found.get("gloo", {}).get(name, line)["outcome"]
            is_worse = line["outcome"] != "passed" and line["outcome"] != reference
            worse += is_worse
            if is_worse or line["outcome"] == "failed":
                why = [part for part in line["text"].splitlines() if "Error" in part or line["outcome"] == "skipped"]
                print(f"{over}: {name} {line['outcome']} (gloo: {reference}): {(why or [''])[-1][:300]}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
