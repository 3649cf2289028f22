"""Groups whose ranks change: dist._reconfigure()."""
import datetime
import os
import signal

import pytest
import torch
import torch.distributed as dist
from ranks import Failed, Ranks, event, run

pytestmark = pytest.mark.skipif(not hasattr(dist, "_reconfigure"), reason="this PyTorch's groups keep their ranks")


def begin(path, rank, size, **options):
    """A group without ranks, and the store through which this test's processes tell each other their handles."""
    store = dist.FileStore(str(path), -1)
    dist.init_process_group("kolo", store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=20), **options)
    assert dist._supports_reconfigure()
    store.set(f"handle {rank}", dist._get_reconfigure_handle())
    return lambda *ranks: [store.get(f"handle {one}").decode() for one in ranks]


def expect_sum(rank, size):
    group = dist.group.WORLD
    assert (group.rank(), group.size()) == (rank, size)
    for count in 1, 100_000:
        data = torch.full((count,), float(rank + 1))
        dist.all_reduce(data)
        assert data.eq(size * (size + 1) / 2).all()


def grows_and_turns_round(rank, size, path):
    handles = begin(path, rank, size, enable_reconfigure=True)
    with pytest.raises(RuntimeError, match="no ranks before reconfigure"):
        dist.all_reduce(torch.ones(3))
    if rank < 2:
        dist._reconfigure(uuid=1, handles=handles(0, 1)).wait()
        expect_sum(rank, 2)
    dist._reconfigure(uuid=2, handles=handles(*reversed(range(size)))).wait()
    expect_sum(size - 1 - rank, size)
    dist._reconfigure(uuid=3, handles=set(handles(*range(size)))).wait()
    expect_sum(sorted(handles(*range(size))).index(dist._get_reconfigure_handle()), size)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    model(torch.full((1, 4), float(rank))).sum().backward()
    assert model.module.weight.grad.eq((size - 1) / 2).all()


def test_ranks_come_and_change_places(tmp_path):
    run(3, grows_and_turns_round, tmp_path / "store", backend=None)


def replaces(rank, size, path, is_needed):
    if rank == size - 1:  # a newcomer
        is_needed.wait()
        handles = begin(path, rank, size, enable_reconfigure=True)
    else:
        handles = begin(path, rank, size - 1)
        expect_sum(rank, size - 1)
        if rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(RuntimeError, match="rank 0"):
            dist.all_reduce(torch.ones(100_000))
        is_needed.set()
    dist._reconfigure(uuid=1, handles=handles(*range(1, size))).wait()
    expect_sum(rank - 1, size - 1)


def test_a_newcomer_takes_the_place_of_a_rank_that_has_died(tmp_path):
    results = Ranks(4, replaces, tmp_path / "store", event(), backend=None).join()
    assert [rank for rank, result in enumerate(results) if isinstance(result, Failed)] == [0], results


def fails_and_goes_on(rank, size, path):
    handles = begin(path, rank, size)
    both = handles(0, 1)
    for wrong in [*both, both[0]], [both[1 - rank]], []:
        with pytest.raises(ValueError, match="handle"):
            dist._reconfigure(uuid=1, handles=wrong)
    expect_sum(rank, size)  # they harm nothing
    with pytest.raises(RuntimeError, match="timed out|did not come"):
        dist._reconfigure(uuid=1, handles=[*both, "of somebody else"], timeout=datetime.timedelta(seconds=1))
    with pytest.raises(ValueError, match="uuid 1 was used"):
        dist._reconfigure(uuid=1, handles=both)
    dist._reconfigure(uuid=2, handles=both).wait()
    expect_sum(rank, size)


def test_after_wrong_handles_and_a_rank_that_does_not_come(tmp_path):
    run(2, fails_and_goes_on, tmp_path / "store", backend=None)
