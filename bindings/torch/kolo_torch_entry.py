"""What `import torch` calls (entry points of kolo-torch): the backend "kolo" is known, and libkolo is not loaded before its first group."""
import warnings


def register():
    """Makes "kolo" known to torch.distributed. Harmless when repeated. Never raises, since that would break `import torch`."""
    try:
        import torch.distributed

        if torch.distributed.is_available():
            _register(torch.distributed.Backend)
    except Exception as error:
        warnings.warn(f"kolo_torch: torch.distributed will not know the backend \"kolo\": {error}")


def _register(backends):
    if "KOLO" in backends._plugins:
        return
    devices = {"devices": ["cpu"]} if hasattr(backends, "backend_capability") else {}  # from 2.0 on
    backends.register_backend("kolo", _create, **devices)


def _create(store, rank, size, timeout):
    from kolo_torch import create_backend

    return create_backend(store, rank, size, timeout)
