"""The actor: which intervention is taken in a state, among those that are legal there.

Three ways to learn it from logs, told apart by how a logged step weighs in the log-likelihood:

- `awr`: exp(β · (Q − V)), of the critic (Peng et al., 2019; Kostrikov et al., 2021, eq. 7);
- `awr_returns`: clip(exp(A / 0.2), 0.1, 10), where A is the return of the run minus the mean of
  its task's runs (Yi & Song, 2026);
- `bc`: 1, behaviour cloning.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from harness_core.features.batch import UNKNOWN_INTERVENTION
from harness_core.learners.batches import TransitionBatch
from harness_core.learners.config import TrainConfig
from harness_core.learners.learner import value_of_states
from harness_core.learners.losses import awr_weights, masked_mean
from harness_core.learners.networks import CriticNetwork

_TEMPERATURE: Final = 0.2
_MIN_WEIGHT, _MAX_WEIGHT = 0.1, 10.0

Weights = Callable[[CriticNetwork, TransitionBatch, Tensor, TrainConfig], Tensor]
"""Weight [N] of each logged step, without gradient; `target_q` [N, C] is the third argument."""


def return_weights(advantage: Tensor) -> Tensor:
    """clip(exp(A / 0.2), 0.1, 10), [N] (Yi & Song, 2026)."""
    return (advantage / _TEMPERATURE).exp().clamp(_MIN_WEIGHT, _MAX_WEIGHT)


def cloning_loss(log_probability: Tensor, weight: Tensor, known: Tensor) -> Tensor:
    """Mean of −weight · log π(a | s) over the steps whose intervention is known, all three [N]."""
    return -masked_mean(weight.detach() * log_probability, known)


def actor_loss(
    network: CriticNetwork, batch: TransitionBatch, target_q: Tensor, config: TrainConfig
) -> Tensor:
    """Weighted log-likelihood of the logged interventions, by the way that `train.actor` names."""
    weight = _WEIGHTS[config.actor](network, batch, target_q, config)
    log_policy = network.policy_of(batch.state, batch.legal, dropout=config.dropout)
    known = batch.intervention >= 0
    taken = -functional.nll_loss(
        log_policy, batch.intervention, ignore_index=UNKNOWN_INTERVENTION, reduction="none"
    )
    return cloning_loss(taken, weight, known)


@torch.no_grad()
def _critic_weights(
    network: CriticNetwork, batch: TransitionBatch, target_q: Tensor, config: TrainConfig
) -> Tensor:
    difference = (target_q - value_of_states(network, batch)) * batch.mask
    advantage = network.total(difference) / network.total_scale()
    return awr_weights(advantage, config.iql.inverse_temperature)


def _return_weights(
    network: CriticNetwork,  # noqa: ARG001  # part of the interface
    batch: TransitionBatch,
    target_q: Tensor,  # noqa: ARG001  # part of the interface
    config: TrainConfig,  # noqa: ARG001  # part of the interface
) -> Tensor:
    return return_weights(batch.return_advantage)


def _equal_weights(
    network: CriticNetwork,  # noqa: ARG001  # part of the interface
    batch: TransitionBatch,
    target_q: Tensor,  # noqa: ARG001  # part of the interface
    config: TrainConfig,  # noqa: ARG001  # part of the interface
) -> Tensor:
    return torch.ones_like(batch.return_advantage)


_WEIGHTS: Final[Mapping[str, Weights]] = MappingProxyType(
    {"awr": _critic_weights, "awr_returns": _return_weights, "bc": _equal_weights}
)
