#!/usr/bin/env python3
"""docs/two-workstations.md, word for word: its commands run as one shell script on the first of two emulated hosts, with ssh,
keys and a password between them, and all ports closed but those that the page opens. Blocks after <!-- not run: WHY --> are left
out; blocks ```text are output, and must come from the commands before, whatever the numbers."""

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import emulated
from emulated import CLUSTER, KOLO, call, namespace, wait_for

PAGE, STARTER = sys.argv[3:5]
NAME = f"page.{os.getpid()}"
HOSTS = ("a", "b")
PASSWORD = "emulated"
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks():
    """(what is output, its text or commands) in the page's order; without what is not run."""
    for mark, language, text in BLOCK.findall(Path(PAGE).read_text(encoding="utf-8")):
        if not mark:
            yield language == "text", text


def close_ports(host):
    """As a firewall that drops what does not come to, or from, the ports of the page's ufw command. It needs iproute2 alone."""
    ports = re.search(r"to any port (\S+) proto tcp", Path(PAGE).read_text(encoding="utf-8")).group(1)
    rules = [["pref", "1", "iif", "eth0", "ipproto", "tcp", which, port.replace(":", "-"), "lookup", "local"]
             for port in ports.split(",") for which in ("dport", "sport")]
    rules += [["pref", "2", "iif", "eth0", "ipproto", "tcp", "blackhole"], ["pref", "3", "lookup", "local"]]
    for rule in rules:
        call("ip", "-n", namespace(NAME, host), "rule", "add", *rule)
    call("ip", "-n", namespace(NAME, host), "rule", "del", "pref", "0")


def shape(line):
    return re.sub(r"\d+(\.\d+)?", "#", line)


class Workstations(unittest.TestCase):
    """Each host has a home folder of its own, at the same path, and a user with a password; keys are the page's affair."""

    def setUp(self):
        call(CLUSTER, "up", "--hosts", "2", "--name", NAME, "--rate", "1gbit")
        self.addCleanup(call, CLUSTER, "down", "--name", NAME)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        emulated.give_names(NAME, HOSTS)
        self.addCleanup(emulated.take_names, NAME)
        for name in ("home", "shared", *HOSTS):
            (self.folder / name).mkdir(mode=0o755)
        self.home = self.folder / "home"
        user = pwd.getpwuid(os.getuid())
        secret = call("openssl", "passwd", "-6", PASSWORD).strip()
        users = re.sub(rf"^({user.pw_name}:.*):[^:]*:([^:]*)$", rf"\1:{self.home}:/bin/bash", Path("/etc/passwd").read_text(),
                       flags=re.MULTILINE)
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "host"))
        settings = self.folder / "sshd_config"
        settings.write_text(f"HostKey {self.folder}/host\nPidFile none\nStrictModes no\nPermitRootLogin yes\nUsePAM no\n"
                            f"SetEnv PATH={self.path()}\nSubsystem sftp internal-sftp\n")
        os.makedirs("/run/sshd", exist_ok=True)
        for host in range(len(HOSTS)):
            close_ports(host)
            place = Path("/etc/netns") / namespace(NAME, host)
            (place / "passwd").write_text(users)
            (place / "shadow").write_text(f"{user.pw_name}:{secret}:20000:0:99999:7:::\n")
            (self.folder / HOSTS[host] / "shared").mkdir()
            server = subprocess.Popen(self.on(host, SSHD, "-D", "-e", "-f", str(settings)), stderr=subprocess.DEVNULL)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)

    def path(self):
        return f"{Path(KOLO).parent}:{os.environ['PATH']}"

    def on(self, host, *command):
        """The command in the host, where the home folder is the host's, and ~/shared is one folder of both."""
        mounts = (f"mount --bind {self.folder}/{HOSTS[host]} {self.home} && "
                  f"mount --bind {self.folder}/shared {self.home}/shared")
        return emulated.inside(NAME, host, "sh", "-c", f'{mounts} && cd {self.home} && exec "$@"', "sh", *command)

    def answers(self):
        """What a user types when ssh asks."""
        answers = self.folder / "answers"
        answers.write_text(f'#!/bin/sh\ncase "$1" in *yes/no*) echo yes ;; *) echo {PASSWORD} ;; esac\n')
        answers.chmod(0o755)
        return {"SSH_ASKPASS": str(answers), "SSH_ASKPASS_REQUIRE": "force"}

    def test_the_page_leads_to_a_trained_model(self):
        place = self.folder / "a/clothes"
        (place / "data").mkdir(parents=True)
        shutil.copy(STARTER, place / "starter")
        script, expected, number = "set -eu\n", {}, 0
        for is_output, text in blocks():
            if is_output:
                expected[number] = text.splitlines()
            else:
                number += 1
                script += f"echo '@@ {number}'\n{text}"
        self.assertGreater(number, 4)
        wait_for(lambda: all(subprocess.run(self.on(0, "bash", "-c", f"exec 3<>/dev/tcp/{host}/22"),
                                            stderr=subprocess.DEVNULL).returncode == 0 for host in HOSTS), "sshd")
        done = subprocess.run(self.on(0, "bash", "-c", script), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=250, stdin=subprocess.DEVNULL,
                              env={**os.environ, "HOME": str(self.home), "PATH": self.path(), **self.answers()})
        self.assertEqual(done.returncode, 0, done.stdout)
        said = re.split(r"^@@ \d+$", done.stdout, flags=re.MULTILINE)
        self.assertTrue(expected)
        for block, lines in expected.items():
            for line in lines:
                self.assertIn(shape(line), map(shape, said[block].splitlines()), said[block])
        accuracies = [float(found) for found in re.findall(r"step 469: .*, (\S+) % right", done.stdout)]
        self.assertEqual([accuracy > 80 for accuracy in accuracies], [True], done.stdout)


if __name__ == "__main__":
    if SSHD is None or shutil.which("ssh-copy-id") is None:
        emulated.skip("there is no openssh-server here")
    emulated.main(NAME)
