"""What `import torch` calls (entry points of kolo-torch): the backend "kolo" is known, and libkolo is not loaded before its first group."""
import functools
import os
import re
import sys
import warnings


def register():
    """Makes "kolo" known to torch.distributed, and with KOLO_TORCH_AS_GLOO=1 lets it serve the name "gloo" too.

    Harmless when repeated. Never raises, since that would break `import torch`.
    """
    try:
        import torch.distributed

        if torch.distributed.is_available():
            _register(torch.distributed)
    except Exception as error:
        warnings.warn(f"kolo_torch: torch.distributed will not know the backend \"kolo\": {error!r}")


def _register(dist):
    if "KOLO" not in dist.Backend._plugins:
        devices = {"devices": ["cpu", "cuda"]} if hasattr(dist.Backend, "backend_capability") else {}  # from 2.0 on
        dist.Backend.register_backend("kolo", _create, extended_api=True, **devices)
    if os.environ.get("KOLO_TORCH_AS_GLOO") == "1" and not hasattr(dist.distributed_c10d._new_process_group_helper, "__wrapped__"):
        _serve_gloo(dist, dist.distributed_c10d)


    if not hasattr(dist.ProcessGroup, "shutdown") and not hasattr(dist.destroy_process_group, "__wrapped__"):
        _end_groups(dist, dist.distributed_c10d)


def _create(group, options):
    from kolo_torch.groups import create_from_torch

    return create_from_torch(group, options)


def _end_groups(dist, c10d):
    """PyTorch before 2.7 tells a backend nothing of destroy_process_group(), and threads that wait keep it alive."""
    destroy = c10d.destroy_process_group

    @functools.wraps(destroy)
    def destroy_process_group(group=None):
        kolo = sys.modules.get("kolo_torch.groups") if dist.is_initialized() else None  # not loaded: there are none of its groups
        found = kolo.backends(None if group is None or group == dist.group.WORLD else group) if kolo else []
        destroy(group)
        for backend in found:
            kolo._native.shutdown(backend)

    dist.destroy_process_group = c10d.destroy_process_group = destroy_process_group


def _serve_gloo(dist, c10d):
    """Groups of the name "gloo" are kolo's. They keep the name, which libraries ask for.

    The type of such a group is CUSTOM: what PyTorch takes to be of type GLOO it casts to Gloo's class.
    """
    make = c10d._new_process_group_helper

    @functools.wraps(make)
    def make_group(size, rank, ranks, backend, *more, **options):
        asked = str(backend).lower()
        if asked == "undefined":  # from 2.0 on: the defaults of each type of device
            asked = str(c10d.BackendConfig(backend)).lower()
        ours = re.sub(r"\bgloo\b", "kolo", asked)
        if ours == asked:
            return make(size, rank, ranks, backend, *more, **options)
        made = make(size, rank, ranks, ours, *more, **options)
        group = made[0] if isinstance(made, tuple) else made
        tables = getattr(c10d, "_world", c10d)  # of 2.0 and later, of 1.13
        named = tables.pg_map if hasattr(tables, "pg_map") else tables._pg_map
        if group in named:
            named[group] = (dist.Backend(str(backend)), named[group][1])
            if hasattr(tables, "pg_backend_config"):
                tables.pg_backend_config[group] = re.sub(r"\bkolo\b", "gloo", tables.pg_backend_config[group])
        return made

    c10d._new_process_group_helper = make_group

    class ProcessGroupGloo(dist.ProcessGroupGloo):
        """For libraries that make one by themselves: a backend of kolo's. torch.distributed.distributed_c10d keeps Gloo's."""

        def __new__(cls, store, rank, size, timeout=None):
            from kolo_torch.groups import DEFAULT_TIMEOUT, create_backend

            if sys._getframe(1).f_globals.get("__name__", "").startswith("torch.distributed.rpc"):
                return c10d.ProcessGroupGloo(store, rank, size, timeout)  # init_rpc() gives it to functions that check its type
            return create_backend(store, rank, size, getattr(timeout, "_timeout", timeout) or DEFAULT_TIMEOUT)

    dist.ProcessGroupGloo = ProcessGroupGloo
