"""Tensors in shared memory: DistributedDataParallel's buckets, and others on request."""
import gc
import os
import pickle

import pytest
import torch
import torch.distributed as dist
from ranks import run
from torch.nn.parallel import DistributedDataParallel

import kolo_torch

COUNT = 64 * 1024


class Sums(torch.nn.Module):
    """Six gradients of 256 KiB each, in two buckets or more."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(COUNT)) for _ in range(3))

    def forward(self, factor):
        return sum((weight * factor).sum() for weight in self.weights)


def step(model, rank):
    model.zero_grad()
    model(rank + 1.0).backward()
    return [parameter.grad for parameter in model.parameters()]


def wrapped(group=None, seen=None, **options):
    model = DistributedDataParallel(Sums(), process_group=group, bucket_cap_mb=0.5, **options)

    def hook(state, bucket):
        seen.append(kolo_torch.is_shared(bucket.buffer()))
        work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
        return work.get_future().then(lambda future: future.value()[0] / dist.get_world_size(group))

    if seen is not None:
        model.register_comm_hook(None, hook)
    return model


def where_buckets_lie(rank, size, expected):
    mean = (size + 1) / 2
    for options in ({}, {"static_graph": True}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
        seen = []
        model, plain = wrapped(seen=seen, **options), wrapped(**options)
        for _ in range(3):  # the buckets are built again after the first
            for gradient in step(model, rank) + step(plain, rank):
                assert torch.equal(gradient, torch.full((COUNT,), mean))
                views = options == {"gradient_as_bucket_view": True}
                assert kolo_torch.is_shared(gradient) == (expected and views)
        assert len(seen) >= 3 and set(seen) == {expected}, (options, seen)


@pytest.mark.parametrize("size, backend", [(2, "kolo"), (3, "kolo"), (2, "gloo"), (1, "kolo")])
def test_where_buckets_lie(size, backend):
    run(size, where_buckets_lie, backend == "kolo" and size > 1, backend=backend)


def groups(rank, size):
    pairs = [dist.new_group([0, 1]), dist.new_group([1, 2])]
    gloo = dist.new_group(backend="gloo")
    for group, members, expected in ((pairs[0], (0, 1), True), (pairs[1], (1, 2), True), (gloo, range(size), False)):
        if rank in members:
            seen = []
            model = wrapped(group, seen)
            assert all(gradient[0] == sum(members) / len(members) + 1 for gradient in step(model, rank) + step(model, rank))
            assert set(seen) == {expected}
    assert not kolo_torch.is_shared(torch.empty(COUNT))


def test_the_group_decides():
    run(3, groups)


def mappings():
    with open("/proc/self/maps") as file:
        return sum("memfd:kolo " in line for line in file)


def models_end(rank, size):
    gc.freeze()  # a collection takes long with all that PyTorch has made
    for number in range(40):  # 120 MiB in all
        model = wrapped(gradient_as_bucket_view=number % 2 == 0)
        step(model, rank)
        step(model, rank)
        if number == 20:
            before = mappings()
        del model
        gc.collect()
    assert mappings() <= before <= 4
    model = wrapped(gradient_as_bucket_view=True)
    gradients = step(model, rank)
    dist.destroy_process_group()
    assert all(torch.equal(gradient, torch.full((COUNT,), (size + 1) / 2)) for gradient in gradients)
    del model
    assert all(gradient.sum() == COUNT * (size + 1) / 2 for gradient in gradients)


def test_models_and_groups_end_in_any_order():
    run(2, models_end)


def on_request(rank, size):
    with kolo_torch.shared_memory():
        inside = torch.ones(COUNT)
    outside = torch.ones(COUNT)
    assert kolo_torch.is_shared(inside) and kolo_torch.is_shared(inside[5:]) and not kolo_torch.is_shared(outside)
    dist.all_reduce(inside)
    assert torch.equal(inside, outside * size)
    kolo_torch.use_shared_memory()
    for _ in range(50):  # what is freed is used again
        tensor = torch.full((COUNT,), float(rank)).double() + 1
        assert kolo_torch.is_shared(tensor)
        dist.all_reduce(tensor)
        assert tensor[0] == size * (size + 1) / 2
    assert mappings() <= 4
    assert torch.equal(pickle.loads(pickle.dumps(tensor)), tensor)
    before = tensor.clone()
    tensor.resize_(2 * COUNT).fill_(3)
    assert kolo_torch.is_shared(tensor) and tensor[-1] == 3 and before[0] == size * (size + 1) / 2
    assert not kolo_torch.is_shared(torch.ones(10))
    tensor.share_memory_()
    assert tensor[-1] == 3
    kolo_torch.use_shared_memory(False)
    assert not kolo_torch.is_shared(torch.ones(COUNT))
    child = os.fork()
    if child == 0:
        inside.fill_(7)
        os._exit(int(inside[5] != 7))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert torch.equal(inside, outside * size)


def test_on_request():
    run(2, on_request)
