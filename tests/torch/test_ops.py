"""torch.ops.kolo: results, gradients, errors, torch.compile."""
import os
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist
from ranks import run

import kolo_torch

ops = torch.ops.kolo
OLD = torch.__version__.startswith("1.")


def results(rank, size):
    name = kolo_torch.name_of()
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.complex64):
        for count in (1, 2, 1000, 100_000):
            base = (torch.arange(count) % 3 + rank + 1).to(dtype)
            total = sum((torch.arange(count) % 3 + r + 1).to(dtype) for r in range(size))
            assert torch.equal(ops.all_reduce(base, "sum", name), total)
            data = base.clone()
            assert ops.all_reduce_(data, "sum", name) in (None, ())
            assert torch.equal(data, total)
            gathered = ops.all_gather_into_tensor(base, size, name)
            assert torch.equal(gathered, torch.cat([(torch.arange(count) % 3 + r + 1).to(dtype) for r in range(size)]))
            parts = base.repeat(size)
            assert torch.equal(ops.reduce_scatter_tensor(parts, "sum", size, name), total)
    for op, expected in {"avg": (size + 1) // 2, "product": 24 if size == 4 else 2, "min": 1, "max": size}.items():
        for make in (lambda: torch.full((3, 5), rank + 1).t(), lambda: torch.full((5, 6), rank + 1)[:, ::2]):
            data = make()
            assert not data.is_contiguous()
            assert (ops.all_reduce(data, op, name) == expected).all()
            assert (ops.reduce_scatter_tensor(data.repeat(size, 1), op, size, name) == expected).all()
            ops.all_reduce_(data, op, name)
            assert (data == expected).all()
    rows = ops.all_gather_into_tensor(torch.full((3, 2), rank).t(), size, name)
    assert rows.shape == (2 * size, 3) and rows[:, 0].tolist() == [r for r in range(size) for _ in range(2)]
    assert ops.all_gather_into_tensor(torch.tensor(rank), size, name).tolist() == list(range(size))
    assert ops.all_reduce(torch.zeros(0, 3), "sum", name).shape == (0, 3)
    with torch.inference_mode():
        data = torch.ones(4)
        ops.all_reduce_(data, "sum", name)
        assert data[0] == size


@pytest.mark.parametrize("size", [2, 4])
def test_results(size):
    run(size, results)


def gradients(rank, size):
    name = kolo_torch.name_of()
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(size, size * 3, dtype=torch.float64, generator=generator)

    def check(operator, reference):
        """`reference` makes the results of all ranks out of all inputs: its gradient is that of the sum of all ranks' losses."""
        whole = inputs.clone().requires_grad_()
        outputs = reference(whole)
        sum((output * (r + 1) * torch.arange(output.numel())).sum() for r, output in enumerate(outputs)).backward()
        own = inputs[rank].clone().requires_grad_()
        output = operator(own)
        assert torch.allclose(output, outputs[rank])
        (output * (rank + 1) * torch.arange(output.numel())).sum().backward()
        assert torch.allclose(own.grad, whole.grad[rank]), (own.grad, whole.grad[rank])

    def in_place(x):
        y = x * 1
        ops.all_reduce_(y, "sum", name)
        return y

    check(in_place, lambda x: [x.sum(0)] * size)
    check(lambda x: ops.all_reduce(x, "sum", name), lambda x: [x.sum(0)] * size)
    check(lambda x: ops.all_reduce(x, "avg", name), lambda x: [x.mean(0)] * size)
    check(lambda x: ops.all_gather_into_tensor(x, size, name), lambda x: [x.flatten()] * size)
    check(lambda x: ops.reduce_scatter_tensor(x, "sum", size, name), lambda x: x.sum(0).chunk(size))
    check(lambda x: ops.reduce_scatter_tensor(x, "avg", size, name), lambda x: x.mean(0).chunk(size))
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    first, = torch.autograd.grad((ops.all_reduce(x, "sum", name) ** 3).sum(), x, create_graph=True)
    second, = torch.autograd.grad(first.sum(), x)
    assert torch.equal(second, torch.full((3,), 6.0 * size ** 3, dtype=torch.float64))
    with torch.no_grad():
        assert not ops.all_reduce(x, "sum", name).requires_grad
        ops.all_reduce_(x, "sum", name)
    with pytest.raises((ValueError, RuntimeError), match="max"):
        ops.all_reduce(x, "max", name)
    with pytest.raises(RuntimeError, match="leaf"):
        ops.all_reduce_(x, "sum", name)
    used = x.detach() * 2
    y = (torch.ones(3, requires_grad=True) * used).sum()
    ops.all_reduce_(used, "sum", name)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_gradients():
    run(2, gradients)


def wrong(rank, size):
    name = kolo_torch.name_of()
    data = torch.ones(3)
    for call in (lambda: ops.all_reduce_(data, "mean", name), lambda: ops.all_reduce_(data, "sum", "no such group"),
                 lambda: ops.all_gather_into_tensor(data, size + 1, name), lambda: ops.reduce_scatter_tensor(data, "sum", size, name),
                 lambda: ops.all_reduce_(data.to_sparse(), "sum", name), lambda: ops.all_reduce_(data, "band", name)):
        with pytest.raises((ValueError, RuntimeError, NotImplementedError)):
            call()
    with pytest.raises(RuntimeError, match="3 float32.*4 float32|4 float32.*3 float32"):
        ops.all_reduce(torch.ones(3 + rank), "sum", name)


def groups(rank, size):
    pair = dist.new_group([0, 1])
    if rank < 2:
        assert ops.all_reduce(torch.ones(2), "sum", kolo_torch.name_of(pair))[0] == 2
    name = kolo_torch.name_of()
    assert ops.all_reduce(torch.ones(2), "sum", name)[0] == size
    dist.barrier()
    if rank == 0:
        ended = threading.Thread(target=lambda: (time.sleep(0.2), dist.destroy_process_group()))
        ended.start()
        begin = time.monotonic()
        with pytest.raises(RuntimeError):
            ops.all_reduce(torch.ones(2), "sum", name)
        assert time.monotonic() - begin < 5
        ended.join()
        with pytest.raises((ValueError, RuntimeError)):
            ops.all_reduce(torch.ones(2), "sum", name)


def interrupted(rank, size):
    name = kolo_torch.name_of()
    data = torch.ones(1000)
    if rank == 0:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            ops.all_reduce_(data, "sum", name)
        assert time.monotonic() - begin < 2
        del data  # the call goes on, and keeps the memory
    else:
        time.sleep(0.7)
        ops.all_reduce_(data, "sum", name)
        assert data[0] == size
    assert ops.all_reduce(torch.ones(2), "sum", name)[0] == size


@pytest.mark.parametrize("function, size", [(wrong, 2), (groups, 3), (interrupted, 2)])
def test_faults(function, size):
    run(size, function)


def compiled(rank, size, backend, dynamic):
    name = kolo_torch.name_of()
    seen = []

    def counting(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        from torch._dynamo.backends.registry import lookup_backend
        return lookup_backend(backend)(graph, inputs)

    def function(x, weight):
        y = x @ weight
        ops.all_reduce_(y, "sum", name)
        z = ops.all_gather_into_tensor(y.relu(), size, name)
        z = ops.reduce_scatter_tensor(z * z, "avg", size, name)
        return (z + ops.all_reduce(x, "avg", name).sum()).sum()

    fast = torch.compile(function, backend=counting, fullgraph=True, dynamic=dynamic)
    for rows in (2, 3, 4):
        x = torch.arange(float(rows * 4)).reshape(rows, 4) / 10 + rank
        weights = [torch.full((4, 4), 0.5).requires_grad_() for _ in range(2)]
        plain, quick = function(x, weights[0]), fast(x, weights[1])
        assert torch.allclose(plain, quick), (plain, quick)
        plain.backward()
        quick.backward()
        assert torch.allclose(weights[0].grad, weights[1].grad)
    for operator in ("all_reduce_", "all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"):
        assert f"kolo.{operator}" in seen or f"kolo.{operator}.default" in seen, seen


@pytest.mark.skipif(OLD, reason="1.13 has no torch.compile")
@pytest.mark.parametrize("backend, dynamic", [("aot_eager", False), ("aot_eager", True)])
def test_compile_keeps_them_in_its_graph(backend, dynamic):
    run(2, compiled, backend, dynamic)
