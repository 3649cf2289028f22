"""Where ranks meet: stores of PyTorch's and of Python, used again and again."""
import datetime
import os
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist
from ranks import Failed, Ranks, run, serve_store

import kolo_torch

IS_OLD = torch.__version__.startswith("1.")


class OwnStore(dist.Store):
    """A store written in Python, for threads of this process."""

    def __init__(self):
        super().__init__()
        self.values, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value if isinstance(value, bytes) else value.encode()
            self.changed.notify_all()

    def get(self, key):
        self.wait([key], datetime.timedelta(seconds=20))
        return self.values[key]

    def add(self, key, amount):
        with self.changed:
            total = int(self.values.get(key, b"0")) + amount
            self.values[key] = str(total).encode()
            self.changed.notify_all()
            return total

    def check(self, keys):
        return all(key in self.values for key in keys)

    def wait(self, keys, timeout=datetime.timedelta(seconds=20)):
        with self.changed:
            if not self.changed.wait_for(lambda: self.check(keys), timeout.total_seconds()):
                raise RuntimeError("a key is missing")

    def delete_key(self, key):
        return self.values.pop(key, None) is not None


def both(function):
    """Runs function(rank) in two threads, and returns what they return."""
    results = [None, None]

    def body(rank):
        results[rank] = function(rank)

    threads = [threading.Thread(target=body, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert None not in results
    return results


@pytest.mark.parametrize("kind", [OwnStore, dist.HashStore])
@pytest.mark.parametrize("prefix", [None, "a/b"])
def test_threads_meet_in_a_store(kind, prefix):
    whole = kind()
    store = dist.PrefixStore(prefix, whole) if prefix else whole

    def rank(number):
        backend = kolo_torch.create_backend(store, number, 2, datetime.timedelta(seconds=20))
        tensor = torch.full((3,), 1.0 + number)
        backend.allreduce([tensor]).wait()
        return tensor.tolist()

    assert both(rank) == [[3.0] * 3] * 2


def test_a_python_store_that_raises_is_named():
    class Full(OwnStore):
        def set(self, key, value):
            raise OSError("no room on the disk")

    store = Full()
    with pytest.raises(RuntimeError, match="PyTorch's store: OSError: no room on the disk"):
        kolo_torch.create_backend(store, 0, 2, datetime.timedelta(seconds=5))


def test_a_meeting_that_fails_leaves_the_store_whole(tmp_path):
    served = serve_store()
    client = dist.TCPStore("127.0.0.1", served.port, is_master=False, timeout=datetime.timedelta(seconds=5))
    for store in (client, dist.FileStore(str(tmp_path / "store"), 2)):
        for rank in (0, 1):
            with pytest.raises(RuntimeError, match="did not come: timed out after 0.3 s"):
                kolo_torch.create_backend(dist.PrefixStore(str(rank), store), rank, 2, datetime.timedelta(seconds=0.3))
        for number in range(3):
            store.set(f"key {number}", f"value {number}")
            assert store.get(f"key {number}") == f"value {number}".encode()
        assert store.add("count", 2) == 2


def comes_again(rank, size, where):
    options = {"timeout": datetime.timedelta(seconds=20)}
    if isinstance(where, int):
        store = dist.TCPStore("127.0.0.1", where, is_master=False, timeout=datetime.timedelta(seconds=20))
    else:
        store = dist.FileStore(str(where), size)
    before = None
    for number in range(100):
        tensor = torch.full((3,), float(number))
        if IS_OLD:  # whose own barrier over the store counts on, and waits in vain
            backend = kolo_torch.create_backend(store, rank, size, **options)
            backend.allreduce([tensor]).wait()
            del backend
        else:
            dist.init_process_group("kolo", store=store, rank=rank, world_size=size, **options)
            dist.all_reduce(tensor)
            dist.destroy_process_group()
        assert tensor[0] == size * number
        if number == 10:
            before = len(os.listdir("/proc/self/fd"))
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("kind", ["tcp", "file"])
def test_a_hundred_groups_after_one_another_meet_in_one_store(tmp_path, kind):
    store = serve_store()
    run(2, comes_again, store.port if kind == "tcp" else tmp_path / "store", backend=None)


def killed_in_a_call(rank, size):
    dist.all_reduce(torch.ones(3))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="rank 1"):
        dist.all_reduce(torch.ones(3))
    os.kill(os.getpid(), signal.SIGKILL)  # as an agent ends the other ranks


def sums(rank, size):
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor[0] == size


@pytest.mark.skipif(IS_OLD, reason="PyTorch's own barrier over the store counts on in versions before 2.0")
def test_ranks_that_are_started_again_meet_in_the_same_store():
    store = serve_store()
    for _ in range(2):
        killed = Ranks(2, killed_in_a_call, init_method=store.port)
        killed.join()
        assert killed.exit_codes == [-signal.SIGKILL] * 2
        begin = time.monotonic()
        run(2, sums, init_method=store.port)
        assert time.monotonic() - begin < 10
    late = Ranks(2, sums, starts=[1], init_method=store.port)  # a rank that comes before rank 0
    time.sleep(0.3)
    first = Ranks(2, sums, starts=[0], init_method=store.port)
    assert not [result for result in first.join() + late.join() if isinstance(result, Failed)]
