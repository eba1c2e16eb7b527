"""Our own IQL, through `fit` with Lightning's loop, as the stage `train` calls it."""

import time
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch

from benchmarks.agent_log import AgentLog
from benchmarks.peers.trainer import (
    EXPECTILE,
    INVERSE_TEMPERATURE,
    LEARNING_RATE,
    POLYAK,
    Shape,
)
from harness_core.features.batch import Floats, TransitionArrays
from harness_core.learners.batches import Batch
from harness_core.learners.config import IqlConfig, LinearConfig, TrainConfig, TreesConfig
from harness_core.learners.data import TrainingData, transition_pool
from harness_core.learners.networks import CriticNetwork, NetworkSpec
from harness_core.learners.trainer import fit

_RETURN_LAMBDA: Final = 0.9
"""As shipped; the peers have one-step targets only."""


@dataclass(frozen=True, kw_only=True)
class _ClockedData(TrainingData):
    """Training data that notes when each batch was drawn."""

    drawn_at: list[float] = field(default_factory=list)

    def draw(self, config: TrainConfig, rng: np.random.Generator) -> Batch:
        self.drawn_at.append(time.perf_counter())
        return TrainingData.draw(self, config, rng)


class HarnessIql:
    """Measures `fit`."""

    name: Final = "harness"

    def __init__(self, log: AgentLog, shape: Shape) -> None:
        self._spec = spec_of(log.arrays, shape.hidden_sizes)
        self._config = comparable(shape)
        self._data = training_data(log.arrays, self._spec, batch_size=shape.batch_size)

    def seconds_per_update(self, n_updates: int) -> float:
        """Between the ends of the first update and of the last, as with the peers."""
        clocked = _ClockedData(transitions=self._data.transitions, attempts=None, steps=None)
        # A batch is drawn when the update before is done, so one more says when the last ended.
        config = self._config.model_copy(update={"max_updates": n_updates + 2})
        fit(clocked, self._spec, config, seed=self._config.seed)
        return (clocked.drawn_at[-1] - clocked.drawn_at[1]) / n_updates


class HarnessRanker:
    """A network fitted on one log."""

    def __init__(self, network: CriticNetwork) -> None:
        self.network = network

    @torch.no_grad()
    def q(self, log: AgentLog) -> Floats:
        """Mean of the twins; d3rlpy's `predict_value` is a mean too."""
        state, action = torch.from_numpy(log.arrays.state), torch.from_numpy(log.arrays.action)
        q: Floats = self.network.q(state, action)[..., 0].mean(dim=0).numpy()
        return q


def train(log: AgentLog, config: TrainConfig) -> HarnessRanker:
    """Everything that a user waits for, pools and set-up included."""
    spec = spec_of(log.arrays, config.hidden_sizes)
    data = training_data(log.arrays, spec, batch_size=config.batch_size)
    return HarnessRanker(fit(data, spec, config, seed=config.seed).network)


def training_data(arrays: TransitionArrays, spec: NetworkSpec, *, batch_size: int) -> TrainingData:
    """Transitions alone: the peers know no decision groups."""
    pool = transition_pool(arrays, spec, batch_size=batch_size)
    return TrainingData(transitions=pool, attempts=None, steps=None)


def spec_of(arrays: TransitionArrays, hidden_sizes: tuple[int, ...]) -> NetworkSpec:
    """Shapes for a generated log."""
    return NetworkSpec(
        n_state=arrays.state.shape[1],
        n_action=arrays.action.shape[1],
        n_relative=0,
        hidden_sizes=hidden_sizes,
        n_members=1,
        components=("success",),
        weights=(1.0,),
    )


def comparable(shape: Shape, *, return_lambda: float = _RETURN_LAMBDA) -> TrainConfig:
    """The settings of the peers, as far as they have them."""
    return TrainConfig(
        learner="iql",
        actor="awr",
        seed=shape.seed,
        accelerator="cpu",
        n_threads=shape.n_threads,
        hidden_sizes=shape.hidden_sizes,
        dropout=0.0,
        learning_rate=LEARNING_RATE,
        weight_decay=0.0,
        batch_size=shape.batch_size,
        n_groups=1,
        group_sizes=(1,),
        max_updates=1,
        check_every=50,
        pairwise_weight=0.0,
        n_members=1,
        iql=IqlConfig(
            expectile=EXPECTILE,
            return_lambda=return_lambda,
            polyak=POLYAK,
            inverse_temperature=INVERSE_TEMPERATURE,
            huber_delta=1.0,
        ),
        linear=LinearConfig(share=0.0, penalty=1.0, max_rows=1),
        trees=TreesConfig(
            n_trees=0,  # `fit` trains networks alone anyway
            n_leaves=2,
            learning_rate=0.1,
            min_rows=1,
            row_share=1.0,
            column_share=1.0,
            l2=0.0,
            max_rows=1,
            n_members=1,
        ),
    )
