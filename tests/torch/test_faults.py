"""What goes wrong: ranks that die or never come, calls that differ, timeouts, signals, calls that are ended."""
import datetime
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch.distributed as dist
from ranks import Failed, Ranks, event, run

import kolo_torch


def dies(rank, size):
    dist.all_reduce(torch.ones(3))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="rank 1") as error:
        dist.all_reduce(torch.ones(100_000))
    assert time.monotonic() - begin < 3
    with pytest.raises(RuntimeError, match="rank 1"):
        dist.barrier()
    return str(error.value)


@pytest.mark.parametrize("size", [2, 4])
def test_a_rank_that_is_killed_is_named(size):
    ranks = Ranks(size, dies)
    results = ranks.join()
    assert [rank for rank, result in enumerate(results) if isinstance(result, Failed)] == [1], results
    assert ranks.exit_codes[1] == -signal.SIGKILL


def begins_anew(rank, size, store):
    dist.all_reduce(torch.ones(3))
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="rank 0"):
        dist.all_reduce(torch.ones(100_000))
    dist.destroy_process_group()
    dist.init_process_group("kolo", init_method=f"file://{store}", rank=rank - 1, world_size=size - 1)
    data = torch.full((100_000,), float(rank))
    dist.all_reduce(data)
    assert data.eq(sum(range(1, size))).all()


def test_survivors_make_a_group_anew(tmp_path):
    results = Ranks(3, begins_anew, tmp_path / "store").join()
    assert [rank for rank, result in enumerate(results) if isinstance(result, Failed)] == [0], results


@pytest.mark.parametrize("here", [[0], [1], [0, 1, 3]])
def test_ranks_that_do_not_come_are_named(tmp_path, here):
    missing = [str(rank) for rank in range(4) if rank not in here]
    ranks = Ranks(4, dies, timeout=1, starts=here, init_method=f"file://{tmp_path}/store")
    for result in ranks.join():
        assert isinstance(result, Failed)
        if 0 in here:  # without rank 0 no rank knows of the others
            assert re.search(f"ranks? {', '.join(missing)} of 4 did not come: timed out after 1 s", result), result
        else:
            assert "rank 0 of 4 did not come" in result, result


def differs(rank, size):
    with pytest.raises(RuntimeError, match="3 float32.*4 float32|4 float32.*3 float32"):
        dist.all_reduce(torch.ones(3 + rank))


def differs_in_type(rank, size):
    with pytest.raises(RuntimeError, match="(float32.*int64|int64.*float32)"):
        dist.all_reduce(torch.ones(3, dtype=torch.int64 if rank else torch.float32))


def differs_in_call(rank, size):
    with pytest.raises(RuntimeError, match="(all_reduce.*broadcast|broadcast.*all_reduce)"):
        dist.all_reduce(torch.ones(3)) if rank else dist.broadcast(torch.ones(3), 1)
        dist.barrier()  # of a broadcast's root, the next call finds it


@pytest.mark.parametrize("function", [differs, differs_in_type, differs_in_call])
def test_calls_that_differ_raise_on_all_ranks(function):
    run(2, function)


def wrong(rank, size):
    for call in (lambda: dist.broadcast(torch.ones(3).to_sparse(), 0),
                 lambda: dist.all_gather([torch.ones(3)], torch.ones(3)),
                 lambda: dist.reduce_scatter(torch.ones(3), [torch.ones(3)] * (size + 1)),
                 lambda: dist.all_gather_into_tensor(torch.ones(3), torch.ones(3)),
                 lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND),
                 lambda: dist.send(torch.ones(3), (rank + 1) % size, tag=-1)):
        with pytest.raises((ValueError, RuntimeError)):
            call()
    with pytest.raises((ValueError, NotImplementedError), match="a tensor is on meta|arguments from the '(Autograd)?Meta' backend"):
        kolo_torch.groups.backends(dist.group.WORLD)[0].allreduce([torch.ones(3, device="meta")])
    dist.barrier()  # none of them has harmed the group


def test_wrong_arguments_raise_and_do_no_harm():
    run(2, wrong)


def waits_too_long(rank, size, over):
    if rank == 1:
        assert over.wait(20)
        return
    with pytest.raises(RuntimeError, match="rank 1.*|timed out after"):
        dist.all_reduce(torch.ones(3))
    over.set()


def test_the_timeout_of_a_group():
    run(2, waits_too_long, event(), timeout=1)


def one_call(rank, size, over):
    if rank == 0:
        options = dist.AllreduceOptions()
        options.timeout = datetime.timedelta(milliseconds=200)
        with pytest.raises(RuntimeError, match="rank 1"):
            dist.group.WORLD.allreduce([torch.ones(3)], options).wait()
        over.set()
    else:
        assert over.wait(20)


def test_the_timeout_of_a_call():
    run(2, one_call, event())


def waits_a_moment(rank, size):
    tensor = torch.zeros(3)
    if rank == 0:
        work = dist.irecv(tensor, 1)
        with pytest.raises(RuntimeError, match="recv: wait.. timed out after 100 ms, waiting for rank 1; "):
            work.wait(datetime.timedelta(milliseconds=100))
        dist.barrier()
        work.wait()
        assert tensor.sum() == 3
    else:
        dist.barrier()
        dist.send(torch.ones(3), 0)


def test_a_wait_that_ends_leaves_the_call():
    run(2, waits_a_moment)


def interrupted(rank, size, over):
    if rank == 1:
        assert over.wait(20)
        return
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        dist.all_reduce(torch.ones(3))
    assert time.monotonic() - begin < 1.3
    over.set()


def test_control_c_ends_a_call():
    run(2, interrupted, event())


def interrupted_while_it_comes(rank, size, path):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        dist.init_process_group("kolo", init_method=f"file://{path}", rank=rank, world_size=3)
    assert time.monotonic() - begin < 1.3


def test_control_c_ends_a_rendezvous(tmp_path):
    run(2, interrupted_while_it_comes, tmp_path / "store", backend=None)


def blocked_in_a_thread(rank, size, end):
    caught = []

    def block():
        try:
            dist.recv(torch.zeros(3), 1 - rank)
        except (RuntimeError, ValueError) as error:  # a ValueError of PyTorch's if the group was gone before
            caught.append(str(error))

    threads = [threading.Thread(target=block) for _ in range(2)]
    for thread in threads:
        thread.start()
    dist.barrier()
    begin = time.monotonic()
    if end == "abort":
        kolo_torch.abort()
    else:
        dist.destroy_process_group()
    for thread in threads:
        thread.join(10)
    assert time.monotonic() - begin < 1.5
    assert len(caught) == 2, caught
    return caught


@pytest.mark.parametrize("end", ["abort", "destroy"])
def test_calls_that_block_in_threads_end(end):
    run(2, blocked_in_a_thread, end)


def failing_futures(rank, size):
    seen = threading.Event()
    told = []

    def note(future):
        told.append(threading.current_thread() is not threading.main_thread())
        try:
            future.value()
        except RuntimeError as error:
            told.append(str(error))
        seen.set()

    if rank == 1:
        dist.distributed_c10d._get_default_store().wait(["called"], datetime.timedelta(seconds=20))
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(torch.ones(3), async_op=True)
    future = work.get_future()
    future.then(note)
    dist.distributed_c10d._get_default_store().set("called", "")
    assert seen.wait(10)
    assert "rank 1" in told[1], told
    with pytest.raises(RuntimeError, match="rank 1"):
        future.wait()
    assert work.is_completed() and not work.is_success()


def test_futures_complete_on_errors():
    results = Ranks(2, failing_futures).join()
    assert not isinstance(results[0], Failed), results[0]


SCRIPT = """
import sys, torch, torch.distributed as dist, kolo_torch
rank, path, what = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("kolo", init_method="file://" + path, rank=rank, world_size=2)
if what == "isend" and rank == 0:
    dist.isend(torch.full((1_000_000,), 7.0), 1)
elif what == "isend":
    import time; time.sleep(1)
    tensor = torch.zeros(1_000_000); dist.recv(tensor, 0); assert tensor.sum() == 7_000_000
elif what == "pending":
    # One leaves before the other, and neither is in a call that needs the other.
    dist.irecv(torch.zeros(3), 1 - rank)
    store = dist.distributed_c10d._get_default_store()
    store.set(f"ready {rank}", ""); store.wait([f"ready {1 - rank}"])
    if rank == 1: import time; time.sleep(0.3)
elif what == "async":
    work = dist.all_reduce(torch.ones(3), async_op=True); kept = work.get_future(); work.wait()
"""


@pytest.mark.parametrize("what", ["nothing", "isend", "pending", "async"])
def test_leaving_without_destroy(tmp_path, what):
    processes = [subprocess.Popen([sys.executable, "-c", SCRIPT, str(rank), str(tmp_path / "store"), what], stderr=subprocess.PIPE)
                 for rank in range(2)]
    for process in processes:
        errors = process.communicate(timeout=30)[1]
        assert process.returncode == 0, errors.decode()


def leaves_with_a_receive_pending(rank, size, has_left):
    word = torch.full((1,), rank)
    never = dist.irecv(torch.zeros(3), 1 if rank == 0 else 0, tag=7) if rank < 2 else None
    dist.barrier()
    if rank == 1:
        dist.destroy_process_group()
        has_left.set()
        with pytest.raises(RuntimeError, match="destroyed"):
            never.wait()
        return
    assert has_left.wait(20)
    for _ in range(3):
        dist.send(word, 2) if rank == 0 else dist.recv(word, 0)
    assert word == 0
    if rank == 0:
        begin = time.monotonic()
        with pytest.raises(RuntimeError, match=r"rank 1 has left.*recv\(3 float32\) from rank 1 with tag 7"):
            never.wait()
        assert time.monotonic() - begin < 2
    with pytest.raises(RuntimeError, match="rank 1"):
        dist.all_reduce(torch.ones(3))


def test_a_rank_that_leaves_ends_only_what_needs_it():
    run(3, leaves_with_a_receive_pending, event())


BLOCKED = """
import sys, threading, torch, torch.distributed as dist, kolo_torch
rank = int(sys.argv[1])
dist.init_process_group("kolo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
began = threading.Event()

def wait():
    work = dist.irecv(torch.zeros(3), 1 - rank)
    began.set()
    work.wait()

threading.Thread(target=wait, daemon=True).start()
began.wait()
dist.barrier()
"""


def test_leaving_while_a_daemon_thread_waits(tmp_path):
    processes = [subprocess.Popen([sys.executable, "-c", BLOCKED, str(rank), str(tmp_path / "store")], stderr=subprocess.PIPE) for rank in range(2)]
    for process in processes:
        errors = process.communicate(timeout=30)[1]
        assert process.returncode == 0, errors.decode()
