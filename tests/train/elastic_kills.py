#!/usr/bin/env python3
"""elastic_kills.py KOLO PROGRAM: trains with PROGRAM (train_fashion_mnist or train_language_model) under kolo run --elastic, and kills
ranks, stops them and cuts their connections meanwhile. Then training has ended well, as good as undisturbed, with each sample of
each epoch trained once, and nothing is left behind."""
import argparse
import collections
import ctypes
import errno
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "scripts"))
from demo_story import check_records, read_records  # noqa: E402

MOST, HEARTBEAT_S, PATIENCE_S = 4, 2, 60
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_CHILD_SUBREAPER, SYS_PIDFD_GETFD = 36, 438


def model_of(options):
    """Its arguments, the steps, the samples of an epoch, and the curve whose end counts."""
    if "language" in options.program.name:
        batch = 12
        text = options.text or options.folder / "text"
        if not options.text:
            draw = random.Random(1)
            text.write_text("".join(f"word{n:04}\n    n 1: {' '.join(draw.choices('gradient ring sum worker of the and sends'.split(), k=12))};\n"
                                    for n in range(400)))
        sizes = ["--width", "32", "--layers", "1", "--heads", "2", "--context", "32", "--ngram-rows", "512", "--generate", "0"]
        return ["--text", text, "--steps", options.steps, "--batch", batch, *sizes], options.steps, options.steps * batch, "held_out"
    batch, size = 48, 48 * min(max(options.steps // 4, 1), 250)
    epochs = options.steps * batch // size
    return ["--limit", size, "--batch", batch, "--epochs", epochs], epochs * size // batch, size, "test_accuracy"


class Job:
    """A training and what is known of it."""

    def __init__(self, options, launch, arguments, name):
        self.output, self.record, self.log = (options.folder / f"{name}-{what}" for what in ("output", "record", "log"))
        self.record.mkdir()
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                list(map(str, [options.kolo, "run", *launch, "--", options.program, "--output", self.output, *arguments])), stdout=log,
                stderr=subprocess.STDOUT, env={**os.environ, "KOLO_HEARTBEAT": str(HEARTBEAT_S), "KOLO_TRANSPORTS": options.transports})
        self.files = {}    # of the record: {path: [bytes read, lines but for the samples]}
        self.memory = set()  # names in /dev/shm that its ranks have mapped

    def look(self):
        for path in self.record.iterdir():
            file = self.files.setdefault(path, [0, []])
            with open(path, "rb") as record:
                record.seek(file[0])
                new = record.read()
            new = new[:new.rfind(b"\n") + 1]
            file[0] += len(new)
            file[1] += [json.loads(re.sub(rb'"samples":\[[^]]*\]', b'"samples":0', line)) for line in new.splitlines()]
        groups = [[line for line in lines if "ranks" in line][-1:] for _, lines in self.files.values()]
        self.group = max((last[0]["group"] for last in groups if last), default=0)
        self.members = {int(path.stem.rsplit("-", 1)[1]): last[0] for path, last in zip(self.files, groups) if last
                        and last[0]["group"] == self.group}
        self.step = max((lines[-1]["step"] for _, lines in self.files.values() if lines), default=0)
        return self

    def wait_for(self, what, condition):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{what} did not happen: exit code {self.process.poll()}, step {self.step}, ranks {self.members}")
            time.sleep(0.02)

    def is_whole(self, least=1):
        """Whether all ranks of the last group train."""
        self.look()
        return len(self.members) >= least and all(line["ranks"] == len(self.members) for line in self.members.values()) and all(
            lines[-1].get("samples") == 0 for _, lines in self.files.values() if lines and lines[-1]["group"] == self.group)

    def note_memory(self):
        for pid in self.members:
            self.memory.update(re.findall(r"(/dev/shm/\S+)", Path(f"/proc/{pid}/maps").read_text()))

    def end(self):
        self.process.wait(timeout=600)
        assert self.process.returncode == 0, f"exit code {self.process.returncode}"
        return json.loads((self.output / "metrics.json").read_text())


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def sockets(pid):
    """{(own address, peer's address): descriptor} of a process's TCP connections."""
    found = {}
    links = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            links[os.readlink(f"/proc/{pid}/fd/{name}")] = int(name)
        except FileNotFoundError:
            pass
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, own, peer, state, *_, = line.split()
            if state == "01" and (number := links.get(f"socket:[{line.split()[9]}]")) is not None:
                found[own, peer] = number
    return found


def cut(draw, pids):
    """Shuts one connection between two of them down, through a copy of its descriptor."""
    copy = -1
    while copy < 0:  # the one that is chosen may be closed by then
        ends = [(pid, way, number) for pid in pids for way, number in sockets(pid).items()]
        ways = {way for _, way, _ in ends}
        pid, _, number = draw.choice([end for end in ends if (end[1][1], end[1][0]) in ways])
        pidfd = os.pidfd_open(pid)
        copy = LIBC.syscall(SYS_PIDFD_GETFD, pidfd, number, 0)
        os.close(pidfd)
        if ctypes.get_errno() == errno.EPERM:
            raise PermissionError("pidfd_getfd")
    with socket.socket(fileno=copy) as link:
        link.shutdown(socket.SHUT_RDWR)


def disturb(job, options, steps):
    """Does `options.events` things, evenly over the training. Returns {group that went on: what had been done}."""
    draw, counted, done = random.Random(options.seed), {}, {}
    kinds = ["kill"] * 3 + ["stop"] + (["cut"] * 2 if options.transports == "tcp" else [])
    for event in range(options.events):
        at = (event + 1) * steps // (options.events + 2)
        while job.look().step < at and job.process.poll() is None:
            time.sleep(0.01)
        job.wait_for("a group of three", lambda: job.is_whole(3))
        time.sleep(draw.random() * 0.05)
        job.note_memory()
        for pid in (*job.members, job.process.pid):
            counted.setdefault((len(job.members), pid == job.process.pid), []).append(descriptors(pid))
        kind = draw.choice(kinds) if event > 0 else "kill"
        before, victim = job.group, draw.choice(sorted(job.members))
        print(f"step {job.step}: {kind} {job.members[victim]['rank']} of {len(job.members)}", flush=True)
        if kind == "kill":
            os.kill(victim, signal.SIGKILL)
        elif kind == "stop":
            os.kill(victim, signal.SIGSTOP)
            time.sleep(HEARTBEAT_S + 1)
            os.kill(victim, signal.SIGCONT)
        else:
            cut(draw, sorted(job.members))
            end = time.monotonic() + HEARTBEAT_S + 1
            while job.look().group == before and time.monotonic() < end:
                time.sleep(0.02)
            if job.group == before:
                continue  # nothing comes of it where no call uses the connection
        job.wait_for("another group", lambda before=before: job.look().group > before and job.is_whole())
        done[min(line["group"] for _, lines in job.files.values() for line in lines if line["group"] > before)] = kind
    for (size, is_launcher), counts in counted.items():
        assert max(counts[-size:]) < min(counts[:size]) + 12, f"descriptors, {'launcher' if is_launcher else 'ranks'} of {size}: {counts}"
    return done


def lost_seconds(job, group):
    """Until the survivors had made the first step of this group, since the first of them knew of the end of the last one."""
    times = []
    for _, lines in job.files.values():
        mine = [line for line in lines if line["group"] == group]
        if mine and mine[0]["ranks_before"] > 0 and len(mine) > 2:
            times.append(mine[0]["lost_s"] + (mine[2]["time"] - mine[0]["time"]) / 1e9)
    return max(times, default=None)


def run(options):
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    arguments, steps, size, curve = model_of(options)
    job = Job(options, ["--elastic", f"2:{MOST}", "--restarts", "1000"],
              [*arguments, "--elastic", "--record", options.folder / "disturbed-record"], "disturbed")
    try:
        done = disturb(job, options, steps)
        metrics = job.end()
    except BaseException:
        job.process.terminate()
        print(job.log.read_text()[-8000:])
        raise
    job.look()
    try:
        raise AssertionError(f"a process is left: {os.waitpid(-1, os.WNOHANG)}")
    except ChildProcessError:
        pass
    left = [name for name in job.memory if os.path.exists(name.removesuffix(" (deleted)"))]
    assert not left, left
    assert metrics["steps"] == steps, metrics["steps"]
    for epoch, once, missing, more in check_records(read_records(job.record.iterdir()), steps, size):
        assert (once, missing, more) == (size, 0, 0), f"epoch {epoch}: {once} once, {missing} missing, {more} more than once"
    lost = collections.defaultdict(list)
    for group, kind in done.items():
        if (seconds := lost_seconds(job, group)) is not None:
            lost[kind].append(seconds)
    for kind, times in sorted(lost.items()):
        times.sort()
        print(f"{list(done.values()).count(kind)} x {kind}: lost {1e3 * times[len(times) // 2]:.0f} ms (median), {1e3 * times[-1]:.0f} ms (worst)")
    end = metrics[curve][-1][1]
    undisturbed = [Job(options, ["-n", "1"], [*arguments, "--seed", seed], f"seed-{seed}").end()[curve][-1][1] for seed in (1, 2, 3)]
    print(f"{steps} steps; {curve} {end:.4g}, undisturbed {', '.join(f'{one:.4g}' for one in undisturbed)}")
    noise = max(undisturbed) - min(undisturbed)
    assert min(undisturbed) - noise <= end <= max(undisturbed) + noise


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kolo", type=Path)
    parser.add_argument("program", type=Path)
    parser.add_argument("--events", type=int, default=20, help="kills, stops and cuts (20)")
    parser.add_argument("--steps", type=int, default=3000, help="of the training (3000)")
    parser.add_argument("--transports", default="shm", help="tcp: connections are cut, too (shm)")
    parser.add_argument("--text", type=Path, help="for the language model; else one is made up")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        run(options)


if __name__ == "__main__":
    main()
