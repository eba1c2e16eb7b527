"""AdamW (Loshchilov & Hutter, 2019) in one call a group of weights.

What torch does around its own fused step (hooks, grouping by device, checks of captured graphs)
takes longer than the step where networks are small, so it is called directly. State and settings
are torch's, and so is what a checkpoint holds.
"""

from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW


class Descent(AdamW):
    """AdamW whose weights have one type and lie on one device."""

    def descend(self, loss: Tensor) -> None:
        """One step against the gradient of a loss; a weight without a gradient stays as it is."""
        for group in self.param_groups:
            for weight in group["params"]:
                weight.grad = None
        loss.backward()  # type: ignore[no-untyped-call]  # stubs of torch
        with torch.no_grad():
            for group in self.param_groups:
                self._move(group)

    def _move(self, group: dict[str, Any]) -> None:
        params: list[Tensor] = []
        gradients: list[Tensor] = []
        for weight in group["params"]:
            if weight.grad is not None:
                params.append(weight)
                gradients.append(weight.grad)
        if not params:
            return
        states = [self.state[weight] or self._start(weight) for weight in params]
        steps = [state["step"] for state in states]
        torch._foreach_add_(steps, 1)
        beta1, beta2 = group["betas"]
        torch._fused_adamw_(
            params,
            gradients,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            steps,
            amsgrad=False,
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
            grad_scale=None,
            found_inf=None,
        )

    def _start(self, weight: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[weight]
        state["step"] = torch.zeros((), dtype=torch.float32, device=weight.device)
        state["exp_avg"] = torch.zeros_like(weight)
        state["exp_avg_sq"] = torch.zeros_like(weight)
        return state
