"""The interface of a learner: which losses train V and Q. Everything else is common to all."""

from typing import Protocol

import torch
from torch import Tensor

from harness_core.learners.batches import Batch, TransitionBatch
from harness_core.learners.config import TrainConfig
from harness_core.learners.networks import CriticNetwork
from harness_core.learners.returns import lambda_returns


class Learner(Protocol):
    """Losses of V and Q, called in this order.

    `target_q` [N, C] is the smaller twin of the slow copy of Q, without gradient.
    """

    def value_loss(
        self,
        network: CriticNetwork,
        target_q: Tensor,
        batch: TransitionBatch,
        config: TrainConfig,
    ) -> Tensor:
        """What V's step minimises; gradients must reach V and nothing else needs them."""

    def critic_loss(self, network: CriticNetwork, batch: Batch, config: TrainConfig) -> Tensor:
        """What Q's step minimises; V in `network` is already the new one."""

    def validation_loss(self, network: CriticNetwork, batch: Batch, config: TrainConfig) -> Tensor:
        """How well Q fits data that it did not learn from; lower is better."""


def return_targets(
    network: CriticNetwork, batch: TransitionBatch, *, return_lambda: float
) -> Tensor:
    """λ-returns on the current V, without gradient, [N, C] in weighted-reward units."""
    return lambda_returns(
        batch.rewards,
        batch.discount,
        _next_value(network, batch, needs_all=return_lambda < 1),
        batch.continues,
        return_lambda=return_lambda,
        longest=batch.longest,
    )


@torch.no_grad()
def value_of_states(network: CriticNetwork, batch: TransitionBatch) -> Tensor:
    """V as it is now, without gradient, [N, C]; computed once where the batch carries it."""
    return network.value_of(batch.state) if batch.value is None else batch.value


@torch.no_grad()
def _next_value(network: CriticNetwork, batch: TransitionBatch, *, needs_all: bool) -> Tensor:
    """V after each row, [N, C]; Monte-Carlo returns need it only where a run was cut."""
    if needs_all:
        next_value = value_of_states(network, batch).roll(-1, dims=0)
    else:
        next_value = torch.zeros_like(batch.rewards)
    if len(batch.beyond):
        next_value[batch.before_beyond] = network.value_of(batch.beyond)
    return next_value
