#!/usr/bin/env -S python3 -B
"""A rank of gpu-check in PyTorch: gpu_ranks.py calls | faults | hook, in a job of `kolo run`. Rank 0 prints one JSON object."""
import json
import os
import signal
import statistics
import sys
import time

os.environ["NCCL_HOSTID"] = "host" + os.environ["RANK"]  # else NCCL refuses ranks that share a GPU

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import kolo_torch  # noqa: E402

SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20)
DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def wait():
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def timed(call, times):
    """The median of what this rank waits, in microseconds, after calls that do not count."""
    found = []
    for number in range(3 + times):
        dist.barrier()
        wait()
        begin = time.perf_counter()
        call()
        wait()
        if number >= 3:
            found.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(found)


def expect(tensor, value):
    if (tensor != value).any().item():
        sys.exit(f"gpu_ranks.py: {tensor[:4].tolist()} is not {value}")


def calls(rank, size):
    rows, groups = [], {"kolo_us": None, "gloo_us": dist.new_group(backend="gloo")}
    for length in SIZES if DEVICE.type == "cuda" else SIZES[:3]:
        row = {"ranks": size, "bytes": length}
        for name, group in groups.items():
            tensor = torch.full((length // 4,), rank + 1.0, device=DEVICE)
            dist.all_reduce(tensor, group=group)
            expect(tensor, size * (size + 1) / 2)
            row[name] = timed(lambda group=group, tensor=tensor.zero_(): dist.all_reduce(tensor, group=group), 15 if length < 64 << 20 else 5)
        rows.append({**row, "times_faster": row["gloo_us"] / row["kolo_us"]})
    return {"rows": rows}


def fails(word):
    """Sums until one fails, for as long as it takes to say so; the error must have this word."""
    begin = time.perf_counter()
    try:
        while True:
            dist.all_reduce(torch.ones(1 << 18, device=DEVICE))
            begin = time.perf_counter()
    except RuntimeError as error:
        if word not in str(error):
            sys.exit(f"gpu_ranks.py: no \"{word}\" in: {error}")
    return time.perf_counter() - begin


def faults(rank, size):
    if rank == size - 1:
        for _ in range(5):
            dist.all_reduce(torch.ones(1 << 18, device=DEVICE))
        os.kill(os.getpid(), signal.SIGKILL)
    found = {"death_s": fails(f"rank {size - 1}")}
    dist.shrink_group([size - 1], shrink_flags=dist.distributed_c10d.SHRINK_ABORT)
    tensor = torch.ones(1 << 18, device=DEVICE)
    dist.all_reduce(tensor)
    expect(tensor, size - 1)
    if rank == 0:
        kolo_torch.abort()
    return {**found, "abort_s": fails("abort")}


def hook(rank, size):
    tensor = torch.ones(2, device=DEVICE)
    return {"kolo_us": timed(lambda: dist.all_reduce(tensor), 1000), "nccl_us": timed(lambda: torch.cuda.nccl.all_reduce([tensor]), 1000)}


dist.init_process_group("kolo")
result = {"calls": calls, "faults": faults, "hook": hook}[sys.argv[1]](dist.get_rank(), dist.get_world_size())
if int(os.environ["RANK"]) == 0:
    print(json.dumps(result), flush=True)
os._exit(0)  # a group that was aborted has nothing to end
