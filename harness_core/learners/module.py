"""One update of all networks, as a Lightning module with manual optimisation.

Order: V; then, on the new V, Q together with actor and terminal head; then the target network
moves towards Q. Actor and terminal head have trunks of their own, so their gradients meet nothing
of Q's; the pairwise term of step groups is part of Q's loss. What several losses read is computed
once: rows in standard deviations, and the new V of the states.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Final

import lightning.pytorch as pl
import torch
from torch import Tensor, nn

from harness_core.errors import ModelError
from harness_core.learners.actor import actor_loss
from harness_core.learners.batches import Batch, GroupBatch, TransitionBatch
from harness_core.learners.config import TrainConfig
from harness_core.learners.descent import Descent
from harness_core.learners.learner import Learner, value_of_states
from harness_core.learners.losses import binary_cross_entropy, pairwise_logistic_loss
from harness_core.learners.networks import CriticNetwork

_SEED_STRIDE: Final = 1_000_003


class ControllerModule(pl.LightningModule):  # type: ignore[misc]  # Lightning is untyped here
    """Trains a `CriticNetwork` with a learner's losses; `n_updates` counts the updates done."""

    n_updates: Tensor

    def __init__(
        self, network: CriticNetwork, learner: Learner, config: TrainConfig, *, seed: int
    ) -> None:
        super().__init__()
        # Lightning's step counter counts optimiser steps, two an update: we keep our own.
        self.automatic_optimization = False
        self.network = network
        self.target = deepcopy(network.q_mlp).requires_grad_(requires_grad=False)
        self.register_buffer("n_updates", torch.zeros((), dtype=torch.int64))
        self._learner = learner
        self._config = config
        self._seed = seed

    def configure_optimizers(self) -> list[Descent]:
        """One optimiser for V, one for everything that learns after it."""
        network = self.network
        others = (network.q_mlp, network.actor_mlp, network.terminal_mlp)
        return [self._optimizer(network.value_mlp), self._optimizer(*others)]

    def training_step(self, batches: Iterator[Batch], batch_idx: int) -> None:  # noqa: ARG002  # Lightning's interface
        """One update a batch."""
        # Lightning's wrappers of optimisers count and scale, which nothing here needs.
        value_optimizer, optimizer = self.optimizers(use_pl_optimizer=False)
        for batch in batches:
            self.update(batch, value_optimizer, optimizer)

    def update(self, batch: Batch, value_optimizer: Descent, optimizer: Descent) -> None:
        """One update in the order that the module's docstring states."""
        config, network = self._config, self.network
        self._seed_dropout()
        batch = network.standardised(self._on_device(batch))
        rows = batch.transitions
        target_q = self._target_q(rows)
        value_optimizer.descend(self._learner.value_loss(network, target_q, rows, config))
        learns_actor = rows.n_known > 0
        if learns_actor and config.actor == "awr":
            rows = rows._replace(value=value_of_states(network, rows))
            batch = batch._replace(transitions=rows)
        loss = self._learner.critic_loss(network, batch, config)
        if learns_actor:
            loss = loss + actor_loss(network, rows, target_q, config)
        if batch.attempts is not None:
            loss = loss + terminal_loss(network, batch.attempts, config, dropout=config.dropout)
        if batch.steps is not None and config.pairwise_weight:
            loss = loss + config.pairwise_weight * step_loss(network, batch.steps, config)
        optimizer.descend(loss)
        self._move_target()
        self.n_updates += 1

    def check_finite(self) -> None:
        """Stop rather than save weights that are not numbers.

        Raises:
            ModelError: a weight is infinite or NaN.
        """
        for name, weight in self.network.state_dict().items():
            if not torch.isfinite(weight).all():
                raise ModelError(
                    f"training diverged: {name} is no longer finite after {int(self.n_updates)} "
                    "updates; lower train.learning_rate"
                )

    def _seed_dropout(self) -> None:
        """By (seed, update) alone, so that a resumed run repeats it."""
        seed = self._seed * _SEED_STRIDE + int(self.n_updates)
        # `torch.manual_seed` would queue a call (and a traceback) for every device there is not.
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _on_device(self, batch: Batch) -> Batch:
        if self.device.type == "cpu":
            return batch
        moved: Batch = self.transfer_batch_to_device(batch, self.device, 0)
        return moved

    @torch.no_grad()
    def _target_q(self, batch: TransitionBatch) -> Tensor:
        """The smaller target twin, [N, C]."""
        return self.network.q_of(batch.pair, mlp=self.target).amin(dim=0)

    @torch.no_grad()
    def _move_target(self) -> None:
        fast: list[Tensor] = list(self.network.q_mlp.parameters())
        slow: list[Tensor] = list(self.target.parameters())
        torch._foreach_lerp_(slow, fast, self._config.iql.polyak)

    def _optimizer(self, *networks: nn.Module) -> Descent:
        named = [item for network in networks for item in network.named_parameters()]
        weights = [parameter for name, parameter in named if "weights" in name]
        biases = [parameter for name, parameter in named if "weights" not in name]
        groups = [
            {"params": weights, "weight_decay": self._config.weight_decay},
            {"params": biases, "weight_decay": 0.0},
        ]
        return Descent(groups, lr=self._config.learning_rate, fused=True)


def terminal_loss(
    network: CriticNetwork, batch: GroupBatch, config: TrainConfig, *, dropout: float
) -> Tensor:
    """Cross-entropy (calibrated) plus the pairwise term (selection), mean over members."""
    logits = network.terminal_of(batch.pair, dropout=dropout)  # [M, N]
    members = [
        binary_cross_entropy(member, batch.label, batch.known)
        + config.pairwise_weight * group_pairwise_loss(member, batch)
        for member in logits
    ]
    return torch.stack(members).mean()


def step_loss(network: CriticNetwork, batch: GroupBatch, config: TrainConfig) -> Tensor:
    """Pairwise term on the total Q of actions proposed for one state, in units of its spread."""
    energy = network.energy_of(batch.pair, dropout=config.dropout)
    scores = energy / network.total_scale()
    return torch.stack([group_pairwise_loss(twin, batch) for twin in scores]).mean()


def group_pairwise_loss(scores: Tensor, batch: GroupBatch) -> Tensor:
    """Pairwise loss of scores [N] within the groups of a batch."""
    layout = batch.layout
    return pairwise_logistic_loss(
        layout.pad(scores), layout.pad(batch.label), layout.pad(batch.known)
    )
