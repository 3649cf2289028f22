"""Tensors in memory that the ranks of a host share: collectives read them there, without a copy."""
import contextlib

import torch.distributed as dist

from . import _native
from .groups import backends


@contextlib.contextmanager
def shared_memory():
    """Tensors of the CPU, of 64 KiB and more, that this thread makes meanwhile lie in shared memory. They are ordinary ones."""
    _native.share_in_this_thread(True)
    try:
        yield
    finally:
        _native.share_in_this_thread(False)


def use_shared_memory(enabled=True):
    """The same from now on, for all threads. Up to 1 GiB of freed memory stays with the process, for later tensors."""
    _native.share_in_all_threads(enabled)


def is_shared(tensor):
    """Whether all of a tensor's elements lie in shared memory of kolo's."""
    return _native.is_shared(tensor)


def _sharing(group):
    sharing = any(_native.shares_host(backend) for backend in backends(group))
    return shared_memory() if sharing else contextlib.nullcontext()


class _Reducer(dist.Reducer):
    """DistributedDataParallel's, whose buckets lie in shared memory if ranks of its group share a host."""

    def __init__(self, *arguments, **options):
        self._group = options.get("process_group", arguments[3] if len(arguments) > 3 else None)
        with _sharing(self._group):
            super().__init__(*arguments, **options)

    def _rebuild_buckets(self):
        with _sharing(self._group):
            return super()._rebuild_buckets()


if dist.Reducer.__name__ != _Reducer.__name__:
    dist.Reducer = _Reducer
