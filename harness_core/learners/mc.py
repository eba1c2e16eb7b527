"""Monte-Carlo return regression: Q and V of the behaviour policy, without bootstrapping."""

from torch import Tensor

from harness_core.learners.batches import Batch, TransitionBatch
from harness_core.learners.config import TrainConfig
from harness_core.learners.learner import return_targets
from harness_core.learners.losses import huber_td_loss
from harness_core.learners.networks import CriticNetwork


class MonteCarlo:
    """L_V = Huber(V − G), L_Q = Huber(Q − G), G = Σ γᵏ r_(t+k) (Sutton & Barto, 2018, §5.1).

    Only a truncated run bootstraps, once, on V of its last state.
    """

    def value_loss(
        self,
        network: CriticNetwork,
        target_q: Tensor,  # noqa: ARG002  # part of the interface; nothing to bootstrap from
        batch: TransitionBatch,
        config: TrainConfig,
    ) -> Tensor:
        """Huber regression of V on the returns."""
        return huber_td_loss(
            network.in_units_of_scale(network.value_of(batch.state, dropout=config.dropout)),
            network.in_units_of_scale(return_targets(network, batch, return_lambda=1.0)),
            delta=config.iql.huber_delta,
            mask=batch.mask,
        )

    def critic_loss(self, network: CriticNetwork, batch: Batch, config: TrainConfig) -> Tensor:
        """Huber regression of both twins on the returns."""
        return _q_loss(network, batch.transitions, config, dropout=config.dropout)

    def validation_loss(self, network: CriticNetwork, batch: Batch, config: TrainConfig) -> Tensor:
        """Distance of Q to what happened."""
        return _q_loss(network, batch.transitions, config, dropout=0.0)


def _q_loss(
    network: CriticNetwork, batch: TransitionBatch, config: TrainConfig, *, dropout: float
) -> Tensor:
    return huber_td_loss(
        network.in_units_of_scale(network.q_of(batch.pair, dropout=dropout)),
        network.in_units_of_scale(return_targets(network, batch, return_lambda=1.0)),
        delta=config.iql.huber_delta,
        mask=batch.mask,
    )
