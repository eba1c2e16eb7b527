"""Implicit Q-learning (Kostrikov et al., 2021) with λ-returns as targets of Q."""

from torch import Tensor

from harness_core.learners.batches import Batch, TransitionBatch
from harness_core.learners.config import TrainConfig
from harness_core.learners.learner import return_targets
from harness_core.learners.losses import expectile_loss, huber_td_loss
from harness_core.learners.networks import CriticNetwork


class Iql:
    """V by expectile regression, Q by λ-returns.

    L_V = |τ − 1(Q̂ − V < 0)| · (Q̂ − V)², Q̂ the smaller of the target twins (eq. 5);
    L_Q = Huber(Q − G^λ), G^λ on the new V (eq. 6 with a λ-return in place of r + γ V).

    With λ = 1 and expectile 0.5 this is Monte-Carlo evaluation of the behaviour policy. Residuals
    are taken in units of each component's spread, so that no component drowns another.
    """

    def value_loss(
        self,
        network: CriticNetwork,
        target_q: Tensor,
        batch: TransitionBatch,
        config: TrainConfig,
    ) -> Tensor:
        """Expectile regression of V on the target Q."""
        value = network.value_of(batch.state, dropout=config.dropout)
        residual = network.in_units_of_scale(target_q - value)
        return expectile_loss(residual, config.iql.expectile, batch.mask)

    def critic_loss(self, network: CriticNetwork, batch: Batch, config: TrainConfig) -> Tensor:
        """Huber regression of both twins on λ-returns of the new V."""
        rows = batch.transitions
        returns = return_targets(network, rows, return_lambda=config.iql.return_lambda)
        q = network.q_of(rows.pair, dropout=config.dropout)
        return huber_td_loss(
            network.in_units_of_scale(q),
            network.in_units_of_scale(returns),
            delta=config.iql.huber_delta,
            mask=rows.mask,
        )

    def validation_loss(self, network: CriticNetwork, batch: Batch, config: TrainConfig) -> Tensor:
        """Distance of Q to what happened; V as a target would reward standing still."""
        rows = batch.transitions
        returns = return_targets(network, rows, return_lambda=1.0)
        return huber_td_loss(
            network.in_units_of_scale(network.q_of(rows.pair)),
            network.in_units_of_scale(returns),
            delta=config.iql.huber_delta,
            mask=rows.mask,
        )
