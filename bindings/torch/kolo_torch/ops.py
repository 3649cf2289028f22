"""torch.ops.kolo: collectives that block, by the name of a group (name_of()), with gradients, also in torch.compile."""
import torch

from . import _native

_packet = torch.ops.kolo.all_reduce_


class _Quick(type(_packet)):
    """The operator, whose calls with plain tensors spare PyTorch's dispatcher: it takes longer than a sum of 4 KiB."""

    __call__ = _native.quick_all_reduce(_packet._op)


_packet.__class__ = _Quick
