"""Groups: any store, groups of groups, what is left of them; works that are dropped; barriers."""
import datetime
import gc
import os
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist
from ranks import Ranks, event, run, serve_store

import kolo_torch


def once(rank, size):
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor[0] == size


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_store_in_a_file(tmp_path, size):
    run(size, once, init_method=f"file://{tmp_path}/store")


def over_tcp(rank, size, path, key):
    os.environ["KOLO_TRANSPORTS"] = "tcp"
    if key:
        os.environ["KOLO_KEY"] = key
    dist.init_process_group("kolo", init_method=f"file://{path}", rank=rank, world_size=size)
    once(rank, size)


@pytest.mark.parametrize("key", ["", "a key of the environment's"])
def test_a_job_without_variables_has_a_key(tmp_path, key):
    run(2, over_tcp, tmp_path / "store", key, backend=None)


def test_ranks_that_are_threads():
    store = dist.HashStore()
    sums = []

    def rank(number):
        backend = kolo_torch.create_backend(dist.PrefixStore("threads", store), number, 3, datetime.timedelta(seconds=20))
        tensor = torch.full((4,), float(number))
        backend.allreduce([tensor]).wait()
        sums.append(tensor[0].item())

    threads = [threading.Thread(target=rank, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sums == [3, 3, 3]


def sums(store, rank, size, seconds=20):
    backend = kolo_torch.create_backend(store, rank, size, datetime.timedelta(seconds=seconds))
    tensor = torch.ones(3)
    backend.allreduce([tensor]).wait()
    assert tensor[0] == size


def again(rank, size, path):
    store = dist.FileStore(path, size)
    for _ in range(50):
        sums(store, rank, size)


def test_groups_one_after_another_in_one_store(tmp_path):
    run(4, again, str(tmp_path / "store"), backend=None)


def comes(rank, size, port, dies):
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=datetime.timedelta(seconds=20))
    if rank == dies:
        threading.Timer(0.05 * rank, os.kill, (os.getpid(), signal.SIGKILL)).start()
    sums(store, rank, size + (dies is not None), seconds=20 if dies is None else 1)  # the last rank never comes


def test_ranks_come_again_to_the_store_of_a_job_that_died():
    store = serve_store()
    for dies in (0, 1, 2):
        Ranks(3, comes, store.port, dies, backend=None).join()
        run(3, comes, store.port, None, backend=None)


def subgroups(rank, size):
    pairs = [dist.new_group([a, b]) for a in range(size) for b in range(a + 1, size)]
    number = 0
    for a in range(size):
        for b in range(a + 1, size):
            if rank in (a, b):
                tensor = torch.full((2,), float(rank))
                dist.all_reduce(tensor, group=pairs[number])
                assert tensor[0] == a + b
                tensor = torch.full((2,), float(rank))
                dist.broadcast(tensor, b, group=pairs[number])
                assert tensor[0] == b
            number += 1
    once(rank, size)
    dist.destroy_process_group(pairs[0])
    once(rank, size)
    mixed = dist.new_group(backend="gloo")
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=mixed)
    assert tensor[0] == size


def test_subgroups():
    run(4, subgroups)


def resources():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def leaves_nothing(rank, size, path):
    for number in range(6):
        if number == 1:
            before = resources()
        dist.init_process_group("kolo", init_method=f"file://{path}-{number}", rank=rank, world_size=size)
        dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
        dist.destroy_process_group()
    end = time.monotonic() + 10
    while any(now > then for now, then in zip(resources(), before)) and time.monotonic() < end:
        time.sleep(0.01)
    assert all(now <= then for now, then in zip(resources(), before)), (resources(), before)


def test_no_descriptor_or_thread_is_left(tmp_path):
    run(2, leaves_nothing, tmp_path / "store", backend=None)


def dropped(rank, size):
    lists = []
    for _ in range(20):
        out = [torch.zeros(40_000) for _ in range(size)]  # results that are copied at the end
        dist.all_gather(out, torch.full((40_000,), float(rank + 1)), async_op=True)
        lists.append(out)
        dist.all_reduce(torch.ones(40_000), async_op=True)
    dist.barrier()
    for out in lists:
        assert [o[-1].item() for o in out] == [r + 1.0 for r in range(size)]


def test_works_that_are_dropped_end_before_a_barrier():
    run(2, dropped)
    run(4, dropped)


def receives_later(rank, size):
    tensor = torch.zeros(3)
    work = dist.irecv(tensor, 1 - rank)
    dist.barrier()
    dist.send(torch.ones(3), 1 - rank)
    work.wait()
    assert tensor.sum() == 3


def test_a_barrier_does_not_wait_for_messages():
    run(2, receives_later)


def futures(rank, size):
    done = threading.Event()
    work = dist.all_reduce(torch.ones(1000), async_op=True)
    tripled = work.get_future().then(lambda future: future.value()[0] * 3)
    tripled.then(lambda future: done.set())
    assert done.wait(10)
    assert tripled.wait()[0] == 3 * size
    assert work.is_completed() and work.is_success()
    assert work.result()[0][0] == size
    out = [torch.zeros(5) for _ in range(size)]
    future = dist.all_gather(out, torch.ones(5) * rank, async_op=True).get_future()
    future.wait()
    assert [o[0].item() for o in out] == list(range(size))


def test_futures():
    run(2, futures)


def barriers(rank, size, over):
    kolo_torch.monitored_barrier(timeout=datetime.timedelta(seconds=5))
    kolo_torch.set_timeout(datetime.timedelta(seconds=1))
    assert dist.get_backend() == "kolo"
    if rank == 0:
        with pytest.raises(RuntimeError, match="rank 1"):
            kolo_torch.monitored_barrier(timeout=datetime.timedelta(milliseconds=300))
        over.set()
    else:
        assert over.wait(20)


def test_a_monitored_barrier_names_the_rank_that_is_missing():
    run(2, barriers, event())


def forks(rank, size):
    tensor = torch.full((1000,), float(rank))
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(tensor)
        except Exception:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    dist.all_reduce(tensor)
    assert tensor[0] == sum(range(size))
    loader = torch.utils.data.DataLoader(list(range(32)), batch_size=4, num_workers=2)
    for batch in loader:
        sums = batch.double()
        dist.all_reduce(sums)
        assert torch.equal(sums, batch.double() * size)


def test_children():
    run(2, forks)


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def mixed(rank, size, iterations):
    peer = 1 - rank
    words = [torch.full((length,), float(rank)) for length in (1, 300, 20_000)]
    strided = torch.zeros(40, 8).t()
    many = [torch.zeros(30) for _ in range(size)]
    for number in range(iterations):
        tensor = words[number % 3]
        dist.all_reduce(tensor, async_op=True)  # and its Work is dropped
        dist.all_reduce(strided, dist.ReduceOp.AVG)
        future = dist.broadcast(tensor, number % 2, async_op=True).get_future()
        dist.all_gather(many, tensor[:1].expand(30))
        sent = dist.isend(tensor[:1], peer, tag=number % 5)
        dist.recv(torch.empty(1), peer, tag=number % 5)
        sent.wait()
        future.wait()
        tensor.fill_(rank)
        if number % 100 == 0:
            kept = [None] * size
            dist.all_gather_object(kept, {"number": number})
            with pytest.raises((ValueError, RuntimeError)):
                dist.all_gather(many[:1], many[0])
            unmet = dist.irecv(torch.empty(1), peer, tag=99)
            with pytest.raises(RuntimeError, match="timed out after 1 ms"):
                unmet.wait(datetime.timedelta(milliseconds=1))
            dist.barrier()
            dist.send(torch.empty(1), peer, tag=99)
            unmet.wait()
    dist.barrier()
    gc.collect()


def leaks_nothing(rank, size):
    mixed(rank, size, 7000)  # after which pools are full
    before, memory = resources(), resident()
    mixed(rank, size, 10_000)
    assert resources() == before
    assert resident() - memory < 1 << 19, resident() - memory  # 52 bytes an iteration


def test_ten_thousand_iterations_leak_nothing():
    run(2, leaks_nothing)
