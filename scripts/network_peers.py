"""The libraries that compare-network measures: how each is started in a cluster's hosts, and the protocol of its orders.

Every rank of every library is a program of benchmarks/peers, which connects to our Unix socket, reports its rank, and
runs the measuring loop of kolo bench for each of our orders."""
import json
import os
import random
import secrets
import socket
import subprocess
import tempfile
import time

from cluster_network import ipv4

NAMES = ("kolo", "gloo", "openmpi", "exchange")
START_LIMIT = 60
ORDER_LIMIT = 600
TUNE_LIMIT = 1800

# Open MPI starts its helpers with this instead of ssh. It needs names of hosts, so each host gets one, and its own
# folder for temporary files.
AGENT = """#!/bin/sh
host=$1
shift
mkdir -p {folder}/$host
exec ip netns exec $host unshare --uts sh -c "hostname $host; export TMPDIR={folder}/$host; $*"
"""


class PeerFailed(Exception):
    pass


def find_program(programs, name):
    program = str((programs / name).resolve())
    if not os.access(program, os.X_OK):
        raise PeerFailed(f"{program} is no program: build kolo with -D KOLO_BENCH=ON, and name the folder with --programs")
    return program


def spawn(cluster, host, command, environment, output):
    # setpriv: it ends even when this process is killed.
    prefix = ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", cluster.host(host)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KOLO_")}
    return subprocess.Popen([*prefix, *command], env={**inherited, **environment}, stdin=subprocess.DEVNULL,
                            stdout=output, stderr=output)


def spawn_kolo(cluster, ranks, loopback, command, settings, output):
    """A program of kolo as each of the ranks."""
    given = {name: value for name, value in os.environ.items() if name.startswith("KOLO_")}
    common = {"KOLO_TABLE": "none", **given, **settings, "WORLD_SIZE": str(ranks),
              "MASTER_ADDR": "127.0.0.1" if loopback else ipv4(0),
              "MASTER_PORT": str(random.randrange(20_000, 30_000)), "KOLO_KEY": secrets.token_hex(16),
              "KOLO_TRANSPORTS": "tcp"}
    processes = []
    for rank in range(ranks):
        place = {"KOLO_INTERFACE": "lo" if loopback else ipv4(rank), "RANK": str(rank)}
        processes.append(spawn(cluster, 0 if loopback else rank, command, {**common, **place}, output))
    return processes


def tune(programs, cluster, ranks, loopback, sizes, table):
    """Has kolo measure its algorithms at these sizes and write the table."""
    command = [find_program(programs, "kolo"), "tune", "--sizes", ",".join(str(size) for size in sizes), "--output", table]
    with tempfile.TemporaryFile("w+") as output:
        processes = spawn_kolo(cluster, ranks, loopback, command, {"KOLO_TABLE": table}, output)
        try:
            failed = [process for process in processes if process.wait(TUNE_LIMIT) != 0]
        except subprocess.TimeoutExpired:
            failed = processes
        finally:
            for process in processes:
                process.kill()
                process.wait()
        if failed:
            output.seek(0)
            raise PeerFailed(f"kolo tune failed; it said: {output.read().strip()[-600:] or 'nothing'}")


class Peer:
    """The running programs of one library, which sleep between orders. `settings`: variables for kolo."""

    def __init__(self, name, programs, cluster, ranks, loopback, settings):
        self.name, self.cluster, self.ranks, self.loopback, self.settings = name, cluster, ranks, loopback, settings
        self.program = find_program(programs, f"peer_{name}")
        self.folder = tempfile.TemporaryDirectory(prefix="kolo-compare-")
        self.output = open(f"{self.folder.name}/output", "w+")
        self.iteration = 0
        self.processes, self.lines, self.library = [], {}, name
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(f"{self.folder.name}/socket")
                listener.listen(ranks)
                self._start(f"{self.folder.name}/socket")
                self._meet(listener)
        except BaseException:
            self.close()
            raise

    def _start(self, address):
        interface = "lo" if self.loopback else "eth0"
        if self.name == "gloo":
            for rank in range(self.ranks):
                self._spawn(rank, [self.program, address, str(rank), str(self.ranks), self.folder.name, interface])
        elif self.name == "kolo":
            self.processes += spawn_kolo(self.cluster, self.ranks, self.loopback, [self.program, address], self.settings,
                                         self.output)
        elif self.name == "exchange":  # forks its ranks
            hosts = [f"{self.cluster.host(rank)}={ipv4(rank)}" for rank in range(self.ranks)]
            self._spawn(0, [self.program, address, str(self.ranks), *([] if self.loopback else hosts)])
        else:
            self._start_open_mpi(address, interface)

    def _start_open_mpi(self, address, interface):
        command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(self.ranks)]
        # Its ranks would poll: they do not know that the emulated hosts share cores.
        for name, value in (("pml", "ob1"), ("btl", "tcp,self"), ("btl_tcp_if_include", interface),
                            ("mpi_yield_when_idle", "1")):
            command += ["--mca", name, value]
        if not self.loopback:
            agent = f"{self.folder.name}/agent"
            with open(agent, "w") as file:
                file.write(AGENT.format(folder=self.folder.name))
            os.chmod(agent, 0o700)
            hosts = [self.cluster.host(rank) for rank in range(self.ranks)]
            command += ["--mca", "oob_tcp_if_include", interface, "--mca", "plm_rsh_agent", agent,
                        "--mca", "plm_rsh_no_tree_spawn", "1", "--host", ",".join(f"{host}:1" for host in hosts)]
            command = ["unshare", "--uts", "sh", "-c", f'hostname {hosts[0]}; exec "$@"', "sh", *command]
        self._spawn(0, [*command, self.program, address])

    def _spawn(self, host, command):
        self.processes.append(spawn(self.cluster, 0 if self.loopback else host, command, {}, self.output))

    def _meet(self, listener):
        deadline = time.monotonic() + START_LIMIT
        listener.settimeout(0.2)
        while len(self.lines) < self.ranks:
            self._check(deadline)
            try:
                connection, _ = listener.accept()
            except socket.timeout:
                continue
            connection.settimeout(START_LIMIT)
            line = connection.makefile("rw")
            hello = json.loads(line.readline())
            self.library = hello["library"]
            self.lines[hello["rank"]] = connection, line

    def _check(self, deadline):
        if any(process.poll() is not None for process in self.processes) or time.monotonic() > deadline:
            self.output.seek(0)
            said = self.output.read().strip()[-600:]
            raise PeerFailed(f"{self.name} did not answer; it said: {said or 'nothing'}")

    def measure(self, size, iterations, algorithms):
        """Its samples, one for each algorithm (without names: for all)."""
        order = {"collective": "all_reduce", "ranks": self.ranks, "dtype": "float32", "reduction": "sum",
                 "in_place": True, "count": size // 4, "tensors": 1, "steps": 1, "compute_ms": 0, "warmup": 2,
                 "iterations": iterations, "min_iterations": 0, "min_seconds": 0, "max_iterations": iterations, "algorithms": algorithms,
                 "first_iteration": self.iteration}
        self.iteration += 10_000
        for _, line in self.lines.values():
            line.write(json.dumps(order) + "\n")
            line.flush()
        connection, line = self.lines[0]
        connection.settimeout(ORDER_LIMIT)
        try:
            answer = line.readline()
        except socket.timeout:
            answer = ""
        if not answer:
            self._check(0)
        return json.loads(answer)["samples"]

    def close(self):
        """Closes the connections, which ends the programs; the cluster ends the others."""
        for connection, line in self.lines.values():
            line.close()
            connection.close()
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes, self.lines = [], {}
        self.output.close()
        self.folder.cleanup()
