"""Sums of sparse tensors: those of Gloo, in the same processes."""
import threading
import time

import pytest
import torch
import torch.distributed as dist
from ranks import Failed, Ranks, event, run

import kolo_torch

CASES = [  # sizes, sparse dimensions
    ((10,), 1), ((10, 3), 1), ((4, 5), 2), ((3, 4, 5), 3), ((3, 4, 5), 2), ((6, 2, 2), 1), ((2, 2, 2, 2), 4)]


def sparse(rank, sizes, dims, dtype, seed, share=0.4):
    """Of small integers, so that sums are exact; entries twice, out of order."""
    generator = torch.Generator().manual_seed(100 * seed + rank)
    count = int(share * torch.tensor(sizes[:dims]).prod()) + 2 * rank
    indices = torch.stack([torch.randint(0, n, (count,), generator=generator) for n in sizes[:dims]])
    values = torch.randint(-3, 4, (count, *sizes[dims:]), generator=generator).to(dtype)
    return torch.sparse_coo_tensor(indices, values, sizes)


def sums(rank, size):
    gloo = dist.new_group(backend="gloo")
    for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8):
        for seed, (sizes, dims) in enumerate(CASES):
            mine, theirs = (sparse(rank, sizes, dims, dtype, seed) for _ in range(2))
            dist.all_reduce(mine)
            dist.all_reduce(theirs, group=gloo)
            assert mine.is_coalesced() and mine.dtype == dtype and mine.shape == theirs.shape
            assert torch.equal(mine._indices(), theirs.coalesce()._indices()), (sizes, dims)
            assert torch.equal(mine._values(), theirs.coalesce()._values()), (sizes, dims, dtype)
    # What Gloo lacks: types, more than 4 dimensions, none of any rank.
    for dtype in (torch.bfloat16, torch.int16):
        mine = sparse(rank, (5, 2, 1, 1, 1, 1), 2, dtype, 1)
        expected = sum(sparse(r, (5, 2, 1, 1, 1, 1), 2, dtype, 1).to_dense() for r in range(size))
        dist.all_reduce(mine)
        assert torch.equal(mine.to_dense(), expected), (dtype, mine)
    empty = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 4), (9, 4))
    dist.all_reduce(empty)
    assert empty._nnz() == 0 and empty.shape == (9, 4)
    # Large, sparse and dense, and of one rank alone.
    for count in (20, 4000):
        large = torch.sparse_coo_tensor(torch.arange(count)[None] * (rank + 1), torch.ones(count, 3), (40_000, 3))
        if rank == 1:
            large = large * 0 if count == 20 else large
        dist.all_reduce(large)
        assert large.to_dense().sum() == 3 * count * (size - (count == 20))


@pytest.mark.parametrize("size", [2, 4])
def test_sums_are_those_of_gloo(size):
    run(size, sums)


def asynchronous(rank, size):
    """Several at once among other calls; the results of dropped ones are there after a barrier; futures; a message that comes first."""
    work = dist.all_reduce(torch.sparse_coo_tensor([[rank]], [1.0], (size,)), async_op=True)
    if rank == 0:
        dist.send(torch.ones(1), 1)
        work.wait()
    else:
        dist.recv(torch.zeros(1), 0)
        work.wait()
    tensors = [torch.sparse_coo_tensor([[rank, size]], [1.0, number], (size + 1,)) for number in range(10)]
    dense = []
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True)
        dense.append(torch.ones(100))
        dist.all_reduce(dense[-1], async_op=True)
    dist.barrier()
    for number, tensor in enumerate(tensors):
        assert tensor.to_dense().tolist() == [1.0] * size + [float(number * size)] and dense[number][0] == size
    done = threading.Event()
    work = dist.all_reduce(tensors[1], async_op=True)
    work.get_future().then(lambda future: done.set() if future.value()[0]._nnz() == size + 1 else None)
    assert done.wait(20) and work.is_completed() and work.is_success()


def test_sums_that_run_meanwhile():
    run(2, asynchronous)


def differing(rank, size, what):
    tensor = sparse(0, (4, 5), 2, torch.float32, 0)
    if rank == 1:
        tensor = {"sizes": lambda: sparse(0, (5, 4), 2, torch.float32, 0), "dimensions": lambda: sparse(0, (4, 5), 1, torch.float32, 0),
                  "rank": lambda: sparse(0, (4, 5, 1), 2, torch.float32, 0), "type": lambda: sparse(0, (4, 5), 2, torch.int64, 0),
                  "dense": lambda: torch.ones(4, 5)}[what]()
    with pytest.raises(RuntimeError) as error:
        dist.all_reduce(tensor)
    expected = {"sizes": ["[4, 5]", "[5, 4]"], "dimensions": ["2 sparse", "1 sparse"], "rank": ["6 int64", "8 int64"],
                "type": ["float32", "int64"], "dense": ["all_reduce", "all_gather"]}[what]
    assert all(part in str(error.value) for part in expected), error.value


@pytest.mark.parametrize("what", ["sizes", "dimensions", "rank", "type", "dense"])
def test_tensors_that_differ_raise_on_all_ranks(what):
    run(2, differing, what)


def refused(rank, size):
    for tensor, op in ((torch.ones(3, 3).to_sparse(), dist.ReduceOp.MAX), (torch.ones(3, 3).to_sparse_csr(), dist.ReduceOp.SUM)):
        with pytest.raises((ValueError, RuntimeError, NotImplementedError)):
            dist.all_reduce(tensor, op)
    with pytest.raises((ValueError, RuntimeError)):
        dist.broadcast(torch.ones(3).to_sparse(), 0)
    dist.barrier()


def test_what_no_sum_is_for():
    run(2, refused)


def ends(rank, size, there, over, how):
    """A rank that does not come: the sums of the others end by destroy and by the timeout."""
    dist.all_reduce(torch.ones(4).to_sparse())
    if rank == 1:
        there.set()
        assert over.wait(20)
        return
    assert there.wait(20)
    begin = time.monotonic()
    work = dist.all_reduce(torch.ones(4).to_sparse(), async_op=True)
    if how == "timeout":
        with pytest.raises(RuntimeError, match="rank 1"):
            work.wait()
    else:
        dist.destroy_process_group() if how == "destroy" else kolo_torch.abort()
        with pytest.raises(RuntimeError):
            work.wait()
    assert time.monotonic() - begin < 5
    over.set()


@pytest.mark.parametrize("how", ["timeout", "destroy", "abort"])
def test_sums_that_wait_end(how):
    results = Ranks(2, ends, event(), event(), how, timeout=1 if how == "timeout" else 20).join()
    assert not any(isinstance(result, Failed) for result in results), results
