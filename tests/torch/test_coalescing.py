"""Several calls with one Work: coalesced collectives, torch.distributed's coalescing manager, batches of messages; lists of tensors."""
import pytest
import torch
import torch.distributed as dist
from ranks import run
from test_collectives import SHAPES, blank, check, data, laid_out, reduced
from torch.distributed import ReduceOp

import kolo_torch

MIXED = [torch.float32, torch.int64, torch.bfloat16, torch.uint8]


def tensors(rank, dtypes=MIXED):
    """Of all types and shapes, long ones too, not all in logical order in memory."""
    return [laid_out(data(rank, shape, dtype, seed), seed + rank) for dtype in dtypes
            for seed, shape in enumerate([*SHAPES, (30_000,)])]


def backend():
    return kolo_torch.groups.backends(dist.group.WORLD)[0]


def reduced_together(rank, size):
    for op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.AVG):
        mine = tensors(rank)
        options = dist.AllreduceCoalescedOptions()
        options.reduceOp = op
        work = dist.group.WORLD.allreduce_coalesced(mine, options)
        work.wait()
        for number, parts in enumerate(zip(mine, *[tensors(r) for r in range(size)])):
            check(parts[0], reduced(op, parts[1:]), f"all_reduce_coalesced {op} {number}")
        assert len(work.result()) == len(mine)


@pytest.mark.parametrize("size", [2, 4])
def test_all_reduces_of_mixed_types(size):
    run(size, reduced_together)


def gathered_together(rank, size):
    out = [[torch.zeros_like(t) for t in tensors(r)] for r in range(size)]
    backend().allgather_coalesced(out, tensors(rank)).wait()
    for r in range(size):
        for number, (mine, theirs) in enumerate(zip(out[r], tensors(r))):
            check(mine, theirs, f"all_gather_coalesced {number}")
    out = [[torch.zeros(3), torch.zeros(2, 2)] for r in range(size)]
    dist.all_gather_coalesced(out, [torch.ones(3) * rank, torch.ones(2, 2) + rank])  # Python lets only one type through
    assert [(a[0].item(), b[0, 0].item()) for a, b in out] == [(r, r + 1) for r in range(size)]
    with pytest.raises((ValueError, RuntimeError)):
        backend().allgather_coalesced([[torch.zeros(2)], [torch.zeros(3)]], [torch.zeros(2)])
    with pytest.raises((ValueError, RuntimeError)):
        backend().allgather_coalesced([[torch.zeros(2)]], [torch.zeros(2)])
    with pytest.raises((ValueError, RuntimeError)):
        dist.group.WORLD.allreduce_coalesced([])


def test_all_gathers_of_mixed_types():
    run(2, gathered_together)


def into_tensors(rank, size):
    mine = [t.flatten() for t in tensors(rank)]
    out = [torch.zeros(size * t.numel(), dtype=t.dtype) for t in mine]
    with dist._coalescing_manager(async_ops=True) as manager:
        for whole, part in zip(out, mine):
            dist.all_gather_into_tensor(whole, part)
    manager.wait()
    all_of_it = list(zip(*[tensors(r) for r in range(size)]))
    for number, (whole, parts) in enumerate(zip(out, all_of_it)):
        check(whole, torch.cat([p.flatten() for p in parts]), f"all_gather_into_tensor {number}")
    for op in (ReduceOp.SUM, ReduceOp.AVG):
        out = [torch.zeros(t.numel(), dtype=t.dtype) for t in mine]
        with dist._coalescing_manager(device=torch.device("cpu")):
            for part, t in zip(out, mine):
                dist.reduce_scatter_tensor(part, torch.cat([t + r for r in range(size)]), op)
        for number, (part, parts) in enumerate(zip(out, all_of_it)):
            check(part, reduced(op, [p.flatten() + rank for p in parts]), f"reduce_scatter_tensor {number}")


def managed(rank, size):
    into_tensors(rank, size)
    assert getattr(backend(), "supports_coalescing", True)
    mine = [torch.full((n,), float(rank)) for n in (1, 1000, 50_000)]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for tensor in mine:
            dist.all_reduce(tensor)
    manager.wait()
    assert all(t[-1] == sum(range(size)) for t in mine)
    # What PyTorch itself does not gather into one call.
    peer, came, odd = (rank + 1) % size, torch.zeros(3), laid_out(torch.zeros(4, 2), 2)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.isend(torch.full((3,), float(rank)), peer)
        dist.irecv(came, (rank - 1) % size)
        odd += rank
        dist.broadcast(odd, 1, async_op=True)
    manager.wait()
    assert came[0] == (rank - 1) % size and torch.equal(odd, torch.ones(4, 2))
    with pytest.raises(RuntimeError, match="not begun"):
        dist.group.WORLD._end_coalescing(torch.device("cpu"))


def test_the_coalescing_manager():
    if not hasattr(dist, "_coalescing_manager") or torch.__version__.startswith(("1.", "2.0")):
        pytest.skip("this PyTorch has none")
    run(2, managed)


def batched(rank, size):
    """Each rank sends to all, itself too, of two types; the sends stand before the receives."""
    out = [torch.zeros(50_000) for _ in range(size)]
    small = [torch.zeros(2, dtype=torch.int64) for _ in range(size)]
    operations = [dist.P2POp(dist.isend, torch.full((50_000,), 10.0 * rank + r), r, tag=1) for r in range(size) if r != rank]
    operations += [dist.P2POp(dist.isend, torch.tensor([rank, r]), r) for r in range(size) if r != rank]
    operations += [dist.P2POp(dist.irecv, small[r], r) for r in range(size) if r != rank]
    operations += [dist.P2POp(dist.irecv, out[r], r, tag=1) for r in range(size) if r != rank]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for r in set(range(size)) - {rank}:
        assert out[r][-1] == 10 * r + rank and small[r].tolist() == [r, rank]


@pytest.mark.parametrize("size", [2, 4])
def test_batches_of_messages(size):
    run(size, batched)


def same_memory(rank, size):
    """Parts of one tensor as a list, in place; ranks that list their parts beside ranks that do not."""
    whole = torch.zeros(size, 4)
    whole[rank] = rank + 1
    dist.all_gather(list(whole), whole[rank])
    assert whole[:, 0].tolist() == [r + 1.0 for r in range(size)]
    if rank == 0:
        dist.all_gather([torch.zeros(4) for _ in range(size)], whole[0])
    else:
        out = torch.zeros(4 * size)
        dist.all_gather_into_tensor(out, whole[rank])
        assert torch.equal(out, whole.flatten())
    own = whole[rank].clone()
    parts = [torch.ones(4) * (rank + 1) for _ in range(size)]
    dist.reduce_scatter(parts[rank], parts)
    assert parts[rank][0] == sum(r + 1 for r in range(size)) and torch.equal(whole[rank], own)
    dist.scatter(whole[rank], list(whole) if rank == 1 else None, 1)
    assert whole[rank][0] == rank + 1
    with pytest.raises(ValueError, match="overlap"):
        dist.all_gather([own] * size, torch.ones(4))
    dist.barrier()


def test_lists_of_parts_of_one_tensor():
    run(2, same_memory)
