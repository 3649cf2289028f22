"""What PyTorch's API reference promises of torch.distributed: each function here is one entry of it, on three ranks."""
import datetime
import warnings

import pytest
import torch
import torch.distributed as dist
from ranks import run
from torch.distributed import ReduceOp

SIZE = 3
ENTRIES = []


def entry(function):
    """Collected, so that all entries run in one group: a rank's processes start once."""
    ENTRIES.append(function)
    return function


def has(name):
    return hasattr(dist, name)


def is_work(work):
    return work is not None and work.wait() in (True, None) and work.is_completed()


@entry
def broadcast(rank, size):
    tensor = torch.arange(4) + 10 * rank
    assert dist.broadcast(tensor, src=1) is None and tensor.tolist() == [10, 11, 12, 13]
    assert is_work(dist.broadcast(tensor, 2, async_op=True)) and tensor.tolist() == [10, 11, 12, 13]


@entry
def all_reduce(rank, size):
    tensor = torch.arange(2, dtype=torch.int64) + 1 + 2 * rank
    assert dist.all_reduce(tensor, op=ReduceOp.SUM) is None and tensor.tolist() == [9, 12]
    tensor = torch.tensor([1 + 1j, 2 + 2j], dtype=torch.cfloat) + 2 * rank * (1 + 1j)
    assert is_work(dist.all_reduce(tensor, async_op=True)) and tensor.tolist() == [9 + 9j, 12 + 12j]


@entry
def reduce_ops(rank, size):
    mine = torch.tensor([rank + 1, 6])
    for op, first in ((ReduceOp.SUM, 6), (ReduceOp.PRODUCT, 6), (ReduceOp.MIN, 1), (ReduceOp.MAX, 3), (ReduceOp.BAND, 0),
                      (ReduceOp.BOR, 3), (ReduceOp.BXOR, 0), (ReduceOp.AVG, 2)):
        tensor = mine.clone()
        dist.all_reduce(tensor, op)
        assert tensor[0] == first, op
    for op in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT):  # "not supported for complex tensors"
        with pytest.raises((ValueError, RuntimeError)):
            dist.all_reduce(torch.ones(2, dtype=torch.cfloat), op)
    with pytest.raises((ValueError, RuntimeError)):
        dist.all_reduce(torch.ones(2), ReduceOp.BAND)


@entry
def reduce(rank, size):
    tensor = torch.full((2,), rank + 1.0)
    assert dist.reduce(tensor, dst=2) is None
    assert tensor[0] == (6 if rank == 2 else rank + 1)  # only dst receives the result
    assert is_work(dist.reduce(torch.ones(2), 0, async_op=True))


@entry
def all_gather(rank, size):
    out = [torch.zeros(2, dtype=torch.int64) for _ in range(size)]
    assert dist.all_gather(out, torch.arange(2) + 2 * rank) is None and torch.cat(out).tolist() == list(range(6))
    out = [torch.zeros(r + 1, dtype=torch.cfloat) for r in range(size)]  # uneven sizes
    assert is_work(dist.all_gather(out, torch.full((rank + 1,), rank + 1j, dtype=torch.cfloat), async_op=True))
    assert [o[-1].item() for o in out] == [r + 1j for r in range(size)]


@entry
def all_gather_into_tensor(rank, size):
    mine = torch.arange(2) + 1 + 2 * rank
    for shape in ((size * 2,), (size, 2)):  # concatenation, stack
        out = torch.zeros(shape, dtype=torch.int64)
        assert dist.all_gather_into_tensor(out, mine) is None and out.flatten().tolist() == list(range(1, 7))
    assert is_work(dist.all_gather_into_tensor(out, mine, async_op=True))


@entry
def reduce_scatter(rank, size):
    out = torch.zeros(2)
    assert dist.reduce_scatter(out, [torch.full((2,), float(10 * r + rank)) for r in range(size)]) is None
    assert out[0] == 30 * rank + 3
    for shape in ((size * 2,), (size, 2)):
        assert is_work(dist.reduce_scatter_tensor(out, torch.arange(6.0).reshape(shape), async_op=True))
        assert out.tolist() == [6.0 * rank, 6.0 * rank + 3]


@entry
def all_to_all_single(rank, size):
    out = torch.empty(size, dtype=torch.int64)
    assert dist.all_to_all_single(out, torch.arange(size) + size * rank) is None and out.tolist() == [rank, rank + 3, rank + 6]
    # Uneven: rank r has r + 1 rows for each.
    out = torch.empty(6, 2)
    work = dist.all_to_all_single(out, torch.full((3 * (rank + 1), 2), float(rank)), [1, 2, 3], [rank + 1] * 3, async_op=True)
    assert is_work(work) and out[:, 1].tolist() == [0, 1, 1, 2, 2, 2]


@entry
def all_to_all(rank, size):
    out = [torch.empty(s + 1, dtype=torch.int64) for s in range(size)]
    assert dist.all_to_all(out, [torch.full((rank + 1,), 10 * rank + r) for r in range(size)]) is None
    assert [o[-1].item() for o in out] == [10 * s + rank for s in range(size)]


@entry
def gather_and_scatter(rank, size):
    out = [torch.zeros(2) for _ in range(size)] if rank == 0 else None
    assert dist.gather(torch.full((2,), float(rank)), out) is None  # dst is 0
    assert rank != 0 or [o[1] for o in out] == [0, 1, 2]
    tensor = torch.zeros(2)
    assert is_work(dist.scatter(tensor, [torch.full((2,), float(r)) for r in range(size)] if rank == 1 else None, src=1, async_op=True))
    assert tensor[0] == rank
    with pytest.raises((ValueError, RuntimeError)):
        dist.gather(tensor, dst=rank)  # without a list at dst
    with pytest.raises((ValueError, RuntimeError)):
        dist.scatter(tensor, src=rank)


@entry
def objects(rank, size):
    mine = ["foo", 12, {1: 2}][rank]
    out = [None] * size
    dist.all_gather_object(out, mine)
    assert out == ["foo", 12, {1: 2}]
    out = [None] * size if rank == 2 else None
    dist.gather_object(mine, out, dst=2)
    assert rank != 2 or out == ["foo", 12, {1: 2}]
    box = ["foo", 12, {1: 2}] if rank == 1 else [None] * 3
    dist.broadcast_object_list(box, src=1, device=torch.device("cpu"))
    assert box == ["foo", 12, {1: 2}]
    got = [None]
    dist.scatter_object_list(got, box if rank == 0 else [None] * 3, src=0)
    assert got == [mine]
    if has("send_object_list"):
        if rank == 0:
            dist.send_object_list(["foo", 12], dst=1)
        elif rank == 1:
            box = [None, None]
            assert dist.recv_object_list(box, src=0) == 0 and box == ["foo", 12]


@entry
def messages(rank, size):
    tensor = torch.zeros(2)
    if rank == 0:
        dist.send(torch.ones(2), dst=1, tag=7)
        dist.send(torch.ones(2) * 2, 1, tag=8)
        assert sorted(dist.recv(tensor, tag=9) for _ in range(2)) == [1, 2]  # from any
    elif rank == 1:
        assert dist.recv(tensor, src=0, tag=8) == 0 and tensor[0] == 2  # tags match, not the order
        assert dist.recv(tensor, 0, tag=7) == 0 and tensor[0] == 1
    if rank > 0:
        dist.send(tensor, 0, tag=9)
    other = torch.zeros(2)
    send, receive = dist.isend(torch.ones(2) * rank, (rank + 1) % size), dist.irecv(other, (rank - 1) % size)
    assert is_work(send) and is_work(receive) and other[0] == (rank - 1) % size
    if rank == 0:
        work = dist.irecv(other, tag=3)
        assert is_work(work) and other[0] == 2
    elif rank == 2:
        dist.send(torch.ones(2) * 2, 0, tag=3)


@entry
def batches(rank, size):
    # The reference's example: a ring.
    out, mine = torch.zeros(2), torch.arange(2.0) + 2 * rank
    send = dist.P2POp(dist.isend, mine, (rank + 1) % size)
    receive = dist.P2POp(dist.irecv, out, (rank - 1 + size) % size)
    for work in dist.batch_isend_irecv([send, receive]):
        work.wait()
    assert torch.equal(out, torch.arange(2.0) + 2 * ((rank - 1) % size))


@entry
def barriers(rank, size):
    assert dist.barrier() is None and is_work(dist.barrier(async_op=True))


@entry
def groups(rank, size):
    group = dist.new_group([2, 0], timeout=datetime.timedelta(seconds=10))
    assert (dist.get_rank(group), dist.get_world_size(group)) == {0: (0, 2), 1: (-1, -1), 2: (1, 2)}[rank]
    if rank == 1:
        assert group == dist.GroupMember.NON_GROUP_MEMBER
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert dist.all_reduce(torch.ones(1), group=group) is None
    else:
        tensor = torch.full((1,), float(rank))
        dist.broadcast(tensor, 2, group=group)  # src is the rank in the job
        assert tensor == 2 and dist.get_backend(group) == "kolo"
        if has("get_global_rank"):
            assert dist.get_global_rank(group, 1) == 2 and dist.get_group_rank(group, 2) == 1
            with pytest.raises((ValueError, RuntimeError)):
                dist.get_group_rank(group, 1)
        if rank == 0:
            assert dist.recv(tensor, group=group) == 2  # from any: the rank in the job
        else:
            dist.send(tensor, 0, group=group)
        if has("get_process_group_ranks"):
            assert dist.get_process_group_ranks(group) == [0, 2]
        dist.destroy_process_group(group)
        with pytest.raises((ValueError, RuntimeError, AssertionError)):
            dist.all_reduce(tensor, group=group)
    if torch.__version__.startswith("2."):
        mine, all_of_them = dist.new_subgroups_by_enumeration([[0], [1, 2]])
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=mine)
        assert tensor == (1 if rank == 0 else 2) and len(all_of_them) == 2
        if rank < 2:
            group = dist.new_group([0, 1], use_local_synchronization=True)  # only its members call; PyTorch names later groups unlike
            tensor = torch.ones(1)
            dist.all_reduce(tensor, group=group)
            assert tensor == 2


@entry
def works(rank, size):
    tensor = torch.full((2,), float(rank))
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    tripled = future.then(lambda done: done.value()[0] * 3)
    assert work.wait(datetime.timedelta(seconds=10)) in (True, None)
    assert work.is_completed() and work.is_success() and work.result()[0][0] == 3
    future.wait()
    assert future.done() and future.value()[0][0] == 3 and tripled.wait()[0] == 9
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 15):  # earlier ones cannot hand it to Python
        assert work.exception() is None


@entry
def the_job(rank, size):
    assert dist.is_available() and dist.is_initialized() and dist.get_backend() == "kolo"
    assert dist.get_rank() == rank and dist.get_world_size() == size
    with pytest.raises((ValueError, RuntimeError)):
        dist.init_process_group("kolo")  # twice


def every_entry(rank, size):
    for function in ENTRIES:
        try:
            function(rank, size)
        except BaseException as error:
            raise AssertionError(function.__name__) from error


def test_every_entry():
    run(SIZE, every_entry)


def ranks_of_groups(rank, size):
    """From 2.6 on, ranks may be those of the group."""
    group = dist.new_group([1, 2])
    if rank > 0:
        tensor = torch.full((1,), float(rank))
        dist.broadcast(tensor, group=group, group_src=1)
        assert tensor == 2
        dist.reduce(tensor, group=group, group_dst=0)
        assert tensor == (4 if rank == 1 else 2)
        got = [None]
        dist.scatter_object_list(got, ["a", "b"] if rank == 2 else None, group=group, group_src=1)
        assert got == ["a" if rank == 1 else "b"]
        if rank == 1:
            dist.send(torch.ones(1), group=group, group_dst=1)
        else:
            assert dist.recv(tensor, group=group, group_src=0) == 1


@pytest.mark.skipif(torch.__version__.startswith("1."), reason="this PyTorch knows ranks of the job alone")
def test_ranks_of_groups():
    run(SIZE, ranks_of_groups)
