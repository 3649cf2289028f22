"""Tensors of CUDA. There is no GPU: fake_gpu gives PyTorch devices, whose memory the host may not touch and whose streams are threads."""
import pytest
import torch
import torch.distributed as dist
from ranks import Failed, Ranks, run
from torch.distributed import ReduceOp
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import kolo_torch

fake_gpu = pytest.importorskip("fake_gpu")  # made for a PyTorch without CUDA alone
torch.cuda._lazy_init = lambda: None  # of a PyTorch without CUDA, it raises
LAYOUTS = ["plain", "turned", "apart"]


def data(rank, *shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel(), dtype=dtype).reshape(shape) % 50 + 10 * rank


def there(tensor, layout="plain", device="cuda:1"):
    """The same elements on a device."""
    if layout == "turned":
        return tensor.t().contiguous().to(device).t()
    if layout == "apart":
        return torch.stack([tensor, tensor], -1).to(device)[..., 1]
    return tensor.to(device)


def same(got, expected, what):
    assert got.device.type == "cuda", what
    assert torch.equal(got.cpu(), expected), (what, got.cpu(), expected)


def collectives(rank, size, layout):
    fake_gpu.delay(300, rank)
    shape = (2 * size, 30)
    of = [data(r, *shape) for r in range(size)]
    total = sum(of)
    for op, expected in ((ReduceOp.SUM, total), (ReduceOp.MAX, of[-1]), (ReduceOp.AVG, total / size)):
        tensor = there(of[rank], layout)
        dist.all_reduce(tensor, op)
        same(tensor, expected, op)
    whole = there(of[rank].long(), layout)
    dist.all_reduce(whole, ReduceOp.AVG)
    same(whole, total.long() // size, "average of integers")
    tensor = there(of[rank], layout)
    dist.broadcast(tensor, 1)
    same(tensor, of[1], "broadcast")
    tensor = there(of[rank], layout)
    dist.reduce(tensor, 1)
    same(tensor, total if rank == 1 else of[rank], "reduce")
    parts = [there(torch.zeros(shape), layout) for _ in range(size)]
    dist.all_gather(parts, there(of[rank], layout))
    for r in range(size):
        same(parts[r], of[r], "all_gather")
    parts = [there(torch.zeros(shape), layout) for _ in range(size)] if rank == 0 else None
    dist.gather(there(of[rank], layout), parts)
    for r in range(size if rank == 0 else 0):
        same(parts[r], of[r], "gather")
    own = there(torch.zeros(shape), layout)
    dist.scatter(own, [there(10 * one, layout) for one in of] if rank == 0 else None)
    same(own, 10 * of[rank], "scatter")
    own = there(torch.zeros(2, 30), layout)
    dist.reduce_scatter(own, [there(one, layout) for one in of[rank].chunk(size)])
    same(own, total.chunk(size)[rank], "reduce_scatter")
    outs = [there(torch.zeros(2, 30), layout) for _ in range(size)]
    dist.all_to_all(outs, [there(one, layout) for one in of[rank].chunk(size)])
    for r in range(size):
        same(outs[r], of[r].chunk(size)[rank], "all_to_all")
    out = there(torch.zeros(shape), layout)
    dist.all_to_all_single(out, there(of[rank], layout))
    same(out, torch.cat([one.chunk(size)[rank] for one in of]), "all_to_all_single")
    out = there(torch.zeros(size * shape[0], 30), layout)
    dist._all_gather_base(out, there(of[rank], layout))
    same(out, torch.cat(of), "all_gather_into_tensor")
    own = there(torch.zeros(2, 30), layout)
    dist._reduce_scatter_base(own, there(of[rank], layout))
    same(own, total.chunk(size)[rank], "reduce_scatter_tensor")
    got = there(torch.zeros(shape), layout)
    work = dist.irecv(got, (rank + 1) % size)
    dist.send(there(of[rank], layout), (rank - 1) % size)
    work.wait()
    same(got, of[(rank + 1) % size], "send")
    dist.barrier()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [2, 3])
def test_every_collective(size, layout):
    run(size, collectives, layout)


def by_the_host(rank, size, layout):
    """What the core takes in the host's memory only."""
    of = [data(r, 4, 30) for r in range(size)]
    tensors = [there(of[rank], layout), there(2 * of[rank], layout)]
    dist.all_reduce_coalesced(tensors)
    same(tensors[0], sum(of), "coalesced")
    same(tensors[1], 2 * sum(of), "coalesced")
    one = torch.sparse_coo_tensor([[rank, size]], [[1.0, 2.0], [3.0, 4.0]], (size + 1, 2))
    tensor = torch.sparse_coo_tensor(one._indices().to("cuda:0"), one._values().to("cuda:0"), one.shape)._coalesced_(True)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert work.result()[0].device == torch.device("cuda:0")
    expected = torch.tensor([[1.0, 2.0]] * size + [[3.0 * size, 4.0 * size]])
    assert torch.equal(tensor._values().cpu(), expected) and tensor._indices().cpu().tolist() == [list(range(size + 1))]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_calls_that_go_through_host_tensors(layout):
    run(2, by_the_host, layout)


def in_order(rank, size, own_stream):
    """Kernels before the call are late, and those after it see its result."""
    fake_gpu.delay(2000, rank)
    if own_stream:
        fake_gpu.use_own_stream()
    for number in range(5):
        tensor = torch.zeros(1000, device="cuda:0")
        fake_gpu.fill_late(tensor, number + rank, 20000)
        dist.all_reduce(tensor)
        same(tensor, torch.full((1000,), 2.0 * number + 1), "all_reduce")
        fake_gpu.fill_late(tensor, number + rank, 20000)
        work = dist.all_reduce(tensor, async_op=True)
        value = work.get_future().then(lambda future: future.value()[0] + 1).wait()
        same(value, torch.full((1000,), 2.0 * number + 2), "future")
        fake_gpu.fill_late(tensor, number + rank, 20000)
        apart = torch.zeros(500, 2, device="cuda:0")[:, 1]
        work = dist.all_reduce(tensor, async_op=True)
        also = dist._all_gather_base(torch.zeros(1000, 2, device="cuda:0")[:, 1], tensor[:500], async_op=True)
        work.wait()
        same(tensor, torch.full((1000,), 2.0 * number + 1), "asynchronous")
        also.wait()
        dist.broadcast(apart, 0)


@pytest.mark.parametrize("own_stream", [False, True])
def test_streams(own_stream):
    run(2, in_order, own_stream)


def refused(rank, size):
    cpu, first, second = torch.ones(3), torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
    backend = kolo_torch.groups.backends(dist.group.WORLD)[0]
    for out, tensor in (([first, cpu], first), ([cpu, cpu], first), ([first, second], first)):
        with pytest.raises(ValueError, match="all_gather: a tensor is on .*, and another one on "):
            backend.allgather([out], [tensor])
    dist.all_reduce(first)
    same(first, torch.full((3,), float(size)), "after refusals")


def test_tensors_of_several_devices_are_refused():
    run(2, refused)


def on_one_rank(rank, size):
    tensor = torch.ones(3, device="cuda:0" if rank == 0 else "cpu")
    dist.all_reduce(tensor)


def test_a_rank_whose_tensor_is_on_the_cpu():
    for result in Ranks(2, on_one_rank).join():
        assert isinstance(result, Failed) and "on a device" in result and "rank 1" in result, result


def data_parallel(rank, size):
    """All of DistributedDataParallel but the backward pass, which a PyTorch without CUDA cannot do for its tensors."""
    fake_gpu.delay(500, rank)
    fake_gpu.use_own_stream()
    torch.manual_seed(rank)
    net = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.BatchNorm1d(50), torch.nn.ReLU(), torch.nn.Linear(50, 1))
    net[1].running_mean += rank
    torch.manual_seed(0)
    first = torch.nn.Linear(20, 50)
    model = DistributedDataParallel(net.to("cuda:0"), bucket_cap_mb=0.001)
    same(net[0].weight.detach(), first.weight.detach(), "parameters of rank 0")
    same(net[1].running_mean, torch.zeros(50), "buffers of rank 0")
    x = torch.randn(16, 20)
    assert torch.allclose(model(x.to("cuda:0")).detach().cpu(), net.cpu()(x).detach())
    bucket = torch.zeros(1000, device="cuda:0")
    for number in range(3):
        fake_gpu.fill_late(bucket, number + rank, 20000)
        average = default_hooks._allreduce_fut(dist.group.WORLD, bucket).wait()
        same(average, torch.full((1000,), number + 0.5), "a bucket's average")


def test_distributed_data_parallel():
    run(2, data_parallel)
