#!/usr/bin/env python3
"""elastic_test.py PROGRAM DEAF KOLO: kolo run --elastic, of the example whose ranks come and go, and of shell scripts."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SURVIVE, DEAF, KOLO = sys.argv[1:4]
STEPS = 1_000_000  # more than any test waits for


class Job:
    """kolo run --elastic, whose lines are read one by one."""

    def __init__(self, *arguments, **variables):
        self.mark = f"elastic-{os.getpid()}-{time.monotonic_ns()}"
        self.process = subprocess.Popen([KOLO, "run", "--elastic", *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, **variables, "TEST_MARK": self.mark})
        self.text = ""
        self.pids = {}  # of each process, by its number

    def until(self, pattern):
        """Reads on, until a line matches."""
        try:
            for line in self.process.stdout:
                self.text += line
                if found := re.search(r"\[(\d+)\] rank \d+ of \d+ is process (\d+)", line):
                    self.pids[int(found[1])] = int(found[2])
                if re.search(pattern, line):
                    return
        except TimeoutError:
            pass
        raise AssertionError(f"no {pattern} in\n{self.text}")

    def kill(self, number):
        os.kill(self.pids.pop(number), signal.SIGKILL)

    def end(self):
        self.text += self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait()

    def left(self):
        """Processes of the job that still run."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self.mark.encode() in file.read():
                        found.append(pid)
            except OSError:
                pass
        return found


class Elastic(unittest.TestCase):
    def setUp(self):
        def give_up(*_):
            raise TimeoutError

        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(60)
        self.addCleanup(signal.alarm, 0)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.checkpoint = os.path.join(self.folder, "checkpoint")

    def job(self, *arguments, **variables):
        job = Job(*arguments, **variables)
        self.addCleanup(job.process.kill)
        return job

    def expect_end(self, job, code):
        self.assertEqual(job.end(), code, job.text)
        self.assertEqual(job.left(), [], job.text)

    def test_any_process_may_be_killed_and_comes_again(self):
        job = self.job("2:3", "--", SURVIVE, self.checkpoint, str(STEPS))
        job.until("3 ranks go on from step 0")
        for number in (0, 2):
            job.kill(number)
            job.until(rf"kolo: \d\d:\d\d:\d\d process {number} \(pid \d+\) was killed by signal 9 \(Killed\); 2 go on; "
                      r"it starts again in 0.5 s \(restart 1 of 10\)")
            job.until(f"kolo: .* process {number} has come into the group")
            job.until("step ")
        self.assertIn("2 ranks go on from step", job.text)
        os.kill(job.process.pid, signal.SIGTERM)
        self.expect_end(job, 128 + signal.SIGTERM)

    def test_what_fails_too_often_is_not_started_again_and_too_few_end_the_job(self):
        job = self.job("2:3", "--restarts", "1", "--", SURVIVE, self.checkpoint, str(STEPS))
        job.until("3 ranks go on from step 0")
        for number, left in ((1, 2), (0, 1)):
            job.kill(number)
            job.until(rf"process {number} .* was killed .* \(restart 1 of 1\)")
            job.until(f"process {number} has come into the group")
            if number not in job.pids:
                job.until(rf"\[{number}\] rank")
            job.kill(number)
            job.until(rf"process {number} .* was killed .*; {left} goe?s? on; it is not started again, after 1 restarts in 10 min")
        job.until("kolo: 1 of the at least 2 processes that --elastic asks for is left; stopping the other 1")
        self.expect_end(job, 128 + signal.SIGKILL)

    def test_a_job_ends_with_its_group(self):
        job = self.job("1:2", "--", SURVIVE, self.checkpoint, str(STEPS))
        job.until("2 ranks go on from step 0")
        job.kill(0)
        job.kill(1)
        self.expect_end(job, 128 + signal.SIGKILL)
        self.assertIn("no process of the group is left", job.text)

    def test_newcomers_that_no_group_takes_say_so_and_end_with_the_work(self):
        end = os.path.join(self.folder, "end")
        job = self.job("1:2", "--", "sh", "-c", '[ "$KOLO_JOIN" = always ] && export KOLO_TIMEOUT=1; exec "$@"', "sh", DEAF, end)
        job.until(r"\[1\] no group has taken this newcomer within 1 s .* a group does so in regroup\(\)")
        job.until(r"exited with code 3; 1 goes on; it starts again in 1 s \(restart 2 of 10\)")
        job.until("process 1 starts as a newcomer")
        open(end, "w", encoding="utf-8").close()
        self.expect_end(job, 0)

    def test_before_a_group_has_met_a_failure_ends_the_job(self):
        job = self.job("1:3", "--", "sh", "-c", "[ $RANK = 1 ] && exit 7; sleep 60")
        self.expect_end(job, 7)
        self.assertIn("process 1 (pid", job.text)
        self.assertIn("exited with code 7; stopping the other 2", job.text)

    def hosts_job(self, *arguments):
        """Over a fake ssh that runs commands here, and writes its process id to a file named after the host."""
        ssh = os.path.join(self.folder, "ssh")
        with open(ssh, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nwhile :; do case $1 in -o) shift 2;; -*) shift;; *) break;; esac; done\n"
                       f"echo $$ >{self.folder}/$1\nshift\nexec sh -c \"$*\"\n")
        os.chmod(ssh, 0o755)
        return self.job(*arguments, "--ssh", ssh, "--store-address", "127.0.0.1", "--", SURVIVE, self.checkpoint, str(STEPS))

    def list_hosts(self, *hosts):
        path = os.path.join(self.folder, "hosts")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(hosts))
        os.rename(path + ".new", path)
        return path

    def test_hosts_come_and_go(self):
        job = self.hosts_job("1:3", "--hosts-file", self.list_hosts("a", "b 1"))
        job.until("2 ranks go on from step 0")
        self.list_hosts("a", "b 1", "c 2  # more than there is room for")
        job.until("process 2 has come into the group")
        self.list_hosts("b 1", "c 2")
        job.until("kolo: a is not listed any more")
        job.until(r"kolo: \d\d:\d\d:\d\d a: process 0 \(pid \d+\) was killed by signal 15 \(Terminated\), as it was told to")
        job.until("2 ranks go on")
        self.list_hosts("b 1", "c 2 3")
        job.until("hosts:2: .* the hosts stay as they are")
        os.kill(job.pids[1], signal.SIGKILL)
        job.until("b: process 1 .* starts again in 0.5 s")
        job.until("process 1 has come into the group")
        with open(os.path.join(self.folder, "b"), encoding="utf-8") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        job.until("kolo: .* lost host b: .* was killed by signal 9; 1 goes on")
        job.until(r"kolo: b is tried again in 0.5 s, while it is listed")
        job.until("process 3 has come into the group")
        job.until("step ")
        os.kill(job.process.pid, signal.SIGTERM)
        self.expect_end(job, 128 + signal.SIGTERM)

    def test_a_command_lists_the_hosts(self):
        path = self.list_hosts("a")
        job = self.hosts_job("1:2", "--hosts-command", f"cat {path}")
        job.until("1 ranks go on from step 0")
        self.list_hosts("a", "b")
        job.until("process 1 has come into the group")
        os.kill(job.process.pid, signal.SIGINT)
        self.expect_end(job, 128 + signal.SIGINT)

    def test_a_process_that_its_launcher_starts_again_with_the_same_environment_joins(self):
        # As the pods of a Kubernetes Job, of which one is evicted: rank 0, which serves no store.
        def start(rank):
            pod = subprocess.Popen([SURVIVE, self.checkpoint, str(STEPS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "3", "KOLO_JOIN": "auto",
                                        "KOLO_STORE": f"file://{self.folder}/store", "KOLO_KEY": "a key of this test"})
            self.addCleanup(pod.wait)
            self.addCleanup(pod.kill)
            self.addCleanup(pod.stdout.close)
            self.addCleanup(pod.stderr.close)
            return pod

        pods = [start(rank) for rank in range(3)]
        for pod in pods:
            self.assertIn("of 3 is process", pod.stdout.readline())
        twin = start(1)
        self.assertEqual(twin.wait(), 1)
        self.assertIn("process 1 is in the group already", twin.stderr.read())
        pods[0].terminate()
        self.assertEqual(pods[0].wait(), -signal.SIGTERM)
        self.assertIn("rank 2 of 3 is process", start(0).stdout.readline())

    def test_contradictions_are_refused(self):
        for arguments, words in ((("3:2",), "LEAST no more than MOST"), (("0:2",), "LEAST:MOST"), (("2",), "LEAST:MOST"),
                                 (("2:4", "-n", "5"), "--ranks 5 is not from 2 to 4"),
                                 (("2:4", "-n", "1"), "--ranks 1 is not from 2 to 4"),
                                 (("2:4", "--keep-going"), "exclude each other"),
                                 (("3:4", "--hosts", "a:2"), "room for 2 ranks"),
                                 (("1:2", "--hosts-command", "exit 3"), "has failed")):
            job = self.job(*arguments, "--", "true")
            self.expect_end(job, 2)
            self.assertIn(words, job.text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
