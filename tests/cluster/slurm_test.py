#!/usr/bin/env python3
"""kolo under Slurm: a small Slurm whose daemons run in the hosts of an emulated cluster."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import emulated
from emulated import CLUSTER, KOLO, call, inside

NAME = f"slurm.{os.getpid()}"
TIMEOUT_S = 60
HOSTS = 3  # of which the first runs the controller, and srun
PATH = f"{os.environ['PATH']}:/usr/sbin"
NEEDED = ("munged", "slurmctld", "slurmd", "srun")

CONFIGURATION = """\
ClusterName=kolo
SlurmctldHost={controller}(10.77.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
ReturnToService=2
SlurmdParameters=config_overrides
"""


class Slurm:
    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        self.configuration = f"{folder}/slurm.conf"
        self.environment = {**os.environ, "SLURM_CONF": self.configuration, "PATH": PATH}
        os.chmod(folder, 0o755)
        for name in ("munge", "state", *(f"spool.n{host}" for host in range(1, HOSTS))):
            os.mkdir(f"{folder}/{name}", 0o755)
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(folder=folder, controller=socket.gethostname().partition(".")[0]))
            for host in range(1, HOSTS):
                file.write(f"NodeName=n{host} NodeAddr=10.77.0.{host + 1} NodeHostname=n{host} CPUs=4 State=UNKNOWN\n")
            file.write("PartitionName=all Nodes=ALL Default=YES OverSubscribe=YES\n")
        # What ip netns exec mounts has no control groups. Named explicitly, this plugin does not look for them.
        with open(f"{folder}/cgroup.conf", "w", encoding="utf-8") as file:
            file.write("CgroupPlugin=cgroup/v1\n")
        with open(f"{folder}/key", "wb") as file:
            file.write(os.urandom(64))
        os.chmod(f"{folder}/key", 0o400)
        emulated.give_names(NAME, [f"n{host}" for host in range(HOSTS)])
        self.start(["munged", "--foreground", "--force", f"--socket={folder}/munge/socket", f"--key-file={folder}/key",
                    f"--pid-file={folder}/munge/pid", f"--log-file={folder}/munge/log",
                    f"--seed-file={folder}/munge/seed"])
        self.start(inside(NAME, 0, "slurmctld", "-D"))
        for host in range(1, HOSTS):
            self.start(inside(NAME, host, "slurmd", "-D", "-N", f"n{host}"))

    def start(self, command):
        self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL))

    def ready(self):
        give_up = time.monotonic() + TIMEOUT_S
        while time.monotonic() < give_up:
            done = subprocess.run(inside(NAME, 0, "sinfo", "-h", "-o", "%T %D"), env=self.environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if f"idle {HOSTS - 1}" in done.stdout:
                return True
            time.sleep(0.2)
        return False

    def srun(self, *arguments, **variables):
        done = subprocess.run(inside(NAME, 0, "srun", *arguments), env={**self.environment, **variables}, text=True,
                              timeout=TIMEOUT_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()


class UnderSlurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.addClassCleanup(emulated.take_names, NAME)
        cls.addClassCleanup(call, CLUSTER, "down", "--name", NAME)
        call(CLUSTER, "up", "--hosts", str(HOSTS), "--name", NAME)
        cls.slurm = Slurm(cls.folder.name)
        if not cls.slurm.ready():
            logs = call("sh", "-c", f"tail -n 20 {cls.folder.name}/*.log")
            cls.slurm.end()
            raise AssertionError(f"Slurm did not start:\n{logs}")

    @classmethod
    def tearDownClass(cls):
        cls.slurm.end()

    def check(self, *options, ranks, **variables):
        code, out = self.slurm.srun(*options, KOLO, "bench", "all_reduce", "--sizes", "100000", "--iterations", "3",
                                    KOLO_TABLE="none", **variables)
        self.assertEqual(code, 0, out)
        self.assertIn(f"all_reduce, {ranks} ranks over shm+tcp", out)
        self.assertIn("All results are right", out)

    def test_two_nodes(self):
        self.check("-N", "2", "-n", "4", ranks=4, KOLO_KEY="a key of this test")

    def test_unequal_nodes(self):
        self.check("-N", "2", "-n", "3", "--distribution=block", ranks=3, KOLO_KEY="a key of this test")

    def test_pmi(self):
        self.check("--mpi=pmi2", "-N", "2", "-n", "4", ranks=4, KOLO_KEY="a key of this test")

    def test_pmix_on_one_node(self):
        # Over several emulated nodes Slurm's own folders for PMIx collide in /tmp.
        code, out = self.slurm.srun("--mpi=pmix", "-N", "1", "-n", "2", KOLO, "bench", "all_reduce", "--sizes", "8",
                                    KOLO_TABLE="none")
        if "pmix" not in self.slurm.srun("--mpi=list", "true")[1]:
            self.skipTest("this Slurm has no PMIx")
        self.assertEqual(code, 0, out)
        self.assertIn("2 ranks over shm", out)

    def test_doctor_examines_the_step(self):
        code, out = self.slurm.srun("-N", "2", "-n", "2", KOLO, "doctor", KOLO_KEY="a key of this test")
        self.assertEqual(code, 0, out)
        self.assertIn("2 of 2 ranks on 2 hosts", out)

    def sbatch(self, name, *options):
        """Runs a file of examples/slurm to its end; returns what the job printed."""
        log = f"{self.folder.name}/{name}.log"
        files = pathlib.Path(__file__).resolve().parents[2] / "examples/slurm"
        done = subprocess.run(inside(NAME, 0, "sbatch", "--wait", f"--output={log}", f"--chdir={self.folder.name}", *options,
                                     files / name, KOLO, "bench", "all_reduce", "--sizes", "100000", "--iterations", "3"),
                              env={**self.slurm.environment, "KOLO_TABLE": "none"}, text=True, timeout=TIMEOUT_S,
                              cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with open(log, encoding="utf-8") as file:
            output = file.read()
        self.assertEqual(done.returncode, 0, done.stdout + output)
        self.assertIn("All results are right", output)
        return output

    def test_batch_file_of_one_node(self):
        # As many cores as a node of this test has.
        self.assertIn("4 ranks over shm", self.sbatch("one-node.sbatch", "--cpus-per-task=1"))

    def test_batch_file_of_several_nodes(self):
        output = self.sbatch("several-nodes.sbatch", "--nodes=2", "--ntasks-per-node=2")
        self.assertIn("4 ranks over shm+tcp", output)
        self.assertEqual(list(pathlib.Path(self.folder.name).glob(".kolo-key*")), [], "the key is left behind")

    def test_a_dead_rank_is_named(self):
        script = f"[ $SLURM_PROCID = 3 ] && (sleep 2; kill -KILL $$) & exec {KOLO} bench all_reduce --sizes 1M " \
                 "--iterations 1000000"
        code, out = self.slurm.srun("-N", "2", "-n", "4", "--kill-on-bad-exit=0", "sh", "-c", script,
                                    KOLO_KEY="a key of this test", KOLO_TABLE="none")
        self.assertNotEqual(code, 0, out)
        self.assertIn("lost rank 3", out)


if __name__ == "__main__":
    absent = [program for program in NEEDED if shutil.which(program, path=PATH) is None]
    if absent:
        emulated.skip(f"there is no {absent[0]} here (slurm-wlm, munge)")
    emulated.main(NAME)
