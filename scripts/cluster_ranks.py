"""The ranks of one run in an emulated cluster: started in their hosts, with one output, stopped together."""
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import threading

from cluster_network import ipv4, ipv6

CANNOT_START = 127
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def job_environment():
    """What all ranks of a job in an emulated cluster have, but for their numbers and the place where they meet."""
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith("TORCHELASTIC_") and name not in ("KOLO_STORE", "KOLO_STORE_SERVED", "KOLO_KEY_FILE")}
    # A tuning table of this machine, or of another emulated cluster, says nothing about this one.
    return {"OMP_NUM_THREADS": "1", "KOLO_TABLE": "none", **inherited, "KOLO_KEY": secrets.token_hex(16)}


def start_on(cluster, host, program, environment, **options):
    """A process in a group of its own, with pipes, that ends even when this one is killed (setpriv)."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", cluster.host(host), *program], env=environment,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                            **options)


class Rank:
    def __init__(self, number, host, process):
        self.number, self.host, self.process = number, host, process
        self.readers = []

    def signal(self, number):
        """To the rank and the processes of its process group."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


class Job:
    """One program, once: counts[h] ranks on host h."""

    def __init__(self, cluster, counts, program, use_ipv6, prefix, grace):
        self.cluster, self.counts, self.program = cluster, counts, program
        self.ipv6, self.prefix, self.grace = use_ipv6, prefix, grace
        self.output = threading.Lock()
        self.running = {}
        self.code = 0
        self.interrupts = 0

    def say(self, text):
        with self.output:
            print(f"cluster: {text}", file=sys.stderr, flush=True)

    def environment(self, rank, host, local_rank, common):
        address = ipv6(host) if self.ipv6 else ipv4(host)
        return {**common, "RANK": str(rank), "LOCAL_RANK": str(local_rank),
                "LOCAL_WORLD_SIZE": str(self.counts[host]), "KOLO_INTERFACE": address}

    def common_environment(self):
        first = next(host for host, count in enumerate(self.counts) if count)
        return {**job_environment(), "WORLD_SIZE": str(sum(self.counts)),
                "MASTER_ADDR": ipv6(first) if self.ipv6 else ipv4(first),
                # Below the range of outgoing connections; each host has its own ports.
                "MASTER_PORT": str(random.randrange(20_000, 30_000))}

    def start_all(self):
        common = self.common_environment()
        number = 0
        for host, count in enumerate(self.counts):
            for local_rank in range(count):
                if self.code != 0:
                    return
                process = start_on(self.cluster, host, self.program, self.environment(number, host, local_rank, common))
                rank = Rank(number, host, process)
                self.running[process.pid] = rank
                for source, sink in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
                    rank.readers.append(threading.Thread(target=self.forward, args=(rank, source, sink), daemon=True))
                    rank.readers[-1].start()
                number += 1

    def forward(self, rank, source, sink):
        """Whole lines of one rank at a time. The job ends if the reader of standard output is gone."""
        prefix = f"[{rank.host}.{rank.number}] ".encode() if self.prefix else b""
        for line in source:
            try:
                with self.output:
                    sink.buffer.write(prefix + line + (b"" if line.endswith(b"\n") else b"\n"))
                    sink.buffer.flush()
            except BrokenPipeError:
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def stop(self, number):
        for rank in self.running.values():
            rank.signal(number)
            rank.signal(signal.SIGCONT)  # a stopped process gets no other signal
        signal.setitimer(signal.ITIMER_REAL, max(self.grace, 0.001))

    def kill(self, *_):
        for rank in self.running.values():
            rank.signal(signal.SIGKILL)

    def interrupted(self, number, _):
        self.interrupts += 1
        if self.code == 0:
            self.code = 128 + number
        if self.interrupts > 1 and number == signal.SIGINT:
            self.kill()
        else:
            self.stop(number)

    def judge(self, rank, status):
        """The first failure decides, and stops the others."""
        if status == 0 or self.code != 0:
            return
        self.code = status if status > 0 else 128 - status
        how = f"exited with code {status}" if status > 0 else f"was killed by {signal.Signals(-status).name}"
        rest = f"; stopping the other {len(self.running)}" if self.running else ""
        self.say(f"rank {rank.number} on host {rank.host} {how}{rest}")
        self.stop(signal.SIGTERM)

    def run(self):
        """The exit code, see --help."""
        if not self.can_start():
            return CANNOT_START
        handlers = {number: signal.signal(number, self.interrupted) for number in STOPPING}
        handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, self.kill)
        try:
            self.start_all()
            while self.running:
                pid, status = os.wait()
                rank = self.running.pop(pid, None)
                if rank is None:
                    continue
                rank.process.returncode = os.waitstatus_to_exitcode(status)
                rank.signal(signal.SIGKILL)  # processes that it left
                for reader in rank.readers:
                    reader.join(1)
                self.judge(rank, rank.process.returncode)
        finally:
            self.kill()
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return self.code

    def can_start(self):
        if shutil.which(self.program[0]):
            return True
        self.say(f"cannot start '{self.program[0]}': no such program")
        return False
