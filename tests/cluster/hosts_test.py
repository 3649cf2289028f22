#!/usr/bin/env python3
"""kolo run --hosts over real ssh: a server in every host of an emulated cluster. It tests what one machine
tests: the first failure stops all ranks, exit codes, signals, and no process survives a kill or a cut link."""

import getpass
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import emulated
from emulated import CLUSTER, KOLO, call, namespace, wait_for

NAME = f"ssh.{os.getpid()}"
TIMEOUT_S = 100
HOSTS = 4
ADDRESSES = [f"10.77.0.{host + 1}" for host in range(HOSTS)]
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


def inside(host, *command):
    return emulated.inside(NAME, host, *command)


def survivors(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"TEST_MARK={mark}".encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass
    return found


class Servers:
    """An sshd in each host, with keys for this test only."""

    def __init__(self, folder):
        self.folder = folder
        for key in ("host", "user"):
            call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}")
        shutil.copy(f"{folder}/user.pub", f"{folder}/authorized")
        with open(f"{folder}/config", "w", encoding="utf-8") as file:
            file.write(f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\nPidFile none\nStrictModes no\n"
                       "PermitRootLogin yes\nUsePAM no\nPasswordAuthentication no\nMaxStartups 100\n")
        with open(f"{folder}/host.pub", encoding="utf-8") as file:
            key = " ".join(file.read().split()[:2])
        with open(f"{folder}/known", "w", encoding="utf-8") as file:
            file.writelines(f"{address} {key}\n" for address in ADDRESSES)
        os.makedirs("/run/sshd", exist_ok=True)
        self.processes = [subprocess.Popen(inside(host, SSHD, "-D", "-e", "-f", f"{folder}/config"),
                                           stderr=subprocess.DEVNULL) for host in range(HOSTS)]
        for host in range(HOSTS):
            wait_for(lambda host=host: subprocess.run([*inside(0, *self.ssh().split()), ADDRESSES[host], "true"],
                                                      stderr=subprocess.DEVNULL).returncode == 0, "an answer of sshd")

    def ssh(self):
        return (f"ssh -F none -i {self.folder}/user -o UserKnownHostsFile={self.folder}/known "
                f"-o ServerAliveInterval=1 -o ServerAliveCountMax=2 -l {getpass.getuser()}")

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


class OverSsh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        call(CLUSTER, "up", "--hosts", str(HOSTS), "--name", NAME)
        cls.folder = tempfile.TemporaryDirectory()
        cls.servers = Servers(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.servers.end()
        call(CLUSTER, "down", "--name", NAME)
        cls.folder.cleanup()

    def setUp(self):
        self.mark = f"{NAME}.{self.id()}"

    def tearDown(self):
        wait_for(lambda: not survivors(self.mark), "the end of all processes")

    def start(self, hosts, slots, script, *options, ssh=None):
        listed = ",".join(f"{ADDRESSES[host]}:{slots}" for host in hosts)
        command = [KOLO, "run", "--hosts", listed, "--ssh", ssh or self.servers.ssh(), "-x", f"TEST_MARK={self.mark}",
                   *options, "--", "sh", "-c", script]
        # A script starts background jobs with SIGINT ignored; the tested program must not inherit this.
        return subprocess.Popen(inside(0, *command), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

    def run_on(self, *arguments, expect=0, **more):
        process = self.start(*arguments, **more)
        out, err = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, expect, out + err)
        return out, err

    def start_sleepers(self, hosts, slots):
        process = self.start(hosts, slots, "echo ready; setsid sleep 600 & sleep 600")
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        for _ in range(len(hosts) * slots):
            self.assertRegex(process.stdout.readline(), r"^\[\d+\] ready$")
        self.assertTrue(survivors(self.mark))
        return process

    def test_ranks_are_numbered_host_by_host(self):
        show = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $(ip -4 -br address show dev eth0)"
        out, err = self.run_on([1, 2], 2, show)
        self.assertEqual(err, "")
        lines = [" ".join(line.split()) for line in sorted(out.splitlines())]
        self.assertEqual(len(lines), 4)
        for rank, line in enumerate(lines):
            host = 1 + rank // 2
            self.assertRegex(line, rf"^\[{rank}\] {rank}/4 {rank % 2}/2 10.77.0.2 eth0@\w+ UP {ADDRESSES[host]}/24$")

    def test_ranks_reduce_over_four_hosts(self):
        out, _ = self.run_on(range(HOSTS), 2, f"{KOLO} bench all_reduce --sizes 100000 --iterations 3")
        self.assertIn("8 ranks", out)
        self.assertIn("All results are right", out)

    def test_the_key_is_on_no_command_line(self):
        process = self.start([0, 1], 1, "echo $KOLO_KEY; sleep 600")
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        keys = [process.stdout.readline().split()[1] for _ in range(2)]
        self.assertEqual(keys[0], keys[1])
        self.assertRegex(keys[0], "^[0-9a-f]{64}$")
        listed = call("ps", "-eww", "-o", "args=")
        self.assertIn("--first-rank=1", listed)
        self.assertNotIn(keys[0], listed)
        process.terminate()
        process.wait(TIMEOUT_S)

    def test_the_first_failure_stops_all_hosts(self):
        begin = time.monotonic()
        _, err = self.run_on([0, 1, 2], 2, "[ $RANK = 3 ] && exit 9; sleep 600 & sleep 600", expect=9)
        self.assertRegex(err, r"^kolo: 10\.77\.0\.2: rank 3 \(pid \d+\) exited with code 9; stopping the other 5 \[K903\]\n$")
        self.assertLess(time.monotonic() - begin, 20)
        _, err = self.run_on([0, 1], 1, "[ $RANK = 1 ] && kill -KILL $$; sleep 600", expect=128 + signal.SIGKILL)
        self.assertIn("rank 1", err)

    def test_an_interrupt_stops_all_hosts(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start_sleepers([1, 2], 2)
            process.send_signal(number)
            self.assertEqual(process.wait(TIMEOUT_S), 128 + number)
            self.assertEqual(survivors(self.mark), [])

    def test_a_killed_launcher_or_ssh_leaves_nothing(self):
        process = self.start_sleepers([1, 2], 2)
        process.kill()
        process.wait(TIMEOUT_S)
        wait_for(lambda: not survivors(self.mark), "the end of the ranks")
        process = self.start_sleepers([1, 2], 2)
        children = call("ps", "-o", "pid=,comm=", "--ppid", str(process.pid)).splitlines()
        os.kill(int(next(line for line in children if line.endswith("ssh")).split()[0]), signal.SIGKILL)
        self.assertEqual(process.wait(TIMEOUT_S), 255)
        self.assertIn("kolo: lost host 10.77.0.", process.stderr.read())

    def test_a_host_that_is_cut_off(self):
        process = self.start_sleepers([1, 2], 1)
        link = ["ip", "-n", namespace(NAME, 2), "link", "set", "eth0"]
        call(*link, "down")
        try:
            self.assertEqual(process.wait(TIMEOUT_S), 255)
            self.assertIn("kolo: lost host 10.77.0.3", process.stderr.read())
            # Its launcher there hears nothing any more, and ends its rank.
            wait_for(lambda: not survivors(self.mark), "the end of the rank on the host that was cut off", 60)
        finally:
            call(*link, "up")

    def test_what_cannot_start_is_told(self):
        stranger = "ssh -F none -i /dev/null -o UserKnownHostsFile=/dev/null"
        for options, ssh, what in ((["--remote-kolo", "/no/such/kolo"], None, "/no/such/kolo"),
                                   ([], stranger, "Host key verification failed")):
            _, err = self.run_on([1, 0], 1, "true", *options, ssh=ssh, expect=127)
            self.assertIn(what, err)
            self.assertIn("kolo: cannot start on 10.77.0.", err)


if __name__ == "__main__":
    if SSHD is None or shutil.which("ssh") is None:
        emulated.skip("there is no openssh-server here")
    emulated.main(NAME)
