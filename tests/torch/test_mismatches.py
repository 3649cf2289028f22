"""Calls that differ between ranks: each rank gets an error with both calls in words, long before any timeout."""
import datetime
import re
import time

import pytest
import torch
import torch.distributed as dist
from ranks import event, run, serve_store

import kolo_torch

N = 6  # elements


def ones(count=N, dtype=torch.float32):
    return torch.ones(count, dtype=dtype)


def lists(count=N, dtype=torch.float32):
    return [ones(count, dtype) for _ in range(dist.get_world_size())]


def whole(count=N, dtype=torch.float32):
    return ones(count * dist.get_world_size(), dtype)


def at(rank, make):
    return make() if dist.get_rank() == rank else None


# Each collective with a count, a type and a root or an operation.
CALLS = {
    "all_reduce": lambda n=N, d=torch.float32, op=dist.ReduceOp.SUM, root=0: dist.all_reduce(ones(n, d), op),
    "broadcast": lambda n=N, d=torch.float32, op=None, root=0: dist.broadcast(ones(n, d), root),
    "reduce": lambda n=N, d=torch.float32, op=dist.ReduceOp.SUM, root=0: dist.reduce(ones(n, d), root, op),
    "all_gather": lambda n=N, d=torch.float32, op=None, root=0: dist.all_gather(lists(n, d), ones(n, d)),
    "all_gather_into_tensor": lambda n=N, d=torch.float32, op=None, root=0: dist.all_gather_into_tensor(whole(n, d), ones(n, d)),
    "gather": lambda n=N, d=torch.float32, op=None, root=0: dist.gather(ones(n, d), at(root, lambda: lists(n, d)), root),
    "scatter": lambda n=N, d=torch.float32, op=None, root=0: dist.scatter(ones(n, d), at(root, lambda: lists(n, d)), root),
    "reduce_scatter": lambda n=N, d=torch.float32, op=dist.ReduceOp.SUM, root=0: dist.reduce_scatter(ones(n, d), lists(n, d), op),
    "reduce_scatter_tensor": lambda n=N, d=torch.float32, op=dist.ReduceOp.SUM, root=0: dist.reduce_scatter_tensor(ones(n, d), whole(n, d), op),
    "all_to_all": lambda n=N, d=torch.float32, op=None, root=0: dist.all_to_all(lists(n, d), lists(n, d)),
    "all_to_all_single": lambda n=N, d=torch.float32, op=None, root=0: dist.all_to_all_single(whole(n, d), whole(n, d)),
}
# Calls with parts of unequal lengths: `by` more at one rank.
UNEVEN = {
    "splits": lambda by=0: dist.all_to_all_single(ones(N + by), ones(N), [N // 2 + by, N // 2], [N // 2, N // 2]),
    "lists": lambda by=0: dist.all_to_all([ones(2 + by), ones(2)], [ones(2), ones(2)]),
    "gathered": lambda by=0: dist.all_gather([ones(2), ones(3 + by)], ones(2 + dist.get_rank() * (1 + by))),
    "list": lambda by=0: dist.all_gather(lists(), ones()) if by else dist.all_gather_into_tensor(whole(2 * N), ones(2 * N)),
    "summed": lambda by=0: dist.reduce_scatter(ones(2 + by + dist.get_rank()), [ones(2 + by), ones(3 + by)]),
    "message": lambda by=0: dist.recv(ones(N + 1), 0) if by else dist.send(ones(N), 1),
    "message of a type": lambda by=0: dist.recv(ones(N, torch.int64), 0) if by else dist.send(ones(N), 1),
}
CALLS.update(UNEVEN)
REDUCES = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
# How kolo names the collectives that PyTorch has twice.
NAMES = {"all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter", "all_to_all_single": "all_to_all"}


def raises_both(call, first, second):
    """A rank whose part was over before, as the leaf of a broadcast, gets the error in its next call."""
    begin = time.monotonic()
    with pytest.raises(RuntimeError) as error:
        call()
        dist.barrier()
    assert time.monotonic() - begin < 8
    for words in (first, second):
        assert re.search(words, str(error.value)), f"no {words} in: {error.value}"


def mismatches(rank, size, stores, cases):
    """Each in a group of its own, since the error ends it."""
    store = dist.TCPStore("127.0.0.1", stores, is_master=False, timeout=datetime.timedelta(seconds=20))
    for number, (first, second, words) in enumerate(cases):
        dist.init_process_group("kolo", store=dist.PrefixStore(str(number), store), rank=rank, world_size=size,
                                timeout=datetime.timedelta(seconds=15))
        name, arguments = second if rank == size - 1 else first
        try:
            raises_both(lambda: CALLS[name](**arguments), *words)
        except BaseException as error:
            raise AssertionError(f"{first} beside {second}: {error}") from error
        dist.destroy_process_group()


def check(size, cases):
    store = serve_store()
    run(size, mismatches, store.port, cases, backend=None)


@pytest.mark.parametrize("size", [2, 3])
def test_sizes_that_differ(size):
    check(size, [((name, {}), (name, {"n": N + 1}), (NAMES.get(name, name), r"\d+ float32")) for name in CALLS if name not in UNEVEN])


@pytest.mark.parametrize("size", [2, 3])
def test_types_that_differ(size):
    check(size, [((name, {}), (name, {"d": torch.int32}), ("float32", "int32")) for name in CALLS if name not in UNEVEN])


def test_operations_that_differ():
    check(2, [((name, {}), (name, {"op": dist.ReduceOp.MAX}), ("sum of", "max of")) for name in REDUCES])


def test_roots_that_differ():
    check(2, [((name, {}), (name, {"root": 1}), (name, "root")) for name in ROOTED])


def test_calls_that_differ():
    names = [name for name in CALLS if name not in UNEVEN]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1:] if NAMES.get(a, a) != NAMES.get(b, b)]
    check(2, [((a, {}), (b, {}), (NAMES.get(a, a), NAMES.get(b, b))) for a, b in pairs])


def test_counts_that_differ():
    words = {"message": ("send|6 float32", "recv|7 float32"), "message of a type": ("float32", "int64")}
    check(2, [((name, {}), (name, {"by": 1}), words.get(name, ("all_|reduce_", r"float32|bytes"))) for name in UNEVEN])


def lists_beside_tensors(rank, size):
    """What is no mismatch: ranks that list the parts of the same data."""
    parts, out = [ones(2 + r) * rank for r in range(size)], torch.zeros(size * (2 + rank))
    if rank == 0:
        received = [torch.zeros(2) for _ in range(size)]
        dist.all_to_all(received, parts)
        assert [r[0].item() for r in received] == list(range(size))
    else:
        dist.all_to_all_single(out, torch.cat(parts), [2 + rank] * size, [2 + r for r in range(size)])
        assert out.tolist() == [float(r) for r in range(size) for _ in range(2 + rank)]
    if rank == 1:
        dist.reduce_scatter(out[:2], [ones(2)] * size)
    else:
        dist.reduce_scatter_tensor(out[:2], whole(2))
    assert out[0] == size


def test_lists_beside_tensors():
    run(3, lists_beside_tensors)


def missing(rank, size, over, waits_for_all):
    if rank in (1, 3):
        assert over.wait(30)
        return
    with pytest.raises(RuntimeError) as error:
        kolo_torch.monitored_barrier(timeout=datetime.timedelta(seconds=1), wait_all_ranks=waits_for_all)
    assert re.search("rank 1.*rank 3", str(error.value)), error.value
    if rank == 0:
        assert f"Rank{'s 1, 3' if waits_for_all else ' 1'} failed to pass monitoredBarrier" in str(error.value)
    dist.distributed_c10d._get_default_store().add("over", 1)
    while dist.distributed_c10d._get_default_store().add("over", 0) < 2:
        time.sleep(0.01)
    over.set()


@pytest.mark.parametrize("waits_for_all", [False, True])
def test_a_monitored_barrier_names_all_ranks_that_are_missing(waits_for_all):
    run(4, missing, event(), waits_for_all)
