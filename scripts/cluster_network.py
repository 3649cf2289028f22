"""The network of an emulated cluster: one namespace a host, and one for the switch that joins them.

All of a cluster is in namespaces whose names begin with its own, the switch included, so that several clusters never
meet and removing the namespaces removes everything. Only the kernel stores the state of a cluster."""
import os
import re
import signal
import subprocess
import time

PREFIX = "kolo-"
MOST_HOSTS = 200
RATE = re.compile(r"(\d+(?:\.\d+)?)([kmg]?)bit")
UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}


class NotPermitted(Exception):
    """This machine does not let us make network namespaces."""


def bits_per_second(rate):
    match = RATE.fullmatch(rate.lower())
    if not match or float(match[1]) <= 0:
        raise ValueError(f"'{rate}' is no rate: 1gbit, 100mbit, 500kbit")
    return int(float(match[1]) * UNITS[match[2]])


def call(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def namespaces():
    """{cluster: its namespaces}."""
    found = {}
    try:
        names = sorted(os.listdir("/run/netns"))
    except FileNotFoundError:
        names = []
    for name in names:
        match = re.fullmatch(re.escape(PREFIX) + r"([\w.]+)-(h\d+|switch)", name)
        if match:
            found.setdefault(match[1], []).append(name)
    return found


def clusters():
    return sorted(namespaces())


def burst_bytes(rate):
    """The burst of a token bucket: 2 ms of the rate, so that the rate is reached although the processes of
    all hosts share a few cores and the bucket's timer is late; 16 frames at least."""
    return max(int(rate / 8 * 0.002), 16 * 1514)


def shape(namespace, device, rate):
    """At most `rate` bits a second leave by the device. The queue behind the bucket holds 50 ms, as a switch's does,
    and at least 256 KiB, so that a slow link does not live on losses."""
    burst = burst_bytes(rate)
    # TCP sends many frames at once. A burst above the bucket would be split into frames, which costs processor time.
    call("ip", "-n", namespace, "link", "set", device, "gso_max_size", str(min(int(burst * 0.9), 1 << 16)))
    limit = burst + max(int(rate / 8 * 0.05), 1 << 18)
    call("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "handle", "1:", "tbf", "rate", f"{rate}bit",
         "burst", str(burst), "limit", str(limit))


def shape_pairs(namespace, device, rate, slower):
    """{peer host: bits a second} within the rate of the device: one queue for each of these peers."""
    if rate is None:
        parent = ["root"]
    else:
        parent = ["parent", "1:1"]

    def tc(*arguments):
        call("tc", "-n", namespace, *arguments[:2], "dev", device, *arguments[2:])

    tc("qdisc", "add", *parent, "handle", "2:", "htb", "default", "1")
    for number, (peer, peer_rate) in enumerate([(None, rate or 10**11), *sorted(slower.items())], 1):
        tc("class", "add", "parent", "2:", "classid", f"2:{number:x}", "htb", "rate", f"{peer_rate}bit", "burst",
           str(burst_bytes(peer_rate)), "cburst", str(burst_bytes(peer_rate)), "quantum", "60000")
        limit = max(int(peer_rate / 8 * 0.05), 1 << 18) if peer is not None or rate else 1 << 24
        tc("qdisc", "add", "parent", f"2:{number:x}", "bfifo", "limit", str(limit))
        if peer is None:
            continue
        for priority, protocol, address in ((1, "ip", ipv4(peer) + "/32"), (2, "ipv6", ipv6(peer) + "/128")):
            tc("filter", "add", "parent", "2:", "protocol", protocol, "prio", str(priority), "u32", "match",
               "ip6" if protocol == "ipv6" else "ip", "dst", address, "flowid", f"2:{number:x}")


def ipv4(host):
    return f"10.77.0.{host + 1}"


def ipv6(host):
    return f"fd77::{host + 1:x}"


class Cluster:
    """An existing cluster, from make() or find()."""

    def __init__(self, name, hosts):
        self.name, self.hosts = name, hosts

    @staticmethod
    def make(name, hosts, rate=None, rate_of=None, rate_between=None, congestion=None):
        """rate: of every host's link; rate_of: {host: rate}; rate_between: {{host, host}: rate}. Rates are texts such
        as 100mbit. congestion: TCP's congestion control between hosts, or the system's. Raises ValueError for what makes no sense, NotPermitted, RuntimeError; nothing is left then."""
        rate_of, rate_between = rate_of or {}, rate_between or {}
        if not re.fullmatch(r"[\w.]{1,64}", name):
            raise ValueError(f"'{name}' is no name for a cluster: letters, digits, _ and .")
        if not 1 <= hosts <= MOST_HOSTS:
            raise ValueError(f"--hosts {hosts}: from 1 to {MOST_HOSTS}")
        for host in {*rate_of, *(host for pair in rate_between for host in pair)}:
            if not 0 <= host < hosts:
                raise ValueError(f"there is no host {host}: they are 0 to {hosts - 1}")
        rates = [rate_of.get(host, rate) for host in range(hosts)]
        rates = [None if one is None else bits_per_second(one) for one in rates]
        pairs = {pair: bits_per_second(one) for pair, one in rate_between.items()}
        if os.geteuid() != 0:
            raise NotPermitted("making network namespaces needs root: sudo scripts/cluster ...")
        if name in namespaces():
            raise ValueError(f"there is a cluster '{name}' already: scripts/cluster down --name {name}, or another name")
        cluster = Cluster(name, hosts)
        cluster._add_switch()
        try:
            cluster._add_bridge()
            for host in range(hosts):
                slower = {next(iter(pair - {host})): one for pair, one in pairs.items() if host in pair}
                cluster._join(host, rates[host], slower)
                if congestion is not None:
                    cluster._set_congestion(host, congestion)
        except BaseException:
            cluster.remove()
            raise
        return cluster

    @staticmethod
    def find(name):
        names = namespaces().get(name)
        if not names:
            known = ", ".join(clusters()) or "none"
            raise ValueError(f"there is no cluster '{name}' (there are: {known}); scripts/cluster up makes one")
        return Cluster(name, sum(1 for one in names if not one.endswith("-switch")))

    @property
    def switch(self):
        return f"{PREFIX}{self.name}-switch"

    def host(self, host):
        return f"{PREFIX}{self.name}-h{host}"

    def _add_switch(self):
        """The process that makes this namespace owns the name."""
        try:
            call("ip", "netns", "add", self.switch)
        except (RuntimeError, FileNotFoundError) as problem:
            if "File exists" in str(problem):
                raise ValueError(f"somebody is making a cluster '{self.name}' already") from None
            raise NotPermitted(f"this machine lets us make no network namespaces: {problem}") from None
        try:
            call("ip", "-n", self.switch, "link", "show")
        except RuntimeError as problem:  # in a chroot: / is no mount point
            self.remove()
            raise NotPermitted(f"this machine lets us enter no network namespaces: {problem}") from None

    def _add_bridge(self):
        call("ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge", "stp_state", "0")
        call("ip", "-n", self.switch, "link", "set", "bridge", "up")

    def _join(self, host, rate, slower):
        """Adds a host, and shapes its link both ways: what it sends at its own end, what it gets at the switch's."""
        name, port = self.host(host), f"port{host}"
        call("ip", "netns", "add", name)
        call("ip", "-n", self.switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        call("ip", "-n", self.switch, "link", "set", port, "master", "bridge", "up")
        call("ip", "-n", name, "link", "set", "lo", "up")
        call("ip", "-n", name, "addr", "add", f"{ipv4(host)}/24", "dev", "eth0")
        call("ip", "-n", name, "addr", "add", f"{ipv6(host)}/64", "dev", "eth0", "nodad")
        call("ip", "-n", name, "link", "set", "eth0", "up")
        if rate is not None:
            shape(name, "eth0", rate)
            shape(self.switch, port, rate)
        if slower:
            shape_pairs(name, "eth0", rate, slower)

    def _set_congestion(self, host, congestion):
        """As a property of the routes to the other hosts: not every container lets us change a namespace's default."""
        for route in (("10.77.0.0/24", "scope", "link", "src", ipv4(host)), ("fd77::/64", "metric", "256")):
            call("ip", "-n", self.host(host), "route", "change", *route, "dev", "eth0", "proto", "kernel", "congctl",
                 congestion)

    def describe(self):
        rates = []
        for host in range(self.hosts):
            root = call("tc", "-n", self.switch, "qdisc", "show", "dev", f"port{host}", "root")
            match = re.search(r"rate (\S+)", root)
            rates.append(match[1].lower() if match else "unshaped")
        if len(set(rates)) == 1:
            rates = rates[:1]
        return f"{self.name}: {self.hosts} hosts, {ipv4(0)} to {ipv4(self.hosts - 1)}, links {', '.join(rates)}"

    def processes(self):
        found = set()
        for name in namespaces().get(self.name, []):
            found |= {int(pid) for pid in call("ip", "netns", "pids", name).split()}
        return found

    def remove(self):
        """Ends all processes of the cluster and removes it. An interrupt waits until this is done."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        try:
            self._end_processes()
            for name in namespaces().get(self.name, []):
                call("ip", "netns", "del", name)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _end_processes(self):
        for number, patience in ((signal.SIGTERM, 2), (signal.SIGKILL, 5)):
            deadline = time.monotonic() + patience
            told = set()
            while left := self.processes():
                for pid in left - told:
                    try:
                        os.kill(pid, number)
                    except ProcessLookupError:
                        pass
                told |= left
                if time.monotonic() > deadline:
                    break
                time.sleep(0.02)
