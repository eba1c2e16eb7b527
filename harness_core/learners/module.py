"""One update of all networks, as a Lightning module with manual optimisation.

Order: V; then, on the new V, Q together with actor and terminal head; then the target network
moves towards Q. Actor and terminal head have trunks of their own, so their gradients meet nothing
of Q's; the pairwise term of step groups is part of Q's loss.
"""

from copy import deepcopy
from typing import Any, Final

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from harness_core.errors import ModelError
from harness_core.learners.batches import Batch, GroupBatch, TransitionBatch
from harness_core.learners.config import TrainConfig
from harness_core.learners.learner import Learner
from harness_core.learners.losses import awr_loss, binary_cross_entropy, pairwise_logistic_loss
from harness_core.learners.networks import N_KINDS, CriticNetwork

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

    def configure_optimizers(self) -> list[AdamW]:
        """One optimiser for V, one for everything that learns after it."""
        network = self.network
        others = (network.q_mlp, network.actor_mlp, network.terminal_mlp)
        return [self._optimizer(network.value_mlp), self._optimizer(*others)]

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:  # noqa: ARG002  # Lightning's interface
        """Seed dropout by (seed, update) alone, so that a resumed run repeats it."""
        seed = self._seed * _SEED_STRIDE + int(self.n_updates)
        # `torch.manual_seed` would queue a call (and a traceback) for every device there is not.
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def training_step(self, batch: Batch, batch_idx: int) -> None:  # noqa: ARG002  # Lightning's interface
        """One update in the order that the module's docstring states."""
        value_optimizer, optimizer = self.optimizers()
        config, network = self._config, self.network
        target_q = self._target_q(batch.transitions)
        value_loss = self._learner.value_loss(network, target_q, batch.transitions, config)
        self._step(value_optimizer, value_loss)
        loss = self._learner.critic_loss(network, batch, config)
        loss = loss + self._actor_loss(batch.transitions, target_q)
        if batch.attempts is not None:
            loss = loss + terminal_loss(network, batch.attempts, config, dropout=config.dropout)
        if batch.steps is not None and config.pairwise_weight:
            loss = loss + config.pairwise_weight * step_loss(network, batch.steps, config)
        self._step(optimizer, loss)
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

    def _step(self, optimizer: Any, loss: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        self.manual_backward(loss)
        optimizer.step()

    @torch.no_grad()
    def _target_q(self, batch: TransitionBatch) -> Tensor:
        """The smaller target twin, [N, C]."""
        return self.network.q(batch.state, batch.action, mlp=self.target).amin(dim=0)

    def _actor_loss(self, batch: TransitionBatch, target_q: Tensor) -> Tensor:
        """Advantage-weighted regression of the action's kind, on the new V."""
        network = self.network
        with torch.no_grad():
            difference = (target_q - network.value(batch.state)) * batch.mask
            advantage = network.total(difference) / network.total_scale()
        log_policy = network.policy(batch.state, dropout=self._config.dropout)
        # The action vector starts with the one-hot of its kind.
        taken = (log_policy * batch.action[:, :N_KINDS]).sum(dim=1)
        return awr_loss(taken, advantage, inverse_temperature=self._config.iql.inverse_temperature)

    @torch.no_grad()
    def _move_target(self) -> None:
        fast: list[Tensor] = list(self.network.q_mlp.parameters())
        slow: list[Tensor] = list(self.target.parameters())
        torch._foreach_lerp_(slow, fast, self._config.iql.polyak)

    def _optimizer(self, *networks: nn.Module) -> AdamW:
        named = [item for network in networks for item in network.named_parameters()]
        weights = [parameter for name, parameter in named if "weights" in name]
        biases = [parameter for name, parameter in named if "weights" not in name]
        groups = [
            {"params": weights, "weight_decay": self._config.weight_decay},
            {"params": biases, "weight_decay": 0.0},
        ]
        return AdamW(groups, lr=self._config.learning_rate, fused=True)


def terminal_loss(
    network: CriticNetwork, batch: GroupBatch, config: TrainConfig, *, dropout: float
) -> Tensor:
    """Cross-entropy (calibrated) plus the pairwise term (selection), mean over members."""
    logits = network.terminal(batch.state, batch.other, dropout=dropout)  # [M, N]
    members = [
        binary_cross_entropy(member, batch.label, batch.known)
        + config.pairwise_weight * group_pairwise_loss(member, batch)
        for member in logits
    ]
    return torch.stack(members).mean()


def step_loss(network: CriticNetwork, batch: GroupBatch, config: TrainConfig) -> Tensor:
    """Pairwise term on the total Q of actions proposed for one state, in units of its spread."""
    energy = network.energy(batch.state, batch.other, dropout=config.dropout)
    scores = energy / network.total_scale()
    return torch.stack([group_pairwise_loss(twin, batch) for twin in scores]).mean()


def group_pairwise_loss(scores: Tensor, batch: GroupBatch) -> Tensor:
    """Pairwise loss of scores [N] within the groups of a batch."""
    layout = batch.layout
    return pairwise_logistic_loss(
        layout.pad(scores), layout.pad(batch.label), layout.pad(batch.known)
    )
