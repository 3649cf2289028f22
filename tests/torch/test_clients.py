"""What trains over a backend beside DDP as such, and torchrun: the same numbers as over Gloo, one restart for one kill."""
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist
from ranks import run
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))


def losses(model, optimizer, seed, steps=4):
    found = []
    for step in range(steps):
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * seed + step))
        optimizer.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def ddp(rank, hook=None, state=None, net=net, **options):
    model = DistributedDataParallel(net(), **options)
    if hook:
        model.register_comm_hook(state, hook)
    return losses(model, torch.optim.SGD(model.parameters(), lr=0.01), rank)


# One bucket: with more, PowerSGD begins calls in callbacks, in an order that differs between ranks (Gloo aborts then).
def hooks(rank, size):
    power = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.5)
    alone = [dist.new_group([one]) for one in range(size)][rank]
    local = post_localSGD_hook.PostLocalSGDState(None, alone, start_localSGD_iter=2)
    found = ddp(rank, default_hooks.allreduce_hook) + ddp(rank, powerSGD_hook.powerSGD_hook, power)
    return found + ddp(rank, post_localSGD_hook.post_localSGD_hook, local)


class Checkpointed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, x):
        return checkpoint(self.net, x, use_reentrant=False)


def checkpointed(rank, size):
    return ddp(rank, net=Checkpointed, static_graph=True)


def values_of_futures(rank, size):
    for _ in range(50):
        work = dist.all_reduce(torch.ones(1000), async_op=True)
        future = work.get_future()
        work.wait()
        assert future.done() and future.value()[0][0] == size  # wait() leaves no future behind
        assert work.get_future().value()[0][0] == size
    return []


def full_parameters(model):
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    return [float(value.sum()) for value in state.values()]


def fully_sharded(rank, size):
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    first = FullyShardedDataParallel(net(), auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}), device_id=torch.device("cpu"))
    found = losses(first, torch.optim.Adam(first.parameters(), lr=0.01), rank)
    found += [float(value.sum()) for value in first.state_dict().values()]
    second = net()
    for layer in second[::2]:
        fully_shard(layer, mesh=dist.init_device_mesh("cpu", (size,)))
    fully_shard(second, mesh=dist.init_device_mesh("cpu", (size,)))
    return found + losses(second, torch.optim.Adam(second.parameters(), lr=0.01), rank) + full_parameters(second)


def tensor_parallel(rank, size):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = dist.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "tensor"))
    model = parallelize_module(net(), mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    found = losses(model, torch.optim.Adam(model.parameters(), lr=0.01), rank // (size // 2))
    whole = torch.arange(35.0).reshape(7, 5)
    tensor = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
    for placements in ([Shard(1), Shard(0)], [Replicate(), Shard(0)], [Shard(0), Shard(0)], [Replicate(), Replicate()]):
        tensor = tensor.redistribute(mesh, placements)
    assert torch.equal(tensor.to_local(), whole)
    return found


def pipelined(rank, size):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    torch.manual_seed(0)
    parts = [torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()) for _ in range(size)]
    stage = PipelineStage(parts[rank], rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
    found = []
    for _ in range(2):
        inputs = (torch.randn(8, 16),) if rank == 0 else ()
        schedule.step(*inputs, **({"target": torch.ones(8, 16), "losses": found} if rank == size - 1 else {}))
    return [float(one) for one in found] + [float(p.grad.sum()) for p in parts[rank].parameters()]


def compiled(rank, size):
    from torch.distributed import _functional_collectives as functional
    ranks = list(range(size))

    def program(x):
        y = functional.all_gather_tensor(functional.all_reduce(2 * x, "sum", ranks) + 1, 0, ranks)
        return functional.reduce_scatter_tensor(functional.all_to_all_single(y, None, None, ranks), "sum", 0, ranks) * 3

    x = torch.arange(8.0) + rank
    found = torch.compile(program, fullgraph=True, backend="aot_eager")(x)
    assert torch.equal(found, program(x))
    return found.tolist()


def saved(rank, size, path):
    from torch.distributed import checkpoint as distributed_checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard

    def made():
        model = fully_shard(net(), mesh=dist.init_device_mesh("cpu", (size,)))
        return model, torch.optim.Adam(model.parameters(), lr=0.01)

    def state_of(pair):
        return dict(zip(("model", "optimizer"), get_state_dict(*pair)))

    pair, other = made(), made()
    losses(*pair, rank)
    distributed_checkpoint.async_save(state_of(pair), checkpoint_id=path).result()
    state = state_of(other)
    distributed_checkpoint.load(state, checkpoint_id=path)
    set_state_dict(*other, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    found = losses(*pair, rank, steps=2)
    assert losses(*other, rank, steps=2) == found
    return found


CASES = [(hooks, 2), (checkpointed, 2), (values_of_futures, 4)]
if VERSION >= (2, 11):  # before, PyTorch has not all of them on CPUs
    CASES += [(fully_sharded, 2), (tensor_parallel, 4), (pipelined, 4), (compiled, 2)]


@pytest.mark.parametrize("function, size", CASES)
def test_results_are_those_of_gloo(function, size):
    for mine, theirs in zip(run(size, function), run(size, function, backend="gloo")):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-5)


if VERSION >= (2, 11):
    def test_a_checkpoint_of_shards(tmp_path):
        run(2, saved, tmp_path, backend="cpu:kolo")


TRAINS = """
import os, sys, time, signal, torch, torch.distributed as dist, kolo_torch
dist.init_process_group("kolo")
rank, restarts = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
open(os.path.join(sys.argv[1], f"came {restarts}.{rank}"), "w").close()
for step in range(20):
    if restarts == 0 and step == 10 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1000))
if sys.argv[2] == "waits":
    open(os.path.join(sys.argv[1], f"waits {restarts}.{rank}"), "w").close()
    dist.recv(torch.ones(1), 1 - rank)
"""
# Without -r and -t, torchrun of PyTorch 1.13 fails in Python 3.11.
TEED = ["-r", "1", "-t", "1"] if VERSION < (2, 0) else []


def torchrun(path, what):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (path / "trains.py").write_text(TRAINS)
    command = [sys.executable, "-B", "-m", "torch.distributed.run", "--nproc_per_node", "2", "--max_restarts", "3", "--monitor_interval", "0.1",
               "--master_addr", "127.0.0.1", "--master_port", str(port), *TEED, str(path / "trains.py"), str(path), what]
    with open(path / "log", "w") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ, OMP_NUM_THREADS="1"), start_new_session=True)


def finished(process):
    try:
        return process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_torchrun_restarts_once_for_one_kill(tmp_path):
    assert finished(torchrun(tmp_path, "ends")) == 0, (tmp_path / "log").read_text()
    assert sorted(name.name for name in tmp_path.glob("came*")) == [f"came {restart}.{rank}" for restart in (0, 1) for rank in (0, 1)]
    assert "rank 1" in (tmp_path / "log").read_text()


def test_control_c_ends_torchrun(tmp_path):
    process = torchrun(tmp_path, "waits")
    end = time.monotonic() + 60
    while len(list(tmp_path.glob("waits*"))) < 2 and time.monotonic() < end and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert finished(process) != 0
    assert len(list(tmp_path.glob("waits*"))) == 2, (tmp_path / "log").read_text()
