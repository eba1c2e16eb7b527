"""The interface of a learner: which losses train V and Q. Everything else is common to all."""

from typing import Protocol

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
    layout = batch.layout
    next_value = network.value(batch.next_state).detach()
    returns = lambda_returns(
        layout.pad(batch.rewards),
        layout.pad(batch.discount),
        layout.pad(next_value),
        layout.valid,
        return_lambda=return_lambda,
    )
    return layout.flatten(returns)
