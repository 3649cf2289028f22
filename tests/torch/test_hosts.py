"""Jobs on two hosts, which are network namespaces, and the interface that kolo chooses."""
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

import kolo_torch

CLUSTER = Path(__file__).resolve().parents[2] / "scripts" / "cluster"
NAME = f"torch.{os.getpid()}"
NOT_PERMITTED = 77
SCRIPT = """
import os, torch, torch.distributed as dist, kolo_torch
dist.init_process_group("kolo")
rank, size = dist.get_rank(), dist.get_world_size()
for length in (3, 1_000_000):
    tensor = torch.full((length,), float(rank))
    dist.all_reduce(tensor)
    assert tensor[0] == tensor[-1] == size * (size - 1) / 2
pair = dist.new_group([1, 2])  # one rank of each host
if rank in (1, 2):
    dist.all_reduce(tensor, group=pair)
dist.barrier()
print(f"rank {rank} of {size} is on", os.uname().nodename, flush=True)
dist.destroy_process_group()
"""


def without_settings(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KOLO_", "GLOO_", "MASTER_"))}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


@pytest.fixture
def hosts():
    """The beginnings of commands in two hosts, whose own names lead to loopback, as Debian's installer leaves them."""
    made = subprocess.run([CLUSTER, "up", "--hosts", "2", "--name", NAME], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode == NOT_PERMITTED:
        pytest.skip(made.stdout.strip())
    assert made.returncode == 0, made.stdout
    try:
        commands = []
        for number, name in enumerate("ab"):
            folder = Path(f"/etc/netns/kolo-{NAME}-h{number}")
            folder.mkdir(parents=True)
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
            commands.append(["ip", "netns", "exec", f"kolo-{NAME}-h{number}", "unshare", "--uts", "sh", "-c",
                             f'hostname {name}; exec "$@"', "sh"])
        yield commands
    finally:
        subprocess.run([CLUSTER, "down", "--name", NAME], check=True, stdout=subprocess.DEVNULL)
        for number in range(2):
            folder = Path(f"/etc/netns/kolo-{NAME}-h{number}")
            if folder.exists():
                (folder / "hosts").unlink(missing_ok=True)
                folder.rmdir()


def test_a_job_on_two_hosts_needs_no_variable(tmp_path, hosts):
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    agents = []
    for number, command in enumerate(hosts):
        # Without redirection (-r, -t) agents of 1.13 fail where Python is newer.
        run = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "2", "--node_rank", str(number),
               "--master_addr", "10.77.0.1", "--master_port", "29500", "-r", "1", "-t", "1", "--log_dir", str(tmp_path / f"{number}"), script]
        agents.append(subprocess.Popen([*command, *run], env=without_settings(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    texts = []
    for agent in agents:
        try:
            texts.append(agent.communicate(timeout=90)[0])
        except subprocess.TimeoutExpired:
            agent.terminate()
            texts.append(agent.communicate(timeout=20)[0] + "\nit hangs")
    said = "".join(texts)
    assert [agent.returncode for agent in agents] == [0, 0], said
    assert sorted(re.findall(r"rank (\d) of 4 is on (\w)", said)) == [("0", "a"), ("1", "a"), ("2", "b"), ("3", "b")], said
    assert said.count("set KOLO_KEY or KOLO_KEY_FILE on all ranks") == 1, said
    for text, name, address in zip(texts, "ab", ("10.77.0.1", "10.77.0.2")):
        line = (rf"kolo: this host's name, {name}, leads to 127.0.1.1, and kolo listens at {address}:\d+: \w+, "
                r"which leads to the store at 10.77.0.1 \(KOLO_INTERFACE names another\)")
        if os.path.exists("/etc/hosts"):  # else the hosts' own files cannot be put over it, and their names lead nowhere
            assert len(re.findall(line, text)) == 2, said  # one a process


def alone(tmp_path, **settings):
    """What a group of one rank says in a process that has these variables, and the process's exit code."""
    path = tmp_path / "said"

    def body():
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 2)
        sys.stderr = open(2, "w", closefd=False)
        os.environ.update(KOLO_LOG="info", **settings)
        kolo_torch.create_backend(dist.HashStore(), 0, 1)

    process = multiprocessing.get_context("fork").Process(target=body)
    process.start()
    process.join()
    return path.read_text(), process.exitcode


def test_the_variables_that_name_an_interface(tmp_path):
    assert '"lo", as told' in alone(tmp_path, GLOO_SOCKET_IFNAME="lo,eth0")[0]
    assert '"127.0.0.1", as told' in alone(tmp_path, GLOO_SOCKET_IFNAME="nowhere0", KOLO_INTERFACE="127.0.0.1")[0]
    said, code = alone(tmp_path, GLOO_SOCKET_IFNAME="nowhere0")
    assert code == 1 and '"nowhere0" is neither an interface that is up' in said, said


def test_tls_needs_a_key_of_the_environment(tmp_path):
    said, code = alone(tmp_path, KOLO_TLS="1")
    assert code == 1 and "KOLO_TLS=1 needs the job's key in KOLO_KEY or KOLO_KEY_FILE" in said, said
    assert alone(tmp_path, KOLO_TLS="1", KOLO_KEY="a key of this test")[1] == 0
