"""What `import torch` calls (entry points of kolo-torch): the backend "kolo" is known, and libkolo is not loaded before its first group."""
import warnings


def register():
    """Makes "kolo" known to torch.distributed. Harmless when repeated. Never raises, since that would break `import torch`."""
    try:
        import torch.distributed

        if torch.distributed.is_available():
            _register(torch.distributed)
    except Exception as error:
        warnings.warn(f"kolo_torch: torch.distributed will not know the backend \"kolo\": {error!r}")


def _register(dist):
    if "KOLO" not in dist.Backend._plugins:
        devices = {"devices": ["cpu"]} if hasattr(dist.Backend, "backend_capability") else {}  # from 2.0 on
        dist.Backend.register_backend("kolo", _create, extended_api=True, **devices)


def _create(group, options):
    from kolo_torch.groups import create_from_torch

    return create_from_torch(group, options)
