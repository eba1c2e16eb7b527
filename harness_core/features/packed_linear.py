"""Linear layers whose weights lie as oneDNN wants them: the same numbers in less time.

torch hands products of single precision to MKL, which is at half its speed or less on processors
that are not Intel's. oneDNN is not, and a weight that never changes need be laid out only once.
"""

from typing import Any, Final

import torch
from torch import Tensor, nn

_OPS: Final = torch.ops.mkldnn


class PackedLinear(nn.Module):
    """x · Wᵀ + b, for inference on the CPU in single precision."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._weight = _OPS._reorder_linear_weight(linear.weight.detach(), None)
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, rows: Tensor) -> Tensor:
        """[…, n_in] to […, n_out]."""
        result: Tensor = _OPS._linear_pointwise(rows, self._weight, self._bias, "none", [], "")
        return result


def _works() -> bool:
    """Whether this build of torch has the two operations, which are not part of its promises."""
    layer = nn.Linear(2, 3)
    rows = torch.ones(1, 2)
    try:
        return torch.allclose(PackedLinear(layer)(rows), layer(rows), atol=1e-6)
    except (AttributeError, RuntimeError, TypeError):
        return False


def pack_linear_layers(model: nn.Module) -> Any:
    """The model with its linear layers replaced in place; as it was where torch has no oneDNN."""
    if not _works():
        return model
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, PackedLinear(child))
    return model
