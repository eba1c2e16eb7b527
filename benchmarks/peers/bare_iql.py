"""IQL as a bare PyTorch loop: the mathematics of our learner with nothing around it.

It has what a careful author would write: inputs standardised once for the whole log, fused AdamW,
one call for the target step. Batches are whole runs of the same pool.
"""

import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.agent_log import N_KINDS, AgentLog
from benchmarks.peers.harness_iql import comparable, spec_of, training_data
from benchmarks.peers.trainer import MAX_WEIGHT, Shape
from harness_core.learners.batches import Layout

_CLIP: Final = 5.0


class BareIql:
    """Measures a plain loop."""

    name: Final = "bare_loop"

    def __init__(self, log: AgentLog, shape: Shape) -> None:
        torch.manual_seed(shape.seed)
        arrays = log.arrays
        spec = spec_of(arrays, shape.hidden_sizes)
        self._config = comparable(shape)
        data = training_data(arrays, spec, batch_size=shape.batch_size)
        pool = data.transitions
        self._scale = float(pool.returns.std())
        self._pool = replace(
            pool,
            state=_standardised(pool.state, pool.state),
            action=_standardised(pool.action, pool.action),
            next_state=_standardised(pool.next_state, pool.state),
        )
        self._n_pieces = max(1, round(shape.batch_size / pool.mean_length))
        sizes = (*shape.hidden_sizes, 1)
        n_state, n_action = spec.n_state, spec.n_action
        self._twins = [_mlp(n_state + n_action, *sizes) for _ in range(2)]
        self._targets = [_mlp(n_state + n_action, *sizes) for _ in range(2)]
        self._value = _mlp(n_state, *sizes)
        self._actor = _mlp(n_state, *shape.hidden_sizes, N_KINDS)
        self._value_optimizer = self._optimizer(self._value)
        self._optimizer_of_others = self._optimizer(*self._twins, self._actor)
        self._fast, self._slow = _weights(self._twins), _weights(self._targets)
        for slow, fast in zip(self._slow, self._fast, strict=True):
            slow.data.copy_(fast.data)

    def seconds_per_update(self, n_updates: int) -> float:
        """So many updates in a row."""
        torch.set_num_threads(self._config.n_threads)
        began = time.perf_counter()
        for update in range(n_updates):
            rng = np.random.default_rng([self._config.seed, update])
            self._update(self._draw(rng))
        return (time.perf_counter() - began) / n_updates

    def _draw(self, rng: np.random.Generator) -> "_Batch":
        pool = self._pool
        pieces = rng.integers(len(pool.start), size=self._n_pieces)
        start, length = pool.start[pieces], pool.length[pieces]
        offset = np.repeat(start - (np.cumsum(length) - length), length)
        rows = torch.from_numpy(offset + np.arange(len(offset)))
        return _Batch(
            state=pool.state.index_select(0, rows),
            action=pool.action.index_select(0, rows),
            next_state=pool.next_state.index_select(0, rows),
            rewards=pool.rewards.index_select(0, rows),
            discount=pool.discount.index_select(0, rows),
            layout=Layout.of(length),
        )

    def _update(self, batch: "_Batch") -> None:
        iql = self._config.iql
        pair = torch.cat([batch.state, batch.action], dim=1)
        with torch.no_grad():
            target_q = torch.minimum(*(target(pair) for target in self._targets)) * self._scale
        residual = (target_q - self._value(batch.state) * self._scale) / self._scale
        weight = torch.where(residual < 0, 1.0 - iql.expectile, iql.expectile)
        _step(self._value_optimizer, (weight * residual.square()).mean())
        with torch.no_grad():
            returns = self._returns(batch) / self._scale
            advantage = (target_q - self._value(batch.state) * self._scale)[:, 0] / self._scale
            weights = (iql.inverse_temperature * advantage).exp().clamp(max=MAX_WEIGHT)
        losses = [
            functional.huber_loss(twin(pair), returns, delta=iql.huber_delta)
            for twin in self._twins
        ]
        log_policy = functional.log_softmax(self._actor(batch.state), dim=1)
        taken = (log_policy * batch.action[:, :N_KINDS]).sum(dim=1)
        _step(self._optimizer_of_others, torch.stack(losses).mean() - (weights * taken).mean())
        with torch.no_grad():
            torch._foreach_lerp_(self._slow, self._fast, iql.polyak)

    def _returns(self, batch: "_Batch") -> Tensor:
        """λ-returns, from the last step of all runs to the first."""
        layout, mix = batch.layout, self._config.iql.return_lambda
        value = layout.pad(self._value(batch.next_state) * self._scale)[..., 0]
        rewards, discount = layout.pad(batch.rewards)[..., 0], layout.pad(batch.discount)
        valid = layout.valid
        following = torch.zeros_like(value[:, 0])
        returns = []
        for step in reversed(range(value.shape[1])):
            bootstrap = value[:, step]
            if step + 1 < value.shape[1]:
                mixed = torch.lerp(bootstrap, following, mix)
                bootstrap = torch.where(valid[:, step + 1], mixed, bootstrap)
            following = rewards[:, step] + discount[:, step] * bootstrap
            returns.append(following)
        return layout.flatten(torch.stack(returns[::-1], dim=1)[..., None])

    def _optimizer(self, *networks: nn.Module) -> torch.optim.AdamW:
        return torch.optim.AdamW(
            _weights(networks), lr=self._config.learning_rate, weight_decay=0.0, fused=True
        )


class _Batch(NamedTuple):
    state: Tensor
    action: Tensor
    next_state: Tensor
    rewards: Tensor
    discount: Tensor
    layout: Layout


def _standardised(rows: Tensor, like: Tensor) -> Tensor:
    return ((rows - like.mean(dim=0)) / like.std(dim=0)).clamp(-_CLIP, _CLIP)


def _mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _weights(networks: Iterable[nn.Module]) -> list[Tensor]:
    return [weight for network in networks for weight in network.parameters()]


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]  # stubs of torch
    optimizer.step()
