"""Runs a function as ranks of a process group, each in a process of its own."""
import datetime
import multiprocessing
import signal
import time
import traceback

import torch
import torch.distributed as dist

import kolo_torch  # noqa: F401: registers the backend

torch.set_num_threads(1)
PATIENCE = 60  # seconds after which ranks that hang are killed
_context = multiprocessing.get_context("fork")


def event():
    """For ranks to tell each other something beside their group: an argument of their function."""
    return _context.Event()


def serve_store():
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


class Ranks:
    """`size` processes that each run function(rank, size, *arguments) in a group that they have made.

    The results of join() are what the function has returned, or a Failed.
    """

    def __init__(self, size, function, *arguments, backend="kolo", timeout=20, init_method=None, starts=None):
        self.pipes, self.processes = [], []
        for rank in starts if starts is not None else range(size):
            ours, theirs = _context.Pipe()
            process = _context.Process(target=_rank, args=(theirs, rank, size, function, arguments, backend, timeout))
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        # Served here, at a port that is free. After the forks: a fork may come while the server's thread holds a lock.
        self.store = None if init_method else serve_store()
        for pipe in self.pipes:
            pipe.send(init_method or self.store.port)

    def join(self):
        end = time.monotonic() + PATIENCE
        results = []
        for pipe, process in zip(self.pipes, self.processes):
            result = Failed("it hangs")
            if pipe.poll(max(0, end - time.monotonic())):
                try:
                    result = pipe.recv()
                except EOFError:
                    result = Failed("it has ended without a result")
            results.append(result)
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))
            if process.is_alive():
                results[self.processes.index(process)] = Failed("it hangs after its function has returned")
                process.kill()
                process.join()
        self.exit_codes = [process.exitcode for process in self.processes]
        self.store = None  # a failed test keeps this object, and its copy in a later fork has no thread to end
        return results


class Failed(str):
    """How a rank has failed: the traceback of its exception."""


def _rank(pipe, rank, size, function, arguments, backend, timeout):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    where = pipe.recv()
    try:
        if backend is not None:
            timeout = datetime.timedelta(seconds=timeout)
            if isinstance(where, str):
                options = {"init_method": where}
            else:
                options = {"store": dist.TCPStore("127.0.0.1", where, is_master=False, timeout=datetime.timedelta(seconds=20))}
            dist.init_process_group(backend, rank=rank, world_size=size, timeout=timeout, **options)
        result = function(rank, size, *arguments)
    except BaseException:  # noqa: B902: a KeyboardInterrupt too
        result = Failed(traceback.format_exc())
    pipe.send(result)
    kolo_torch.groups.leave()  # multiprocessing runs no atexit functions


def run(size, function, *arguments, **options):
    """The results of all ranks; fails if a rank has."""
    ranks = Ranks(size, function, *arguments, **options)
    results = ranks.join()
    failures = [f"rank {rank} of {size}: {result}" for rank, result in enumerate(results) if isinstance(result, Failed)]
    assert not failures, "\n".join(failures)
    assert ranks.exit_codes == [0] * size, ranks.exit_codes
    return results
