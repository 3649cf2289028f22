"""Groups that are parts of other groups: split_group() and shrink_group() of later versions, and their options."""
import datetime
import os
import signal

import pytest
import torch
import torch.distributed as dist
from ranks import Failed, Ranks, event, run
from torch.nn.parallel import DistributedDataParallel

import kolo_torch

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
later = pytest.mark.skipif(VERSION < (2, 15), reason="this PyTorch splits groups of NCCL alone, or of a device's, or none")
shrinks = pytest.mark.skipif(not hasattr(dist, "shrink_group"), reason="this PyTorch shrinks no groups")


def total(group=None):
    tensor = torch.full((3,), float(dist.get_rank()))
    dist.all_reduce(tensor, group=group)
    return tensor[0].item()


def splits(rank, size):
    group = dist.split_group(split_ranks=[[2, 0], [1, 3]], timeout=datetime.timedelta(seconds=7), group_desc="halves")
    assert total(group) == (2 if rank in (0, 2) else 4) and dist.get_backend(group) == "kolo"
    assert dist.get_world_size(group) == 2
    options = group._get_backend(torch.device("cpu")).options
    assert options._timeout == datetime.timedelta(seconds=7)
    part = dist.split_group(split_ranks=[[1, 2, 3]])
    assert (part == dist.GroupMember.NON_GROUP_MEMBER) == (rank == 0)
    if rank > 0:
        assert total(part) == 6
        assert (dist.split_group(part, [[0, 1]]) == dist.GroupMember.NON_GROUP_MEMBER) == (rank == 3)
        dist.destroy_process_group(part)
    assert total() == 6
    kolo_torch.set_timeout(datetime.timedelta(seconds=3), group)
    assert options._timeout == datetime.timedelta(seconds=3)
    assert kolo_torch.groups.backends(dist.group.WORLD)[0].options._timeout == datetime.timedelta(seconds=20)
    return group.name()


@later
def test_groups_are_split():
    run(4, splits)


def named(rank, size):
    backend = kolo_torch.groups.backends(dist.group.WORLD)[0]
    (backend if hasattr(backend, "_set_sequence_number_for_group") else dist.group.WORLD)._set_sequence_number_for_group()
    if not hasattr(backend, "options"):
        return
    options = backend.options
    options.group_name = "of my own"
    options.global_ranks_in_group = [0, 1]
    assert backend.options.group_name == "of my own" and backend.options.global_ranks_in_group == [0, 1]
    assert options._timeout == datetime.timedelta(seconds=20) and options.backend == "kolo"


def test_options_of_a_backend():
    run(2, named)


def shrinks_to(rank, size, over, flags):
    before = total()
    if rank == 2:
        assert over.wait(30)
        return
    group = dist.shrink_group([2], shrink_flags=flags)
    assert before == 6 and dist.get_world_size() == 3 and dist.get_rank() == min(rank, 2)
    assert total(group) == total() == 3
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    model(torch.ones(1, 2)).sum().backward()
    dist.barrier()
    over.set()


@shrinks
@pytest.mark.parametrize("flags", [0, 1])
def test_groups_shrink(flags):
    run(4, shrinks_to, event(), flags, timeout=3)


def survives(rank, size):
    total()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="rank 1"):
        total()
    dist.shrink_group([1])
    assert dist.get_world_size() == 2 and total() == 1


@shrinks
def test_groups_shrink_to_their_survivors():
    results = Ranks(3, survives).join()
    assert not isinstance(results[0], Failed) and not isinstance(results[2], Failed), results
