"""pg_options: what kolo makes the calls of a group with."""
import datetime
import json
import os

import pytest
import torch
import torch.distributed as dist
from ranks import run

import kolo_torch


def test_values_are_checked():
    with pytest.raises(ValueError, match='wire="bf16" must be native, bfloat16, float16 or int8'):
        kolo_torch.Options(wire="bf16")
    options = kolo_torch.Options(wire="int8", algorithm="ring")
    assert (options.wire, options.algorithm, options.timeline) == ("int8", "ring", "")


def start(rank, size, path, options):
    os.environ["KOLO_TRANSPORTS"] = "tcp"
    os.environ["KOLO_KEY"] = "a key of all of 16 characters"
    dist.init_process_group("kolo", init_method=f"file://{path}", rank=rank, world_size=size, pg_options=options,
                            timeout=datetime.timedelta(seconds=20))


def wire(rank, size, path):
    start(rank, size, path, kolo_torch.Options(wire="bfloat16"))
    exact = dist.new_group(pg_options=kolo_torch.Options(algorithm="naive"))
    value = 1 + 2.0 ** -12  # too fine for bfloat16
    for group, expected in ((None, 1.0), (exact, value)):
        for op, factor in ((dist.ReduceOp.SUM, size), (dist.ReduceOp.AVG, 1)):
            tensor = torch.full((1000,), value)
            dist.all_reduce(tensor, op=op, group=group)
            assert torch.equal(tensor, torch.full((1000,), expected * factor)), (tensor[0], group)
    for tensor, op in ((torch.full((3,), value, dtype=torch.float64), dist.ReduceOp.SUM), (torch.full((3,), value), dist.ReduceOp.MAX)):
        dist.all_reduce(tensor, op=op)  # these travel as they are
        assert tensor[0] == value * (size if op == dist.ReduceOp.SUM else 1)


def test_wire(tmp_path):
    run(2, wire, tmp_path / "store", backend=None)


def bad(rank, size, path):
    with pytest.raises(ValueError, match="nonsense"):
        start(rank, size, f"{path}-1", kolo_torch.Options(algorithm="nonsense"))
    with pytest.raises(TypeError, match="kolo_torch.Options"):
        start(rank, size, f"{path}-2", {"wire": "bfloat16"})


def test_options_that_no_call_could_have(tmp_path):
    run(1, bad, tmp_path / "store", backend=None)


def timeline(rank, size, path):
    start(rank, size, path / "store", kolo_torch.Options(timeline=str(path / "traces" / "run")))
    dist.all_reduce(torch.ones(10))
    dist.destroy_process_group()


def test_timeline(tmp_path):
    run(2, timeline, tmp_path, backend=None)
    files = sorted((tmp_path / "traces/run").iterdir())
    assert [file.name.split("-")[:2] for file in files] == [["rank", "0"], ["rank", "1"]]
    assert any(event.get("name") == "all_reduce" for event in json.loads(files[0].read_text())["traceEvents"])
