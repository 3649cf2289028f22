"""Shared by the tests on emulated clusters, whose arguments are scripts/cluster and the program kolo."""

import glob
import os
import shutil
import subprocess
import sys
import time
import unittest

CLUSTER, KOLO = sys.argv[1:3]
NOT_PERMITTED = 77


def call(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def namespace(name, host):
    """The network namespace of this host of the cluster `name`."""
    return f"kolo-{name}-h{host}"


def inside(name, host, *command):
    return ["ip", "netns", "exec", namespace(name, host), *command]


def give_names(name, names):
    """Names of all hosts. ip netns exec mounts this file as /etc/hosts."""
    for host in range(len(names)):
        os.makedirs(f"/etc/netns/{namespace(name, host)}", exist_ok=True)
        with open(f"/etc/netns/{namespace(name, host)}/hosts", "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"10.77.0.{h + 1} {n}\n" for h, n in enumerate(names)))


def take_names(name):
    for folder in glob.glob(f"/etc/netns/{namespace(name, '*')}"):
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(condition, what, seconds=30):
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            raise AssertionError(f"{what} did not happen")
        time.sleep(0.02)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(NOT_PERMITTED)


def main(name):
    """Runs the tests of the program; skips them if no cluster `name` can be made."""
    tried = subprocess.run([CLUSTER, "--name", name, "--hosts", "1", "--", "true"], text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    if tried.returncode == NOT_PERMITTED:
        skip(tried.stdout.strip())
    unittest.main(argv=sys.argv[:1])
