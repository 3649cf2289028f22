"""The processes of a demo: one on each machine, whose lines of JSON come in through a queue."""
import json
import os
import queue
import signal
import threading

from cluster_network import call, ipv4
from cluster_ranks import job_environment, start_on


class Process:
    """One process on one machine of the emulated cluster."""

    def __init__(self, jobs, machine, command, environment):
        self.machine, self.is_ended = machine, False
        self.process = start_on(jobs.cluster, machine, map(str, command), {**environment, "KOLO_INTERFACE": ipv4(machine)}, text=True)
        self.readers = [threading.Thread(target=self._read, args=(jobs.events, source, is_error), daemon=True)
                        for source, is_error in ((self.process.stdout, False), (self.process.stderr, True))]
        for reader in self.readers:
            reader.start()

    def _read(self, events, source, is_error):
        for line in source:
            try:
                events.put((self, json.loads(line)))
            except json.JSONDecodeError:
                events.put((self, {"event": "error" if is_error else "line", "text": line.strip()}))
        if is_error:
            events.put((self, {"event": "end", "status": self.process.wait()}))

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for reader in self.readers:
            reader.join()


class Jobs:
    def __init__(self, cluster, port):
        self.cluster, self.port = cluster, port
        self.events = queue.Queue()
        self.running = []
        self.common = job_environment()

    def next_port(self):
        self.port += 1
        return self.port

    def start(self, machines, command, environment=None):
        """One rank on each of these machines, which meet at the first of them."""
        port = str(self.next_port())
        for rank, machine in enumerate(machines):
            self.running.append(Process(self, machine, command, {
                **self.common, **(environment or {}), "RANK": str(rank), "WORLD_SIZE": str(len(machines)), "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": ipv4(machines[0]), "MASTER_PORT": port}))

    def end(self):
        """Kills what runs, and forgets what it has said."""
        for one in self.running:
            one.kill()
        self.running = []
        while not self.events.empty():
            self.events.get()

    def set_plug(self, machine, state):
        """Once it is "down", nothing comes to the machine or leaves it, and nobody is told; "up" again."""
        call("ip", "-n", self.cluster.switch, "link", "set", f"port{machine}", state)
