"""Behaviour cloning: Q as the energy of the behaviour policy, blind to every reward."""

import torch
from torch import Tensor

from harness_core.learners.batches import Batch, GroupBatch, TransitionBatch
from harness_core.learners.config import TrainConfig
from harness_core.learners.losses import info_nce_loss
from harness_core.learners.mc import MonteCarlo
from harness_core.learners.networks import CriticNetwork


class BehaviourCloning:
    """L_Q = −log of the share of exp ΣQ that the action taken has among its alternatives.

    Alternatives are the other candidates of the state where they were logged, and actions of other
    states of the batch. Sums of Q order actions by how likely the agent takes them; they are no
    rewards. V is the value of the behaviour policy, as in `mc`.
    """

    def value_loss(
        self,
        network: CriticNetwork,
        target_q: Tensor,
        batch: TransitionBatch,
        config: TrainConfig,
    ) -> Tensor:
        """Huber regression of V on the returns, as in `mc`."""
        return MonteCarlo().value_loss(network, target_q, batch, config)

    def critic_loss(self, network: CriticNetwork, batch: Batch, config: TrainConfig) -> Tensor:
        """Cross-entropy of the action taken among its alternatives."""
        return _imitation_loss(network, batch, dropout=config.dropout)

    def validation_loss(
        self,
        network: CriticNetwork,
        batch: Batch,
        config: TrainConfig,  # noqa: ARG002  # part of the interface
    ) -> Tensor:
        """Cross-entropy of the action taken among its alternatives."""
        return _imitation_loss(network, batch, dropout=0.0)


def _imitation_loss(network: CriticNetwork, batch: Batch, *, dropout: float) -> Tensor:
    rows = batch.transitions
    negative = rows.negative
    n_rows, n_negatives = negative.shape
    # In units of the spread of returns, or the energies would start out far too sharp.
    unit = network.total_scale()
    taken = network.energy_of(rows.pair, dropout=dropout) / unit
    states = rows.state.repeat_interleave(n_negatives, dim=0)
    pairs = torch.cat([states, rows.action[negative.flatten()]], dim=1)
    others = network.energy_of(pairs, dropout=dropout).reshape(-1, n_rows, n_negatives)
    others = others / unit
    loss = torch.stack([info_nce_loss(t, o) for t, o in zip(taken, others, strict=True)]).mean()
    if batch.steps is not None:
        loss = loss + _group_loss(network, batch.steps, dropout=dropout)
    return loss


def _group_loss(network: CriticNetwork, group: GroupBatch, *, dropout: float) -> Tensor:
    """Cross-entropy of the candidate taken among all candidates of its state."""
    layout = group.layout
    energy = network.energy_of(group.pair, dropout=dropout) / network.total_scale()
    taken = layout.pad(group.taken)
    has_taken = taken.sum(dim=1) == 1
    mask = layout.valid & ~taken
    total = energy.new_zeros(())
    for member in energy:
        padded = layout.pad(member)
        positive = (padded * taken).sum(dim=1)
        total = total + info_nce_loss(
            positive[has_taken], padded[has_taken], mask[has_taken]
        ) * bool(has_taken.any())
    return total / len(energy)
