"""How a network does on tasks that it does not learn from, and which moment of training is kept.

The terminal head and the critic share no weight, so each is kept at its own best check.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from harness_core.features.batch import Integers
from harness_core.learners.batches import Batch, GroupBatch
from harness_core.learners.config import TrainConfig
from harness_core.learners.data import TrainingData
from harness_core.learners.learner import Learner
from harness_core.learners.module import terminal_loss
from harness_core.learners.networks import CriticNetwork

PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "terminal": ("terminal_mlp",),
    "critic": ("q_mlp", "value_mlp", "actor_mlp"),
}
"""Part of the network that is kept as one → its modules."""

_MAX_PIECES: Final = 2048
_MAX_SUBSETS: Final = 512


class Check(NamedTuple):
    """One look at the validation tasks; NaN where they have nothing to look at."""

    update: int
    terminal_loss: float
    terminal_auc: float
    """Mean AUC within subsets of attempts that hold both outcomes."""
    critic_loss: float


def validation_batch(data: TrainingData, *, seed: int) -> Batch:
    """A fixed batch with (up to a bound) everything there is."""
    rng = np.random.default_rng(seed)
    pieces = _thin(np.arange(len(data.transitions.start)), _MAX_PIECES)
    return Batch(
        transitions=data.transitions.batch(pieces, rng),
        attempts=None
        if data.attempts is None
        else data.attempts.batch(_thin(data.attempts.subsets(), _MAX_SUBSETS)),
        steps=None
        if data.steps is None
        else data.steps.batch(_thin(data.steps.subsets(), _MAX_SUBSETS)),
    )


@torch.no_grad()
def check(
    network: CriticNetwork, learner: Learner, batch: Batch, config: TrainConfig, *, update: int
) -> Check:
    """Losses and AUC on one batch in standard deviations."""
    loss = auc = critic = float("nan")
    if batch.attempts is not None and bool(batch.attempts.known.any()):
        loss = float(terminal_loss(network, batch.attempts, config, dropout=0.0))
        auc = group_auc(network, batch.attempts)
    if len(batch.transitions.pair):
        critic = float(learner.validation_loss(network, batch, config))
    return Check(update=update, terminal_loss=loss, terminal_auc=auc, critic_loss=critic)


def group_auc(network: CriticNetwork, batch: GroupBatch) -> float:
    """Share of (better, worse) pairs in the right order, mean over subsets; ties count half."""
    scores = network.terminal_of(batch.pair).mean(dim=0)
    layout = batch.layout
    score, label, known = (layout.pad(x) for x in (scores, batch.label, batch.known))
    is_pair = (label[:, :, None] > label[:, None, :]) & known[:, :, None] & known[:, None, :]
    right = (score[:, :, None] > score[:, None, :]).float()
    right += 0.5 * (score[:, :, None] == score[:, None, :])
    n_pairs = is_pair.sum(dim=(1, 2))
    mixed = n_pairs > 0
    return float(((right * is_pair).sum(dim=(1, 2))[mixed] / n_pairs[mixed]).mean())


def part_weights(network: CriticNetwork, part: str) -> dict[str, Tensor]:
    """A copy of the weights of one part."""
    return {
        name: weight.detach().clone()
        for name, weight in network.state_dict().items()
        if name.split(".")[0] in PARTS[part]
    }


def _thin(index: Integers, limit: int) -> Integers:
    """At most `limit` of the entries, evenly spread."""
    return (
        index if len(index) <= limit else index[np.linspace(0, len(index) - 1, limit).astype(int)]
    )
