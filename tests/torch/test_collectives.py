"""Every collective, for every element type, shape and order in memory, beside a reference in plain tensors."""
import pytest
import torch
import torch.distributed as dist
from ranks import run
from torch.distributed import ReduceOp

import kolo_torch

FLOATING = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
TYPES = [*FLOATING, *INTEGERS, torch.bool, *COMPLEX]
SHAPES = [(), (0,), (1,), (3, 0), (7,), (4, 6), (2, 3, 4), (3000,)]


def data(rank, shape, dtype, seed=0):
    """The same on every rank that asks for the data of `rank`; small integers, so that sums are exact."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    values = torch.randint(0 if dtype in (torch.uint8, torch.bool) else -3, 2 if dtype == torch.bool else 4, shape, generator=generator)
    if dtype.is_complex:
        return torch.complex(values.double(), values.flip(0).double() if values.dim() else values.double()).to(dtype)
    return values.to(dtype)


def laid_out(tensor, layout):
    """The same elements with other strides."""
    if layout % 3 == 1:
        order = list(reversed(range(tensor.dim())))
        return tensor.permute(order).clone(memory_format=torch.contiguous_format).permute(order)
    if layout % 3 == 2:
        apart = torch.zeros((*tensor.shape, 2), dtype=tensor.dtype)
        apart[..., 1] = tensor
        return apart[..., 1]
    return tensor.clone()


def blank(shape, dtype, layout):
    return laid_out(torch.full(shape, 1, dtype=dtype), layout)


def check(got, expected, what):
    assert got.shape == expected.shape and got.dtype == expected.dtype, (what, got.shape, expected.shape)
    assert torch.equal(got, expected), f"{what}:\n{got}\nis not\n{expected}"


def reduced(op, tensors):
    """In int64 or float64."""
    dtype = tensors[0].dtype
    stack = torch.stack([t.to(torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64)
                         for t in tensors])
    if op == ReduceOp.SUM:
        result = stack.sum(0)
    elif op == ReduceOp.PRODUCT:
        result = stack.prod(0)
    elif op == ReduceOp.MIN:
        result = stack.amin(0)
    elif op == ReduceOp.MAX:
        result = stack.amax(0)
    elif op == ReduceOp.AVG:
        total = stack.sum(0)
        result = total / len(tensors) if stack.is_complex() or stack.is_floating_point() else total.div(len(tensors), rounding_mode="trunc")
    else:
        combine = {ReduceOp.BAND: torch.bitwise_and, ReduceOp.BOR: torch.bitwise_or, ReduceOp.BXOR: torch.bitwise_xor}
        result = stack[0]
        for other in stack[1:]:
            result = next(f for known, f in combine.items() if known == op)(result, other)
    return result.to(dtype)


def operations(dtype):
    if dtype.is_complex:
        return [ReduceOp.SUM, ReduceOp.AVG]
    if dtype.is_floating_point:
        return [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.AVG]
    bits = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]
    return bits if dtype == torch.bool else [*bits, ReduceOp.AVG]


class Gloo:
    """A second group of the same ranks, over Gloo: what it makes of the same calls, as far as it has them."""

    def __init__(self):
        self.group, self.compared, self.lacks = dist.new_group(backend="gloo"), 0, set()

    def check(self, name, got, out, call):
        """`got` is what call(out, group) writes to `out`, a tensor or a list of them."""
        if name in self.lacks:
            return
        try:
            call(out, self.group)
        except (RuntimeError, ValueError, NotImplementedError):
            self.lacks.add(name)  # on all ranks alike, before it has sent anything
            return
        for mine, theirs in zip(*[(t if isinstance(t, list) else [t]) for t in (got, out)]):
            check(mine, theirs, f"{name}, beside Gloo")
        self.compared += 1


def reductions(rank, size, dtype):
    gloo = Gloo()
    for seed, shape in enumerate(SHAPES):
        for layout in range(3):
            mine = data(rank, shape, dtype, seed)
            all_of_it = [data(r, shape, dtype, seed) for r in range(size)]
            for op in operations(dtype):
                expected = reduced(op, all_of_it)
                tensor = laid_out(mine, layout + rank)
                dist.all_reduce(tensor, op)
                check(tensor, expected, f"all_reduce {op} {shape} {layout}")
                compares = layout == 0 and dtype != torch.bool and 0 not in shape  # Gloo adds up bools as bytes
                if compares:
                    gloo.check(f"all_reduce {op}", tensor, mine.clone(), lambda out, group: dist.all_reduce(out, op, group=group))
                tensor = laid_out(mine, layout + rank)
                dist.reduce(tensor, size - 1, op)
                check(tensor, expected if rank == size - 1 else mine, f"reduce {op} {shape} {layout}")
                if compares:
                    out = mine.clone()
                    gloo.check(f"reduce {op}", tensor if rank == size - 1 else out, out,
                               lambda out, group: dist.reduce(out, size - 1, op, group=group))
                parts = [[data(r, shape, dtype, seed + 10 * p) for p in range(size)] for r in range(size)]
                own = reduced(op, [parts[r][rank] for r in range(size)])
                out = blank(shape, dtype, layout + rank)
                dist.reduce_scatter(out, [laid_out(p, layout) for p in parts[rank]], op)
                check(out, own, f"reduce_scatter {op} {shape} {layout}")
                if compares:
                    gloo.check(f"reduce_scatter {op}", out, blank(shape, dtype, 0),
                               lambda out, group: dist.reduce_scatter(out, parts[rank], op, group=group))
                if shape:
                    out = blank(shape, dtype, layout + rank)
                    dist.reduce_scatter_tensor(out, laid_out(torch.cat(parts[rank]), layout), op)
                    check(out, own, f"reduce_scatter_tensor {op} {shape} {layout}")
    return gloo.compared


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_reductions(size, dtype):
    compared = run(size, reductions, dtype)
    assert min(compared) >= (48 if dtype in (torch.float32, torch.int64) else 0)  # 4 operations of 6 shapes


def moves(rank, size, dtype):
    gloo = Gloo()
    for seed, shape in enumerate(SHAPES):
        for layout in range(3):
            where = f"{shape} {layout}"
            mine = laid_out(data(rank, shape, dtype, seed), layout + rank)
            all_of_it = [data(r, shape, dtype, seed) for r in range(size)]
            root = seed % size
            compares = layout == 0 and 0 not in shape
            plain = mine.clone(memory_format=torch.contiguous_format)  # Gloo sends in the order of the memory
            blanks = [blank(shape, dtype, 0) for _ in range(size)]

            tensor = mine.clone() if layout == 0 else laid_out(data(rank, shape, dtype, seed), layout + rank)
            dist.broadcast(tensor, root)
            check(tensor, all_of_it[root], f"broadcast {where}")
            if compares:
                gloo.check("broadcast", tensor, plain.clone(), lambda out, group: dist.broadcast(out, root, group=group))

            out = [blank(shape, dtype, layout + r) for r in range(size)]
            dist.all_gather(out, mine)
            for r in range(size):
                check(out[r], all_of_it[r], f"all_gather {where}")
            if compares:
                gloo.check("all_gather", out, [b.clone() for b in blanks], lambda out, group: dist.all_gather(out, plain, group=group))

            out = [blank(shape, dtype, layout + r) for r in range(size)] if rank == root else None
            dist.gather(mine, out, root)
            for r in range(size if rank == root else 0):
                check(out[r], all_of_it[r], f"gather {where}")
            if compares:
                gloo.check("gather", out or [], [b.clone() for b in blanks] if rank == root else [],
                           lambda out, group: dist.gather(plain, out or None, root, group=group))

            tensor = blank(shape, dtype, layout + rank)
            dist.scatter(tensor, [laid_out(t, layout) for t in all_of_it] if rank == root else None, root)
            check(tensor, all_of_it[rank], f"scatter {where}")
            if compares:
                gloo.check("scatter", tensor, blank(shape, dtype, 0),
                           lambda out, group: dist.scatter(out, all_of_it if rank == root else None, root, group=group))

            out = [blank(shape, dtype, layout) for _ in range(size)]
            dist.all_to_all(out, [laid_out(data(10 * rank + r, shape, dtype, seed), layout + r) for r in range(size)])
            for r in range(size):
                check(out[r], data(10 * r + rank, shape, dtype, seed), f"all_to_all {where}")

            if not shape:
                continue
            tensor = laid_out(torch.cat([blank(shape, dtype, 0)] * size), layout)
            dist.all_gather_into_tensor(tensor, mine)
            check(tensor, torch.cat(all_of_it), f"all_gather_into_tensor {where}")

            tensor = laid_out(torch.cat([blank(shape, dtype, 0)] * size), layout)
            sent = torch.cat([data(10 * rank + r, shape, dtype, seed) for r in range(size)])
            dist.all_to_all_single(tensor, laid_out(sent, layout))
            check(tensor, torch.cat([data(10 * r + rank, shape, dtype, seed) for r in range(size)]), f"all_to_all_single {where}")
            if compares:
                gloo.check("all_to_all_single", tensor, torch.cat(blanks), lambda out, group: dist.all_to_all_single(out, sent, group=group))
    return gloo.compared


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_moves(size, dtype):
    compared = run(size, moves, dtype)
    assert min(compared) >= (25 if dtype in (torch.float32, torch.int64) else 0)  # 5 calls of 5 shapes


def uneven(rank, size):
    # Rank s sends s + r rows to rank r.
    sent = [rank + r for r in range(size)]
    received = [s + rank for s in range(size)]
    out = torch.zeros(sum(received), 3)
    dist.all_to_all_single(out, torch.full((sum(sent), 3), float(rank)), received, sent)
    check(out, torch.cat([torch.full((n, 3), float(s)) for s, n in enumerate(received)]), "all_to_all_single")
    out = [torch.zeros(n, 3) for n in received]
    dist.all_to_all(out, [torch.full((n, 3), 10.0 * rank + r) for r, n in enumerate(sent)])
    for s in range(size):
        check(out[s], torch.full((received[s], 3), 10.0 * s + rank), "all_to_all")
    out = [torch.zeros(r + 1) for r in range(size)]
    dist.all_gather(out, torch.full((rank + 1,), float(rank)))
    for r in range(size):
        check(out[r], torch.full((r + 1,), float(r)), "all_gather")
    with pytest.raises(ValueError, match="splits"):
        dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [1] * size, [5] * size)


@pytest.mark.parametrize("size", [2, 4])
def test_parts_of_different_lengths(size):
    run(size, uneven)


def messages(rank, size):
    for dtype in TYPES:
        for seed, shape in enumerate(SHAPES):
            peer = (rank + 1) % size
            tensor = blank(shape, dtype, seed)
            request = dist.isend(laid_out(data(rank, shape, dtype, seed), seed + 1), peer, tag=seed)
            dist.recv(tensor, (rank - 1) % size, tag=seed)
            request.wait()
            check(tensor, data((rank - 1) % size, shape, dtype, seed), f"recv {dtype} {shape}")
    tensor = torch.zeros(2)
    if rank == 0:
        came = [dist.recv(tensor, tag=9) for _ in range(size - 1)]
        assert sorted(came) == list(range(1, size))
        assert tensor[0] == came[-1]
    else:
        dist.send(torch.full((2,), float(rank)), 0, tag=9)
    own = torch.zeros(3)
    group = dist.group.WORLD
    request = group.recv([own], rank, 5)
    group.send([torch.ones(3)], rank, 5).wait()
    request.wait()
    assert own.sum() == 3


@pytest.mark.parametrize("size", [2, 4])
def test_messages(size):
    run(size, messages)


def factors(rank, size):
    names = vars(torch._C._distributed_c10d)
    make = names.get("_make_premul_sum") or names["_make_nccl_premul_sum"]
    for factor, dtype in ((rank + 0.5, torch.float32), (torch.tensor([rank + 0.5]), torch.float32), (rank + 0.5, torch.float64),
                          (rank + 0.5, torch.float16), (rank + 0.5, torch.bfloat16), (rank + 0.5, torch.complex64)):
        tensor = torch.full((6,), 2.0, dtype=dtype)
        try:
            op = make(factor if not torch.is_tensor(factor) else [factor])
        except TypeError:
            op = make(factor)
        dist.all_reduce(tensor, op)
        assert tensor[0] == sum(2 * (r + 0.5) for r in range(size)), tensor


def test_premultiplied_sums():
    run(2, factors)


def quantized(rank, size):
    if torch.__version__.startswith("1."):  # later versions refuse quantized tensors themselves
        tensor = torch.quantize_per_tensor(torch.ones(5) * (rank + 1), 0.5, 0, torch.quint8)
        dist.broadcast(tensor, 1)
        assert tensor.dequantize()[0] == 2
    tensor = torch.zeros(4, dtype=torch.complex32)
    torch.view_as_real(tensor).fill_(rank)
    dist.broadcast(tensor, 1)
    assert torch.view_as_real(tensor).sum() == 8
    out = [torch.zeros(2 + r, dtype=torch.complex32) for r in range(size)]
    parts = torch.zeros(2 * (rank + 1), dtype=torch.complex32)
    dist.all_to_all_single(parts, tensor[:3], [rank + 1] * size, [1, 2])
    assert torch.view_as_real(parts).sum() == 4 * (rank + 1)
    dist.all_gather(out, torch.zeros(2 + rank, dtype=torch.complex32))
    with pytest.raises(ValueError, match="ComplexHalf"):
        kolo_torch.groups.backends(dist.group.WORLD)[0].allreduce([tensor])


def test_types_that_kolo_only_moves():
    run(2, quantized)


def newer(rank, size, dtype):
    tensor = torch.ones(100).to(dtype)
    dist.all_reduce(tensor)
    assert tensor.float().sum() == 100 * size
    out = torch.zeros(200).to(dtype)
    dist.all_gather_into_tensor(out, tensor)
    assert out.float().sum() == 200 * size
    dist.all_reduce(tensor, ReduceOp.AVG)
    dist.broadcast(tensor, 0)
    assert tensor.float().sum() == 100 * size
    part = torch.zeros(100).to(dtype)
    dist.reduce_scatter(part, [tensor] * size)
    assert part.float().sum() == 100 * size * size


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"])
def test_types_of_later_versions(name):
    if not hasattr(torch, name):
        pytest.skip(f"this PyTorch has no {name}")
    run(2, newer, getattr(torch, name))


def special(rank, size):
    parameter = torch.nn.Parameter(torch.full((4, 4), float(rank + 1)).t())
    dist.broadcast(parameter, 1)
    assert parameter[0, 0] == 2
    dist.all_reduce(parameter)
    assert parameter[0, 0] == 2 * size
    with torch.inference_mode():
        tensor = torch.ones(3, 4).t()
    dist.all_reduce(tensor)
    assert tensor[0, 0] == size
    whole = torch.zeros(2 * size)
    own = whole[2 * rank:2 * rank + 2]
    own += rank + 1
    dist.all_gather_into_tensor(whole, own)  # in place
    assert whole.tolist() == [float(r + 1) for r in range(size) for _ in range(2)]
    wide = torch.full((5,), 200, dtype=torch.uint8)
    dist.all_reduce(wide, ReduceOp.AVG)
    assert wide[0] == 200


def test_tensors_that_are_special():
    run(2, special)


def lazy(rank, size):
    backend = kolo_torch.groups.backends(dist.group.WORLD)[0]
    negative, conjugate = torch._neg_view(torch.ones(3)), torch.tensor([rank + 2j, 3 - 1j]).conj()
    backend.allreduce([negative]).wait()
    assert negative.tolist() == [-2.0] * 3
    out = [torch._neg_view(torch.zeros(3)) if r else torch.zeros(3) for r in range(size)]
    backend.allgather([out], [torch._neg_view(torch.full((3,), float(rank + 1)))]).wait()
    assert [o[0].item() for o in out] == [-1, -2]
    backend.broadcast([conjugate]).wait()
    assert conjugate.tolist() == [-2j, 3 + 1j]


@pytest.mark.skipif(torch.__version__.startswith("1."), reason="PyTorch's dispatcher gives the backend copies, and takes no results from them")
def test_tensors_that_are_lazily_negative_or_conjugate():
    run(2, lazy)


def objects(rank, size):
    out = [None] * size
    dist.all_gather_object(out, {"rank": rank, "text": "x" * 1000 * rank})
    assert [o["rank"] for o in out] == list(range(size))
    box = [rank, "of", size] if rank == 0 else [None] * 3
    dist.broadcast_object_list(box, 0)
    assert box == [0, "of", size]
    got = [None]
    dist.scatter_object_list(got, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    assert got == [f"for {rank}"]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank * rank, gathered, 0)
    assert rank != 0 or gathered == [r * r for r in range(size)]


@pytest.mark.parametrize("size", [2, 4])
def test_objects(size):
    run(size, objects)


def beside_gloo(rank, size):
    """The results of the same calls on both groups."""
    gloo = dist.new_group(backend="gloo")
    generator = torch.Generator().manual_seed(rank)
    for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8):
        for count in (1, 1000, 100_000):
            tensor = (torch.randn(count, generator=generator) * 20).to(dtype)
            for name in ("SUM", "MAX", "MIN", "PRODUCT"):
                both = [tensor.clone(), tensor.clone()]
                for group, mine in zip((None, gloo), both):
                    dist.all_reduce(mine, getattr(ReduceOp, name), group=group)
                assert torch.allclose(*both, rtol=1e-5, atol=1e-4), (dtype, count, name)
            both = [tensor.clone(), tensor.clone()]
            for group, mine in zip((None, gloo), both):
                dist.broadcast(mine, size - 1, group=group)
            assert torch.equal(*both)
            lists = [[torch.zeros_like(tensor) for _ in range(size)] for _ in range(2)]
            for group, out in zip((None, gloo), lists):
                dist.all_gather(out, tensor, group=group)
            assert all(torch.equal(a, b) for a, b in zip(*lists))


@pytest.mark.parametrize("size", [2, 4])
def test_results_are_those_of_gloo(size):
    run(size, beside_gloo)
