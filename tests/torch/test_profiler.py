"""torch.profiler shows kolo's calls: their time, and the shapes of their tensors."""
import torch
import torch.distributed as dist
from ranks import run


def profiled(rank, size):
    dist.all_reduce(torch.ones(5))  # before a profiler runs
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        dist.all_reduce(torch.ones(3, 4))
        dist.all_gather([torch.zeros(2) for _ in range(size)], torch.ones(2))
        dist.broadcast(torch.ones(7), 0, async_op=True).wait()
        dist.all_reduce_coalesced([torch.ones(2), torch.ones(3)])
        dist.barrier()
        work = dist.irecv(torch.zeros(6), 1 - rank)
        dist.isend(torch.ones(6), 1 - rank).wait()
        work.wait()
    events = {event.name: event for event in profile.function_events if event.name.startswith("kolo:")}
    assert set(events) == {"kolo:all_reduce", "kolo:all_gather", "kolo:broadcast", "kolo:all_reduce_coalesced", "kolo:barrier", "kolo:send",
                           "kolo:recv"}
    assert events["kolo:all_reduce"].input_shapes == [[3, 4]]
    assert events["kolo:all_gather"].input_shapes == [[2]]  # what is read; of a receive, what is written
    assert events["kolo:recv"].input_shapes == [[6]]
    assert events["kolo:all_reduce_coalesced"].input_shapes == [[2], [3]]
    assert events["kolo:broadcast"].input_shapes == [[7]]
    assert all(event.is_async and event.time_range.elapsed_us() > 0 for event in events.values())


def test_profiler():
    run(2, profiled)
