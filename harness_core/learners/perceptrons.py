"""Perceptrons of one shape side by side, and how a processor computes them.

On a processor a whole perceptron is one node of the graph: its products go through oneDNN where
torch has it (`torch.backends.mkldnn`), which is twice as fast as the BLAS of torch on some
processors and as fast on others, and only what the backward pass needs is kept. On a GPU the layers
are batched products, so that mixed precision applies.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

_SMALLEST: Final = 16
"""Products with a shorter side are not worth what oneDNN prepares."""
_LEVELS: Final = 1 << 16
"""Steps in which the chance of dropping is counted on a processor."""


class StackedMlp(nn.Module):
    """M perceptrons of one shape, evaluated side by side: [B, D] → [M, B, O].

    The last layer starts at zero, so training starts from the mean that the output is shifted to.
    """

    def __init__(
        self, n_members: int, sizes: Sequence[int], *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
            bound = 0.0 if layer == len(sizes) - 2 else (1.0 / max(n_in, 1)) ** 0.5
            weight = torch.empty(n_members, n_in, n_out).uniform_(-1.0, 1.0, generator=generator)
            self.weights.append(nn.Parameter(weight * bound * 3**0.5))
            self.biases.append(nn.Parameter(torch.zeros(n_members, 1, n_out)))

    def forward(self, inputs: Tensor, *, dropout: float = 0.0) -> Tensor:
        """Outputs [M, B, O] of inputs [B, D]."""
        on_processor = inputs.device.type == "cpu" and inputs.dtype == torch.float32
        # A handful of rows that nothing is learnt from: oneDNN would not be asked anyway.
        is_little = len(inputs) < _SMALLEST and not torch.is_grad_enabled()
        if on_processor and not is_little:
            return _OnProcessor.apply(inputs, dropout, *self.weights, *self.biases)  # type: ignore[no-any-return, no-untyped-call]  # stubs of torch
        return self.batched(inputs, dropout=dropout)

    def batched(self, inputs: Tensor, *, dropout: float = 0.0) -> Tensor:
        """The same by batched products, on any device."""
        hidden = inputs.expand(self.weights[0].shape[0], *inputs.shape)
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.baddbmm(bias, hidden, weight)
            if layer < last:
                hidden = functional.dropout(functional.relu(hidden), dropout, training=dropout > 0)
        return hidden


class _OnProcessor(torch.autograd.Function):
    """`StackedMlp.batched` as one node; arguments: inputs, dropout, weights, biases."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, dropout: float, *parameters: Tensor) -> Tensor:
        n_layers = len(parameters) // 2
        weights, biases = parameters[:n_layers], parameters[n_layers:]
        n_rows = len(inputs)
        inputs = functional.pad(inputs, (0, 0, 0, _n_padded(n_rows) - n_rows)).contiguous()
        outputs: list[Tensor] = []
        kept: list[Tensor] = []
        for layers in _members(weights, [bias[:, 0] for bias in biases]):
            hidden = inputs
            for weight, bias in layers[:-1]:
                hidden = _layer(hidden, weight, bias)
                if dropout:
                    hidden = hidden.mul_(_kept(hidden.shape, dropout))
                kept.append(hidden)
            weight, bias = layers[-1]
            outputs.append(torch.addmm(bias, hidden, weight))
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(inputs, *kept, *weights)
            ctx.n_layers, ctx.dropout = n_layers, dropout
        return _stacked(outputs)[:, :n_rows]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        n_layers = ctx.n_layers
        inputs, *saved = ctx.saved_tensors
        kept, weights = saved[:-n_layers], saved[-n_layers:]
        of_members = zip(*(weight.unbind() for weight in weights), strict=True)
        to_inputs = torch.zeros_like(inputs) if ctx.needs_input_grad[0] else None
        to_weights: list[list[Tensor]] = [[] for _ in weights]
        to_biases: list[list[Tensor]] = [[] for _ in weights]
        n_rows = gradients[0].shape[1]
        padded = functional.pad(gradients[0], (0, 0, 0, len(inputs) - n_rows)).contiguous()
        pairs = zip(padded.unbind(), of_members, strict=True)
        columns = inputs.t().contiguous()  # as a product would make it of them for every member
        for member, (gradient, own) in enumerate(pairs):
            hidden = (inputs, *kept[member * (n_layers - 1) : (member + 1) * (n_layers - 1)])
            for layer in reversed(range(n_layers)):
                below = hidden[layer].t() if layer else columns
                to_weights[layer].append(_product(below, gradient))
                to_biases[layer].append(gradient.sum(dim=0, keepdim=True))
                if layer or to_inputs is not None:
                    gradient = _product(gradient, own[layer].t())  # noqa: PLW2901  # it goes down the layers
                if layer:
                    # What was dropped is 0 there, as is what the rectifier held back.
                    gradient = _where_positive(gradient, hidden[layer], ctx.dropout)  # noqa: PLW2901  # as above
            if to_inputs is not None:
                to_inputs += gradient
        to_rows = None if to_inputs is None else to_inputs[:n_rows]
        return to_rows, None, *(_stacked(parts) for parts in (*to_weights, *to_biases))


def _n_padded(n_rows: int) -> int:
    """Rows and the zeros put behind them, at most one in sixteen where there are many.

    Numbers of rows differ from batch to batch, and oneDNN makes code for each that it meets.
    """
    if n_rows < _SMALLEST:
        return n_rows
    step = max(_SMALLEST, 1 << (n_rows.bit_length() - 5))
    return -(-n_rows // step) * step


def _members(
    weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> list[list[tuple[Tensor, Tensor]]]:
    """Weight and bias of each layer, for each member."""
    by_layer = [
        list(zip(weight.unbind(), bias.unbind(), strict=True))
        for weight, bias in zip(weights, biases, strict=True)
    ]
    return [list(layers) for layers in zip(*by_layer, strict=True)]


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    return parts[0][None] if len(parts) == 1 else torch.stack(list(parts))


def _layer(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """max(0, inputs · weight + bias)."""
    if _goes_through_onednn(inputs, weight):
        result: Tensor = _ONEDNN(inputs, weight.t(), bias, "relu", [], "")
        return result
    return torch.addmm(bias, inputs, weight).relu_()


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Left · right; the right one must be dense, or oneDNN takes a thousand times as long."""
    if _goes_through_onednn(left, right):
        result: Tensor = _ONEDNN(left, right.t(), None, "none", [], "")
        return result
    return torch.mm(left, right)


def _goes_through_onednn(left: Tensor, right: Tensor) -> bool:
    return bool(
        _ONEDNN is not None
        and min(*left.shape, right.shape[1]) >= _SMALLEST
        and torch.backends.mkldnn.enabled
    )


def _kept(shape: Sequence[int], dropout: float) -> Tensor:
    """0 where a number is dropped, 1 / (share kept) elsewhere.

    Sixteen random bits a number: torch itself draws masks one number after another, in five times
    the time.
    """
    n = prod(shape)
    bits = torch.empty((n + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    n_kept = _n_kept(dropout)
    mask = bits.view(torch.int16)[:n].view(*shape) < n_kept - _LEVELS // 2
    return mask.to(torch.float32).mul_(_LEVELS / n_kept)


def _n_kept(dropout: float) -> int:
    return round((1.0 - dropout) * _LEVELS)


def _where_positive(gradient: Tensor, hidden: Tensor, dropout: float) -> Tensor:
    passed: Tensor = torch.ops.aten.threshold_backward(gradient, hidden, 0.0)
    return passed.mul_(_LEVELS / _n_kept(dropout)) if dropout else passed


def _onednn() -> Any:
    """A layer and its rectifier as oneDNN computes them; compiled models of torch consist of it."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]  # stubs of torch
        return None
    operator = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    return None if operator is None else operator.default


_ONEDNN: Final = _onednn()
