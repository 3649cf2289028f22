#!/usr/bin/env python3
"""The emulated cluster: kolo between its hosts, the speed of its links, and its complete removal."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

import emulated
from emulated import CLUSTER, KOLO, inside, namespace, wait_for

NAME = f"test.{os.getpid()}"
TIMEOUT_S = 60


def cluster(*arguments, expect=0, **options):
    done = subprocess.run([CLUSTER, *arguments], text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}")
    return done


def namespaces(name):
    listed = subprocess.run(["ip", "netns", "list"], text=True, check=True, stdout=subprocess.PIPE).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith(f"kolo-{name}-")]


def link_bytes(hosts):
    """Bytes sent and received by each of the cluster's first hosts, by its interface's counters."""
    carried = []
    for host in range(hosts):
        shown = subprocess.run(["ip", "-n", namespace(NAME, host), "-s", "-j", "link", "show", "eth0"], text=True,
                               check=True, stdout=subprocess.PIPE).stdout
        counters = json.loads(shown)[0]["stats64"]
        carried += [counters["tx"]["bytes"], counters["rx"]["bytes"]]
    return carried


def alive(pid):
    """The process runs: it is no zombie that its parent has not reaped."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Emulated(unittest.TestCase):
    def tearDown(self):
        if namespaces(NAME):
            cluster("down", "--name", NAME)
            self.fail("a cluster was left behind")

    def bench(self, *options, program):
        with tempfile.TemporaryDirectory() as folder:
            results = os.path.join(folder, "results.jsonl")
            cluster("--name", NAME, *options, "--", KOLO, "bench", *program, "--json", results)
            with open(results, encoding="utf-8") as file:
                rows = [json.loads(line) for line in file]
        return [row for row in rows if row["type"] == "result"]

    def run_bench(self, folder, options, algorithm, size, iterations, environment=None):
        """The row of one all_reduce by the algorithm ("": kolo's choice) on the running cluster."""
        results = os.path.join(folder, "results.jsonl")
        cluster("run", "--name", NAME, *options, "--", KOLO, "bench", "all_reduce", "--algorithm", algorithm, "--sizes",
                str(size), "--iterations", str(iterations), "--json", results, env=environment)
        with open(results, encoding="utf-8") as file:
            row, = [one for one in map(json.loads, file) if one["type"] == "result"]
        self.assertEqual(row["wrong"], 0)
        return row

    def test_ranks_reduce_over_unequal_hosts(self):
        for family in ([], ["--ipv6"]):
            rows = self.bench("--hosts", "3", "-n", "1,2,1", "--rate", "1gbit", *family,
                              program=["all_reduce", "--sizes", "0,4,40000,400000", "--iterations", "3"])
            self.assertEqual([row["bytes"] for row in rows], [0, 4, 40000, 400000])
            for row in rows:
                self.assertEqual((row["ranks"], row["wrong"], row["transport"]), (4, 0, "tcp"))

    def test_each_host_counts_as_one(self):
        done = cluster("--name", NAME, "--hosts", "2", "-n", "2", "--no-prefix", "--", KOLO, "bench", "barrier",
                       "--iterations", "1", env={**os.environ, "KOLO_LOG": "debug"})
        links = re.findall(r"rank (\d): (tcp|shm|self)", done.stdout)
        for rank in range(4):
            self.assertEqual(sorted(kind for one, kind in links if int(one) == rank), ["self", "shm", "tcp", "tcp"])

    def test_links_have_the_speed_that_was_asked_for(self):
        size = 1_000_000
        for options, megabits in ((["--rate", "100mbit"], 100), (["--rate", "1gbit", "--rate-of", "1=50mbit"], 50),
                                  (["--rate", "1gbit", "--rate-between", "0,1=50mbit"], 50)):
            # The best of three runs, because a busy machine makes some slow, and none is faster than its links.
            reached = 0
            for _ in range(3):
                row, = self.bench("--hosts", "2", *options, program=["send_recv", "--sizes", str(size), "--iterations", "3"])
                reached = max(reached, size * 8 / row["median_us"])
                if reached > 0.7 * megabits:
                    break
            self.assertGreater(reached, 0.7 * megabits, options)
            self.assertLess(reached, 1.05 * megabits, options)

    def test_connections_have_the_congestion_control_that_was_asked_for(self):
        for family in ("-4", "-6"):
            shown = cluster("--hosts", "2", "--congestion", "reno", "--name", NAME, "--no-prefix", "--", "ip", family,
                            "route").stdout
            self.assertEqual(shown.count("congctl reno"), 2, shown)
        refused = cluster("--hosts", "2", "--congestion", "nonsense", "--name", NAME, "--", "true", expect=1)
        self.assertIn("nonsense", refused.stdout)

    def test_rings_go_round_a_slow_link_that_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            table = os.path.join(folder, "table")
            environment = {**os.environ, "KOLO_TABLE": table}
            cluster("up", "--name", NAME, "--hosts", "4", "--rate", "1gbit", "--rate-between", "1,2=50mbit")
            try:
                algorithms = []
                for measured in (False, True):
                    if measured:
                        cluster("run", "--name", NAME, "--", KOLO, "tune", "--only-bandwidths", "-o", table,
                                env=environment)
                    row = self.run_bench(folder, [], "ring", 100000, 3, environment)
                    algorithms.append(row["algorithm"])
            finally:
                cluster("down", "--name", NAME)
        self.assertEqual(algorithms[0], "ring")
        order = [int(rank) for rank in algorithms[1].removeprefix("ring:order=").split("-")]
        self.assertEqual(sorted(order), [0, 1, 2, 3])
        neighbours = {frozenset((order[i], order[(i + 1) % 4])) for i in range(4)}
        self.assertNotIn(frozenset((1, 2)), neighbours, algorithms[1])

    def barrier(self, before, expect, *options, **environment):
        """Output of two hosts whose ranks run a shell command before they start."""
        program = f"{before}; exec {KOLO} bench barrier --iterations 1"
        return cluster("--name", NAME, "--hosts", "2", "--grace", "1", *options, "--", "sh", "-c", program, expect=expect,
                       env={**os.environ, "KOLO_TIMEOUT": "20", **environment}).stdout

    def test_without_a_key_hosts_are_told_what_to_set(self):
        said = self.barrier("unset KOLO_KEY", 2)
        for word in ("KOLO_KEY", "KOLO_KEY_FILE", "KOLO_INSECURE"):
            self.assertIn(word, said)
        self.barrier("unset KOLO_KEY KOLO_INTERFACE", 0, KOLO_INSECURE="1")

    def test_who_is_refused_is_told_why_on_both_sides(self):
        for change, word in (("KOLO_KEY=wrong", "KOLO_KEY"), ("KOLO_KEY= KOLO_INSECURE=1", "KOLO_KEY"),
                             ("KOLO_TLS=1", "KOLO_TLS")):
            for odd in (0, 1):
                said = self.barrier(f"[ $RANK != {odd} ] || export {change}", None)
                for host in ("[0.0]", "[1.1]"):
                    lines = [line for line in said.splitlines() if line.startswith(host) and word in line]
                    self.assertTrue(lines, f"{change} on host {odd}: nothing of {host}:\n{said}")

    def test_hosts_talk_encrypted(self):
        for family in ([], ["--ipv6"]):
            said = self.barrier("true", 0, *family, KOLO_TLS="1", KOLO_LOG="debug")
            self.assertEqual(len(re.findall(r"rank [01] is connected: tcp .* \(encrypted\)", said)), 2, said)

    def test_the_interface_is_the_one_that_leads_to_the_store(self):
        for family, address in (([], "10.77.0."), (["--ipv6"], r"\[fd77::")):
            said = self.barrier("unset KOLO_INTERFACE", 0, *family, KOLO_LOG="info")
            for host in ("1", "2"):
                self.assertRegex(said, f"listens at {address}{host}\\]?:[0-9]+: .*, which leads to the store at")
        self.barrier("export KOLO_INTERFACE=10.77.0.0/16", 0)
        self.assertIn("lo (127.0.0.1", self.barrier("export KOLO_INTERFACE=10.78.0.0/16", 2))

    def test_a_slow_host_is_spared(self):
        """A rank sends and receives the data once, at the same time; a ring takes half as long again."""
        size = 1 << 20
        with tempfile.TemporaryDirectory() as folder:
            table = os.path.join(folder, "table")
            environment = {**os.environ, "KOLO_TABLE": table}
            for per_host, slow in (("1", 0), ("1,2,1,1", 3)):
                cluster("up", "--name", NAME, "--hosts", "4", "--rate", "1gbit", "--rate-of", f"{slow}=50mbit")
                try:
                    untuned = self.run_bench(folder, ["-n", per_host], "", size, 1)
                    self.assertRegex(untuned["algorithm"], rf"parameter_server.*spared={slow}")
                    done = cluster("run", "--name", NAME, "--", KOLO, "tune", "--only-bandwidths", "-o", table,
                                   env=environment)
                    self.assertIn(f"slower links than the others: 10.77.0.{slow + 1}\n", done.stdout)
                    tuned = self.run_bench(folder, ["-n", per_host], "", size, 1, environment)
                    self.assertRegex(tuned["algorithm"], rf"parameter_server.*spared={slow}")
                finally:
                    cluster("down", "--name", NAME)

    def bytes_of_a_call(self, folder, options, hosts, size, few, many):
        """kolo's choice, and the bytes of one call on the busiest link."""
        carried = []
        for iterations in (few, many):  # both contain the bytes of the start and the warm-up
            before = link_bytes(hosts)
            algorithm = self.run_bench(folder, options, "", size, iterations)["algorithm"]
            carried.append([b - a for a, b in zip(before, link_bytes(hosts))])
        return algorithm, max((more - less) / (many - few) for less, more in zip(*carried))

    def test_links_carry_no_more_than_the_bound(self):
        """If hosts have several ranks, each link carries 2(H-1)/H of the data each way, and headers."""
        size, few, many = 2 << 20, 2, 6
        cluster("up", "--name", NAME, "--hosts", "3", "--rate", "1gbit")
        try:
            with tempfile.TemporaryDirectory() as folder:
                for per_host in ((2, 2), (1, 2, 3), (3, 3, 3)):
                    options = ["--hosts", str(len(per_host)), "-n", ",".join(map(str, per_host))]
                    bound = 2 * (len(per_host) - 1) / len(per_host) * size
                    # The best of three runs, because a slow run has the bytes of more heartbeats.
                    for _ in range(3):
                        algorithm, most = self.bytes_of_a_call(folder, options, len(per_host), size, few, many)
                        if most < 1.1 * bound:
                            break
                    self.assertLess(most, 1.1 * bound, (per_host, algorithm))
        finally:
            cluster("down", "--name", NAME)

    def test_ranks_are_told_their_place(self):
        show = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR"
        done = cluster("--name", NAME, "--hosts", "3", "-n", "0,2,1", "--", "sh", "-c", show)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["[1.0] 0/3 0/2 10.77.0.2", "[1.1] 1/3 1/2 10.77.0.2", "[2.2] 2/3 0/1 10.77.0.2"])

    def test_the_first_failure_stops_all(self):
        begin = time.monotonic()
        done = cluster("--name", NAME, "--hosts", "2", "-n", "2", "--", "sh", "-c", "[ $RANK = 2 ] && exit 9; sleep 600",
                       expect=9)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertIn("rank 2 on host 1 exited with code 9; stopping the other 3", done.stdout)
        cluster("--name", NAME, "--hosts", "1", "--", "sh", "-c", "kill -KILL $$", expect=128 + signal.SIGKILL)
        cluster("--name", NAME, "--hosts", "1", "--", "/no/such/program", expect=127)

    def start(self, *arguments):
        """Starts ranks that write their process ids and stay; returns the run and the ids."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        script = f"echo $$ > {folder.name}/$RANK.part && mv {folder.name}/$RANK.part {folder.name}/$RANK; sleep 600 & wait"
        run = subprocess.Popen([CLUSTER, *arguments, "--", "sh", "-c", script], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        self.addCleanup(run.kill)
        ranks = [os.path.join(folder.name, str(rank)) for rank in range(2)]
        wait_for(lambda: all(map(os.path.exists, ranks)), "the ranks' start")
        pids = []
        for path in ranks:
            with open(path, encoding="utf-8") as file:
                pids.append(int(file.read()))
        return run, pids

    def test_an_interrupt_stops_and_removes(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            run, pids = self.start("--name", NAME, "--hosts", "2")
            run.send_signal(number)
            self.assertEqual(run.wait(TIMEOUT_S), 128 + number)
            self.assertEqual([pid for pid in pids if alive(pid)], [])
            self.assertEqual(namespaces(NAME), [])

    def test_down_removes_what_a_crash_leaves(self):
        cluster("up", "--name", NAME, "--hosts", "2")
        self.assertEqual(len(namespaces(NAME)), 3)
        cluster("up", "--name", NAME, "--hosts", "2", expect=2)
        run, pids = self.start("run", "--name", NAME)
        run.kill()
        wait_for(lambda: not any(map(alive, pids)), "the end of the ranks")
        stray = subprocess.Popen(inside(NAME, 1, "sleep", "600"))
        self.addCleanup(stray.kill)
        cluster("down", "--name", NAME)
        self.assertEqual(stray.wait(TIMEOUT_S), -signal.SIGTERM)
        self.assertEqual(namespaces(NAME), [])

    def test_clusters_stand_side_by_side(self):
        other = NAME + ".other"
        try:
            cluster("up", "--name", NAME, "--hosts", "1")
            cluster("up", "--name", other, "--hosts", "2", "--rate", "10mbit")
            cluster("down", "--name", NAME)
            self.assertEqual(len(namespaces(other)), 3)
            self.assertIn(f"{other}: 2 hosts, 10.77.0.1 to 10.77.0.2, links 10mbit", cluster("list").stdout)
        finally:
            cluster("down", "--name", other, expect=None)

    def test_a_chroot_can_have_none(self):
        """Keeps the contents of /, but / is no mount point. The mounts end with their namespace."""
        enter = """cd "$0" && for at in /*; do
                     if [ -L "$at" ]; then cp -P "$at" .; elif [ -d "$at" ]; then mkdir ".$at" && mount --rbind "$at" ".$at"; fi
                   done && exec chroot . "$@" """
        root = tempfile.mkdtemp()
        done = subprocess.run(["unshare", "--mount", "sh", "-c", enter, root, CLUSTER, "--name", NAME, "--hosts", "1",
                               "--", "true"], text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        for entry in os.scandir(root):
            (os.unlink if entry.is_symlink() else os.rmdir)(entry)
        os.rmdir(root)
        self.assertEqual(done.returncode, emulated.NOT_PERMITTED, done.stdout)
        self.assertIn("lets us enter no network namespaces", done.stdout)

    def test_wrong_usage_is_told(self):
        for arguments, what in ((["up", "--hosts", "0"], "from 1 to"), (["up"], "--hosts"),
                                (["up", "--hosts", "2", "--rate", "fast"], "'fast' is no rate"),
                                (["up", "--hosts", "2", "--rate-of", "2=1gbit"], "there is no host 2"),
                                (["up", "--hosts", "2", "--rate-between", "1,1=1gbit"], "takes two hosts"),
                                (["--hosts", "2", "-n", "1,2,3", "--", "true"], "3 hosts, but there are 2"),
                                (["--hosts", "2"], "no program"), (["down"], "no cluster")):
            named = arguments if "--" in arguments else [*arguments, "--name", NAME]
            if "--" in arguments:
                named = ["--name", NAME, *arguments]
            self.assertIn(what, cluster(*named, expect=2).stdout)


if __name__ == "__main__":
    emulated.main(NAME)
