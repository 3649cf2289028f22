"""The backend "kolo" of torch.distributed: init_process_group("kolo"), before PyTorch 2.5 after `import kolo_torch`.

Thread safety, timeouts and errors are those of torch.distributed; errors have kolo's text.
"""
import torch

from ._built_for import PYTORCH, VERSION

# A backend's virtual functions change with each minor version of PyTorch.
if torch.__version__.split(".")[:2] != PYTORCH.split(".")[:2]:
    raise ImportError(
        f"kolo_torch {VERSION} was built for PyTorch {PYTORCH}, and this is PyTorch {torch.__version__}. In kolo's sources, this builds it "
        "for this one: pip install --no-build-isolation --force-reinstall --no-deps ./bindings/torch [K852]")

from kolo_torch_entry import register  # noqa: E402

from . import ops  # noqa: E402, F401: makes torch.ops.kolo quick
from ._native import Options  # noqa: E402
from .groups import abort, create_backend, monitored_barrier, name_of, set_timeout  # noqa: E402
from .memory import is_shared, shared_memory, use_shared_memory  # noqa: E402

__version__ = VERSION
__all__ = ["Options", "create_backend", "abort", "monitored_barrier", "name_of", "set_timeout", "shared_memory", "use_shared_memory",
           "is_shared"]

register()
