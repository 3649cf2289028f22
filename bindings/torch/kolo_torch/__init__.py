"""The backend "kolo" of torch.distributed: import this, then init_process_group("kolo").

Thread safety, timeouts and errors are those of torch.distributed; errors have kolo's text.
"""
import atexit
import functools
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from ._built_for import PYTORCH, VERSION

__version__ = VERSION
__all__ = ["create_backend", "abort", "monitored_barrier", "set_timeout"]
_DEFAULT_TIMEOUT = timedelta(minutes=30)

# A backend's virtual functions change with each minor version of PyTorch.
if torch.__version__.split(".")[:2] != PYTORCH.split(".")[:2]:
    raise ImportError(f"kolo_torch {VERSION} was built for PyTorch {PYTORCH}, and this is PyTorch {torch.__version__}: "
                      "build it again for this one (-D KOLO_TORCH=ON)")
from . import _native  # noqa: E402


def create_backend(store, rank, size, timeout=_DEFAULT_TIMEOUT):
    """Makes a backend without init_process_group(): rank `rank` of `size` that meet in `store`, any store of torch.distributed.

    Blocks until all ranks have come. `timeout`: the longest time without any progress in a call.
    """
    has_key = any(os.environ.get(name) for name in ("KOLO_KEY", "KOLO_KEY_FILE"))
    return _native.create_backend(store, rank, size, timeout, has_key)


def _backends(group):
    """kolo's backends of a process group; all groups if it is None."""
    groups = [group] if group is not None else list(_group_map())
    groups = [one for one in groups if one != dist.GroupMember.NON_GROUP_MEMBER]
    found = []
    for one in groups:
        if hasattr(one, "_get_backend"):  # from 2.0 on a group has a backend for each type of device
            try:
                one = one._get_backend(torch.device("cpu"))
            except RuntimeError:
                continue
        if _native.is_kolo(one):
            found.append(one)
    return found


def _group_map():
    world = getattr(distributed_c10d, "_world", None)
    return world.pg_map if hasattr(world, "pg_map") else distributed_c10d._pg_map


def abort(group=None):
    """Ends the calls of all ranks on `group`, or on all groups, with an error: those that other threads wait for too."""
    for backend in _backends(group):
        _native.abort(backend)


def set_timeout(timeout, group=None):
    """The longest time without any progress in calls that begin from now on."""
    for backend in _backends(group or dist.group.WORLD):
        _native.set_timeout(backend, timeout)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """dist.monitored_barrier(), which Python refuses to other backends than gloo before 2.11: an error names ranks that are missing."""
    for backend in _backends(group or dist.group.WORLD):
        backend.monitored_barrier(timeout or timedelta(0), wait_all_ranks)


def _destroys(destroy):
    @functools.wraps(destroy)
    def destroy_process_group(group=None):
        is_all = group is None or group == dist.group.WORLD
        backends = _backends(None if is_all else group) if dist.is_initialized() else []
        destroy(group)
        for backend in backends:
            _native.shutdown(backend)

    return destroy_process_group


# PyTorch tells a backend nothing of destroy_process_group(), and threads that wait keep it alive.
if not getattr(dist.destroy_process_group, "__wrapped__", None):
    dist.destroy_process_group = distributed_c10d.destroy_process_group = _destroys(distributed_c10d.destroy_process_group)


def _leave():
    _native.shutdown_all(getattr(sys, "last_type", None) is None)


atexit.register(_leave)

if not hasattr(dist.Backend, "KOLO"):
    _more = {} if torch.__version__.startswith("1.") else {"devices": ["cpu"]}
    dist.Backend.register_backend("kolo", create_backend, **_more)
