#!/usr/bin/env python3
"""A soak on an emulated cluster: collectives whose results are checked, while ranks are killed and stopped, links cut
and slowed. What must hold: no wrong result; no rank that waits longer than the heartbeat and a margin; who is only slow
is not taken for dead; every survivor's error names the right rank and host; the survivors go on together; and
descriptors, threads and memory do not grow.

  cluster_soak.py RANK_PROGRAM [--rounds N] [--faults N] [--hosts N] [--per-host N] [--seed N] [--heartbeat S]
  cluster_soak.py RANK_PROGRAM --measure kill|cut [--rounds N] [--local shm|tcp]

Each round is a new job. --measure tells how long it takes from a rank's death, or its host's loss, to the errors, and
from the error to the smaller communicator. Exit codes: 0 all is well, 1 something went wrong, 77 no permission."""
import argparse
import json
import os
import random
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from cluster_network import Cluster, NotPermitted, bits_per_second, burst_bytes, call, ipv4  # noqa: E402

RESET_S = 1.0  # limit for a death that the system reports
OUT = 3  # exit code of a rank that has been left behind
NOWHERE = "02:00:00:00:00:77"


class Broken(Exception):
    """A checked property does not hold."""


class Rank:
    def __init__(self, number, host, process):
        self.number, self.host, self.process = number, host, process
        self.events, self.errors = [], []
        self.heard = time.monotonic()
        self.changed = threading.Condition()
        self.readers = [threading.Thread(target=self.read), threading.Thread(target=self.read_errors)]
        for reader in self.readers:
            reader.start()

    def read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            with self.changed:
                self.heard = time.monotonic()
                if event["event"] == "tick" and self.events and self.events[-1]["event"] == "tick":
                    self.events[-1] = event
                else:
                    self.events.append(event)
                self.changed.notify_all()

    def read_errors(self):
        self.errors += list(self.process.stderr)

    def done(self):
        """The number of collectives that it has finished."""
        return max((event["done"] for event in list(self.events) if "done" in event), default=0)

    def await_event(self, kind, after, seconds):
        """The first event of this kind at `after` or later; None if there is none in time."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                for event in self.events:
                    if event["event"] == kind and event["at"] >= after:
                        return event
                if any(event["event"] == "wrong" for event in self.events) or time.monotonic() > deadline:
                    return None
                self.changed.wait(0.1)

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def story(self):
        tail = [json.dumps(event) for event in self.events[-6:]] + [line.rstrip() for line in self.errors[-6:]]
        return f"rank {self.number} (exit {self.process.poll()}):\n    " + "\n    ".join(tail)


class Job:
    """Ranks on the hosts of a cluster, or on this host without a cluster."""

    def __init__(self, cluster, options, seed, most):
        self.cluster, self.options = cluster, options
        self.folder = tempfile.TemporaryDirectory()
        count = options.hosts * options.per_host
        self.ranks = []
        common = {**os.environ, "KOLO_TABLE": "none", "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(count),
                  "KOLO_HEARTBEAT": str(options.heartbeat), "KOLO_TIMEOUT": "120", "KOLO_KEY": secrets.token_hex(16),
                  "MASTER_ADDR": ipv4(0) if cluster else "127.0.0.1", "MASTER_PORT": str(random.randrange(20000, 30000))}
        common.pop("KOLO_STORE", None)
        if options.local:
            common["KOLO_TRANSPORTS"] = options.local
        for number in range(count):
            host = number // options.per_host
            command = ["setpriv", "--pdeathsig", "KILL"]
            mine = {"RANK": str(number), "LOCAL_RANK": str(number), "LOCAL_WORLD_SIZE": str(count)}
            if cluster:
                command += ["ip", "netns", "exec", cluster.host(host)]
                mine.update(LOCAL_RANK=str(number % options.per_host), LOCAL_WORLD_SIZE=str(options.per_host),
                            KOLO_INTERFACE=ipv4(host))
            process = subprocess.Popen([*command, options.program, str(seed), str(most)], env={**common, **mine}, text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.ranks.append(Rank(number, host, process))
        self.left = list(self.ranks)

    def await_start(self):
        for rank in self.ranks:
            if rank.await_event("ready", 0, 30) is None:
                raise Broken(f"it did not start\n{rank.story()}")

    def done(self):
        return max(rank.done() for rank in self.ranks)

    def address(self, rank):
        return ipv4(rank.host)

    def expect_progress(self, seconds, why, ranks=None):
        """All ranks make progress without an error within `seconds`."""
        begin = time.monotonic()
        before = {rank: rank.done() for rank in ranks or self.left}
        for rank, done in before.items():
            while rank.done() <= done + 1:
                if any(event["event"] in ("failed", "wrong") and event["at"] >= begin for event in rank.events):
                    raise Broken(f"{why}: it fails\n{rank.story()}")
                if time.monotonic() > begin + seconds or rank.process.poll() is not None:
                    raise Broken(f"{why}: no progress for {seconds} s\n{rank.story()}")
                time.sleep(0.02)

    def expect_no_error(self, since, why):
        for rank in self.left:
            if any(event["event"] in ("failed", "wrong") and event["at"] >= since for event in rank.events):
                raise Broken(f"{why}: it fails\n{rank.story()}")

    def expect_loss(self, victims, since, within, why, exact=True):
        """Checks that all other ranks have an error that names a victim, and continue; returns the times."""
        survivors = [rank for rank in self.left if rank not in victims]
        numbers = {rank: place for place, rank in enumerate(self.left)}
        times = []
        for rank in survivors:
            failed = rank.await_event("failed", since, within + 1)
            if failed is None:
                raise Broken(f"{why}: no error within {within + 1} s\n{rank.story()}")
            took = failed["at"] - since
            if took > within:
                raise Broken(f"{why}: the error came after {took:.2f} s\n{rank.story()}")
            named = [victim for victim in victims if victim.number == failed["blamed"]]
            if exact and not named:
                raise Broken(f"{why}: it names another rank\n{rank.story()}")
            if exact and self.cluster:
                name = f"rank {numbers[named[0]]} on host {self.address(named[0])}"
                if name not in failed["text"]:
                    raise Broken(f"{why}: the error does not say '{name}'\n{rank.story()}")
            shrunk = rank.await_event("shrunk", failed["at"], within + 6)
            if shrunk is None:
                raise Broken(f"{why}: no smaller communicator\n{rank.story()}")
            times.append((took, shrunk["took"]))
            if exact and shrunk["members"] != [one.number for one in survivors]:
                raise Broken(f"{why}: the wrong ranks are left: {shrunk['members']}\n{rank.story()}")
        if exact:
            self.left = survivors
            self.expect_progress(10, why + ", afterwards")
        return times

    def finish(self):
        for rank in self.left:
            rank.signal(signal.SIGUSR1)
        for rank in self.left:
            try:
                code = rank.process.wait(30)
            except subprocess.TimeoutExpired:
                raise Broken(f"it does not end\n{rank.story()}") from None
            if code != 0:
                raise Broken(f"it ends with {code}\n{rank.story()}")

    def kill(self):
        for rank in self.ranks:
            rank.signal(signal.SIGKILL)
            rank.process.wait()
            for reader in rank.readers:
                reader.join()
        self.folder.cleanup()


class Faults:
    """The events. Each method takes the job and a random generator, causes an event and checks the reaction."""

    def __init__(self, cluster, options):
        self.cluster, self.heartbeat, self.rate = cluster, options.heartbeat, options.rate
        self.margin = options.margin

    def victim_host(self, job, rng):
        """All ranks of a host whose loss leaves more than half of the ranks; empty if there is no such host."""
        hosts = sorted({rank.host for rank in job.left})
        host = rng.choice(hosts)
        ranks = [rank for rank in job.left if rank.host == host]
        return ranks if 2 * (len(job.left) - len(ranks)) > len(job.left) else []

    def port(self, host, state):
        call("ip", "-n", self.cluster.switch, "link", "set", f"port{host}", state)

    def set_rate(self, host, rate):
        bits = bits_per_second(rate)
        # No smaller bucket than before: a packet in the queue that does not fit it would never leave.
        burst = burst_bytes(max(bits, bits_per_second(self.rate)))
        for space, device in ((self.cluster.host(host), "eth0"), (self.cluster.switch, f"port{host}")):
            call("tc", "-n", space, "qdisc", "change", "dev", device, "root", "handle", "1:", "tbf", "rate", f"{bits}bit",
                 "burst", str(burst), "limit", str(burst + max(int(bits / 8 * 0.05), 1 << 18)))

    def deafen(self, sender, receiver, deaf):
        """Drops frames from one host to another, or stops to drop them."""
        space = self.cluster.host(sender)
        if deaf:
            call("ip", "-n", space, "neigh", "replace", ipv4(receiver), "lladdr", NOWHERE, "dev", "eth0", "nud", "permanent")
        else:
            call("ip", "-n", space, "neigh", "del", ipv4(receiver), "dev", "eth0")

    def lose_rank(self, job, rng, number, within, what):
        """Sends a signal to ranks, and checks that the others notice `within` seconds. Returns the victims and the
        times; None if too few ranks are left."""
        if len(job.left) < 3:
            return None
        victim = rng.choice(job.left)
        since = time.monotonic()
        victim.signal(number)
        return victim, job.expect_loss([victim], since, within, f"rank {victim.number} is {what}")

    def kill_rank(self, job, rng):
        lost = self.lose_rank(job, rng, signal.SIGKILL, RESET_S, "killed")
        return lost and lost[1]

    def stop_long(self, job, rng):
        lost = self.lose_rank(job, rng, signal.SIGSTOP, self.heartbeat + self.margin, "stopped")
        if lost is None:
            return None
        victim, times = lost
        victim.signal(signal.SIGCONT)
        self.expect_out([victim], "it was stopped too long")
        return times

    def expect_out(self, ranks, why):
        for rank in ranks:
            try:
                code = rank.process.wait(self.heartbeat * 2 + 8)
            except subprocess.TimeoutExpired:
                raise Broken(f"{why}, and it hangs\n{rank.story()}") from None
            if code != OUT:
                raise Broken(f"{why}, and it ends with {code}\n{rank.story()}")

    def stop_short(self, job, rng):
        victim = rng.choice(job.left)
        since = time.monotonic()
        victim.signal(signal.SIGSTOP)
        time.sleep(rng.uniform(0.05, 0.6) * self.heartbeat)
        victim.signal(signal.SIGCONT)
        job.expect_progress(5, f"rank {victim.number} was stopped for a moment")
        job.expect_no_error(since, f"rank {victim.number} was stopped for a moment")
        return None

    def cut(self, job, rng):
        victims = self.victim_host(job, rng)
        if not victims:
            return None
        host = victims[0].host
        since = time.monotonic()
        self.port(host, "down")
        try:
            times = job.expect_loss(victims, since, self.heartbeat + self.margin, f"host {host} is cut off")
            self.expect_out(victims, f"host {host} was cut off")
        finally:
            self.port(host, "up")
        return times

    def cut_short(self, job, rng):
        host = rng.choice(job.left).host
        since = time.monotonic()
        self.port(host, "down")
        time.sleep(rng.uniform(0.02, 0.2) * self.heartbeat)
        self.port(host, "up")
        job.expect_progress(8, f"host {host} was cut off for a moment")
        job.expect_no_error(since, f"host {host} was cut off for a moment")
        return None

    def one_way(self, job, rng):
        """Frames from one host to another are lost. Either host may be taken for dead, so only the end is checked."""
        hosts = sorted({rank.host for rank in job.left})
        if len(hosts) < 3:
            return None
        sender, receiver = rng.sample(hosts, 2)
        suspects = [rank for rank in job.left if rank.host in (sender, receiver)]
        since = time.monotonic()
        self.deafen(sender, receiver, True)
        try:
            for rank in job.left:
                failed = rank.await_event("failed", since, self.heartbeat + self.margin + 1)
                if failed is None:
                    raise Broken(f"host {sender} does not reach {receiver}: no error\n{rank.story()}")
                if failed["blamed"] not in [one.number for one in suspects]:
                    raise Broken(f"host {sender} does not reach {receiver}: it names another rank\n{rank.story()}")
            self.settle(job, since)
        finally:
            self.deafen(sender, receiver, False)
        job.expect_progress(10, f"host {sender} did not reach {receiver}, afterwards")
        return None

    def settle(self, job, since):
        """Waits until each rank has left or continues in the same smaller communicator."""
        deadline = time.monotonic() + 3 * self.heartbeat + 10
        while True:
            staying = [rank for rank in job.left if rank.process.poll() is None]
            last = [[event for event in rank.events if "members" in event][-1] for rank in staying]
            if staying and all(event["at"] >= since and event["members"] == [rank.number for rank in staying]
                               for event in last):
                job.left = staying
                return
            if time.monotonic() > deadline or not staying:
                raise Broken("they do not agree\n" + "\n".join(rank.story() for rank in job.left))
            time.sleep(0.05)

    def slow(self, job, rng):
        host, rate = rng.choice(job.left).host, rng.choice(["1mbit", "3mbit", "30mbit"])
        since = time.monotonic()
        self.set_rate(host, rate)
        time.sleep(1.5 * self.heartbeat)
        job.expect_no_error(since, f"host {host} has {rate}")
        self.set_rate(host, self.rate)
        job.expect_progress(30, f"host {host} had {rate}")
        job.expect_no_error(since, f"host {host} had {rate}")
        return None

    def renew(self, job, rng):
        """Makes new communicators of the same ranks repeatedly, which must release all resources."""
        seen = {rank: [] for rank in job.left}
        for _ in range(8):
            since = time.monotonic()
            rng.choice(job.left).signal(signal.SIGUSR2)
            for rank in job.left:
                renewed = rank.await_event("renewed", since, 10)
                if renewed is None:
                    raise Broken(f"no renewal\n{rank.story()}")
                seen[rank].append(renewed)
        for rank, states in seen.items():
            first, last = states[1], states[-1]
            if last["threads"] != first["threads"] or last["descriptors"] > first["descriptors"] + len(job.left):
                raise Broken(f"it leaks: {first} to {last}\n{rank.story()}")
            if last["resident_kib"] > first["resident_kib"] + 16 * 1024:
                raise Broken(f"its memory grows: {first} to {last}\n{rank.story()}")
        return None


HARMLESS = ("stop_short", "cut_short", "slow", "renew")
DEADLY = ("kill_rank", "stop_long", "cut", "one_way")


def soak(cluster, options):
    faults = Faults(cluster, options)
    rng = random.Random(options.seed)
    total, counts, times = 0, {}, {}
    names = options.only.split(",") if options.only else HARMLESS * 2 + DEADLY
    for number in range(options.rounds):
        job = Job(cluster, options, rng.getrandbits(60), options.most)
        try:
            job.await_start()
            for _ in range(options.faults):
                fault = rng.choice(names)
                if fault in DEADLY and len(job.left) < 3:
                    continue
                job.expect_progress(20, "before a fault")
                time.sleep(rng.uniform(0, 0.3))
                found = getattr(faults, fault)(job, rng)
                counts[fault] = counts.get(fault, 0) + 1
                times.setdefault(fault, []).extend(found or [])
            job.finish()
        except Broken as broken:
            if options.verbose:
                print("\n".join(rank.story() for rank in job.ranks), file=sys.stderr)
            print(f"round {number}: {broken}", file=sys.stderr)
            return 1
        finally:
            job.kill()
        total += job.done()
        print(f"round {number}: {job.done()} collectives, {len(job.left)} of {len(job.ranks)} ranks left", flush=True)
    print(f"{'fault':12}{'times':>7}{'to the error, s':>22}{'shrink, ms':>20}")
    for fault, count in sorted(counts.items()):
        print(f"{fault:12}{count:7}{spread([t for t, _ in times[fault]], 1):>22}"
              f"{spread([s for _, s in times[fault]], 1000):>20}")
    print(f"{total} collectives in {options.rounds} rounds, {sum(counts.values())} faults: all is well")
    return 0


def spread(values, scale):
    return f"{statistics.median(values) * scale:.3g} ({max(values) * scale:.3g})" if values else "-"


def measure(cluster, options):
    """Medians and maxima over --rounds jobs, of the last survivor in each."""
    faults = Faults(cluster, options) if cluster else None
    rng = random.Random(options.seed)
    detections, shrinks = [], []
    for _ in range(options.rounds):
        job = Job(cluster, options, rng.getrandbits(60), options.most)
        try:
            job.await_start()
            time.sleep(rng.uniform(0.1, 0.4))
            if options.measure == "cut":
                found = faults.cut(job, rng)
            else:
                victim = rng.choice(job.left)
                since = time.monotonic()
                victim.signal(signal.SIGKILL)
                found = job.expect_loss([victim], since, RESET_S, "killed")
            job.finish()
        except Broken as broken:
            print(broken, file=sys.stderr)
            return 1
        finally:
            job.kill()
        detections.append(max(t for t, _ in found))
        shrinks.append(max(s for _, s in found))
    where = f"{options.local} on one host" if options.local else f"{options.hosts} hosts"
    print(f"{len(job.ranks)} ranks, {where}, {options.measure}: to the error {spread(detections, 1000)} ms, "
          f"shrink {spread(shrinks, 1000)} ms; median (worst) of {options.rounds}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--faults", type=int, default=8, help="of each round")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--per-host", type=int, default=1)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--congestion", default="cubic",
                        help="TCP's congestion control. BBR may take 8 s to send fast again after a short cut [cubic]")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--heartbeat", type=float, default=5)
    parser.add_argument("--margin", type=float, default=1.0, help="seconds beyond the heartbeat for the error")
    parser.add_argument("--most", type=int, default=100_000, help="elements of a call")
    parser.add_argument("--only", help="these faults: " + ",".join(HARMLESS + DEADLY))
    parser.add_argument("--measure", choices=("kill", "cut"))
    parser.add_argument("--local", choices=("shm", "tcp"), help="with --measure: no cluster")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    cluster = None
    try:
        if not options.local:
            cluster = Cluster.make(f"soak.{os.getpid()}", options.hosts, options.rate, congestion=options.congestion)
        return measure(cluster, options) if options.measure else soak(cluster, options)
    except NotPermitted as why:
        print(f"skipped: {why}")
        return 77
    finally:
        if cluster:
            cluster.remove()


if __name__ == "__main__":
    sys.exit(main())
