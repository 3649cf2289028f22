"""Groups of kolo's: to make one without init_process_group(), and what torch.distributed has no function for."""
import atexit
import functools
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from . import _native

# PyTorch's flight recorder takes longer than a short call. Errors of kolo's name the call and the ranks that are missing, and a
# timeline has all calls. Where the recorder's size is set, it records kolo's calls too, as it does Gloo's.
if not any(os.environ.get(name) for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")):
    getattr(distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set()).add("kolo")

DEFAULT_TIMEOUT = timedelta(minutes=30)
_OPTIONS_OF_OTHERS = tuple(base.Options for base in (dist.ProcessGroup, getattr(torch._C._distributed_c10d, "Backend", None))
                           if hasattr(base, "Options"))


def create_backend(store, rank, size, timeout=DEFAULT_TIMEOUT, options=None, name="group", enable_reconfigure=False):
    """Makes a backend without init_process_group(): rank `rank` of `size` that meet in `store`, any store of torch.distributed.

    Blocks until all ranks have come. `timeout`: the longest time without any progress in a call. `options`: an Options, the same on
    all ranks. `name`: of the group, in its timelines. `enable_reconfigure`: returns at once; the ranks come with reconfigure()
    (PyTorch 2.15 and later).
    """
    has_key = any(os.environ.get(name) for name in ("KOLO_KEY", "KOLO_KEY_FILE"))
    if os.environ.get("KOLO_TLS") == "1" and not has_key:
        raise ValueError("KOLO_TLS=1 needs the job's key in KOLO_KEY or KOLO_KEY_FILE on all ranks: "
                         "a process that reaches the job's store could read one that comes through it [K501]")
    if not os.environ.get("KOLO_INTERFACE") and os.environ.get("GLOO_SOCKET_IFNAME"):
        os.environ["KOLO_INTERFACE"] = os.environ["GLOO_SOCKET_IFNAME"].split(",")[0]
    return _native.create_backend(store, rank, size, timeout, has_key, options, name, enable_reconfigure)


def create_from_torch(group, options):
    """What register_backend() calls. Options of another backend may be those of a group with a backend for each type of device."""
    if options is not None and not isinstance(options, (_native.Options, *_OPTIONS_OF_OTHERS)):
        raise TypeError(f"pg_options of the backend \"kolo\" are a kolo_torch.Options, and not a {type(options).__name__} [K852]")
    options = options if isinstance(options, _native.Options) else None
    return create_backend(group.store, group.group_rank, group.group_size, group.timeout, options, group.group_id,
                          getattr(group, "enable_reconfigure", False))


def abort(group=None):
    """Ends the calls of all ranks on `group`, or on all groups, with an error: those that other threads wait for too."""
    for backend in backends(group):
        _native.abort(backend)


def set_timeout(timeout, group=None):
    """The longest time without any progress in calls that begin from now on."""
    for backend in backends(group or dist.group.WORLD):
        _native.set_timeout(backend, timeout)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """dist.monitored_barrier(), which Python refuses to other backends than gloo before 2.11: an error names ranks that are missing."""
    for backend in backends(group or dist.group.WORLD):
        backend.monitored_barrier(timeout or timedelta(0), wait_all_ranks)


def name_of(group=None):
    """The name by which torch.ops.kolo finds a group: from 2.x on group.group_name."""
    group = group or dist.group.WORLD
    if hasattr(group, "group_name"):
        return group.group_name
    name = distributed_c10d._pg_names[group]
    for backend in backends(group):
        _native.name_group(name, backend)
    return name


def backends(group):
    """kolo's backends of a process group; all groups if it is None."""
    groups = [one for one in ([group] if group is not None else _group_map()) if one != dist.GroupMember.NON_GROUP_MEMBER]
    return list(dict.fromkeys(backend for one in groups for backend in _by_device(one) if _native.is_kolo(backend)))


def _by_device(group):
    if not hasattr(group, "_get_backend"):  # before 2.0 a group has one backend
        yield getattr(group, "wrapped_pg", group)  # TORCH_DISTRIBUTED_DEBUG=DETAIL
        return
    for device in group._device_types:
        try:
            backend = group._get_backend(device)
        except RuntimeError:
            continue
        yield getattr(backend, "wrapped_pg", backend)


def _group_map():
    world = getattr(distributed_c10d, "_world", None)
    return world.pg_map if hasattr(world, "pg_map") else distributed_c10d._pg_map


def _as_custom(create):
    @functools.wraps(create)
    def create_shrunk_process_group(backend, *rest):
        group = create(backend, *rest)
        if _native.is_kolo(backend):
            custom = dist.ProcessGroup.BackendType.CUSTOM
            for device in "cpu", "cuda":
                group._register_backend(torch.device(device), custom, backend)
            group._set_default_backend(custom)
        return group

    return create_shrunk_process_group


# shrink_group() takes all groups on the CPU for Gloo's, and DistributedDataParallel would use kolo's as that class.
if hasattr(distributed_c10d, "_create_shrunk_process_group"):
    distributed_c10d._create_shrunk_process_group = _as_custom(distributed_c10d._create_shrunk_process_group)


def leave():
    _native.shutdown_all(getattr(sys, "last_type", None) is None)


atexit.register(leave)
