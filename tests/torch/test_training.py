"""Training by DistributedDataParallel: the same losses as over Gloo."""
import pytest
import torch
import torch.distributed as dist
from ranks import run
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.BatchNorm1d(50), torch.nn.ReLU(), torch.nn.Linear(50, 1))
        self.unused = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.layers(x)


def losses(rank, size, what):
    torch.manual_seed(0)
    options = {"plain": {}, "static": {"static_graph": True}, "view": {"gradient_as_bucket_view": True}}.get(what, {})
    net = Net()
    if what != "unused":
        del net.unused
    model = DistributedDataParallel(net, find_unused_parameters=what == "unused", bucket_cap_mb=0.001, **options)
    if what == "hook":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if what == "zero":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.05)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    found = []

    def step():
        x = torch.randn(16, 20, generator=generator)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        return loss.item()

    for number in range(20):
        optimizer.zero_grad()
        if what == "no_sync":
            with model.no_sync():
                step()
        found.append(step())
        optimizer.step()
    parameters = torch.cat([p.detach().flatten() for p in model.parameters()])
    others = [torch.zeros_like(parameters) for _ in range(size)]
    dist.all_gather(others, parameters)
    assert all(torch.equal(parameters, other) for other in others)
    return found


def embedding_losses(rank, size):
    """With sparse gradients, which only some ranks have for some rows."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.EmbeddingBag(100, 8, sparse=True), torch.nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    found = []
    for _ in range(15):
        words = torch.randint(0, 20 + 50 * rank, (16, 4), generator=generator)
        optimizer.zero_grad()
        loss = ((model(words) - words.float().mean(1, keepdim=True) / 50) ** 2).mean()
        loss.backward()
        assert model.module[0].weight.grad.is_sparse
        optimizer.step()
        found.append(loss.item())
    return found


def uneven(rank, size):
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    steps = 0
    with model.join():
        for _ in range(3 + rank):
            model(torch.ones(2, 4)).sum().backward()
            steps += 1
    return steps


@pytest.mark.parametrize("what", ["plain", "unused", "static", "view", "no_sync", "hook", "zero"])
def test_losses_are_those_of_gloo(what):
    size = 2
    kolo, gloo = run(size, losses, what), run(size, losses, what, backend="gloo")
    for mine, theirs in zip(kolo, gloo):
        assert mine == pytest.approx(theirs, rel=1e-2 if what == "hook" else 1e-5)
        assert mine[-1] < mine[0] / 2


def test_four_ranks():
    kolo, gloo = run(4, losses, "plain"), run(4, losses, "plain", backend="gloo")
    for mine, theirs in zip(kolo, gloo):
        assert mine == pytest.approx(theirs, rel=1e-5)


def test_sparse_gradients():
    kolo, gloo = run(2, embedding_losses), run(2, embedding_losses, backend="gloo")
    for mine, theirs in zip(kolo, gloo):
        assert mine == pytest.approx(theirs, rel=1e-5)


def test_inputs_of_different_length():
    assert run(2, uneven) == [3, 4]
