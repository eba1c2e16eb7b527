"""IQL of d3rlpy, through its `fit` without progress bar and without files.

Imports nothing that an environment with d3rlpy alone would lack.
"""

import importlib.util
import logging
import time
import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from benchmarks.agent_log import DISCOUNT, AgentLog
from benchmarks.peers.trainer import (
    EXPECTILE,
    INVERSE_TEMPERATURE,
    LEARNING_RATE,
    MAX_WEIGHT,
    POLYAK,
    PeerMissing,
    Shape,
)
from benchmarks.ranking import quality
from harness_core.features.batch import Floats

_N_LOOKS: Final = 10


class Study(NamedTuple):
    """What d3rlpy reaches on held-out runs after its budget, and when it first did."""

    n_updates: int
    seconds: float
    auc: float
    spearman: float
    first_s: float


class D3rlpyIql:
    """Measures d3rlpy and ranks with it. It goes on where the last call stopped.

    Raises:
        PeerMissing: the package is not installed.
    """

    name: Final = "d3rlpy"

    def __init__(
        self,
        log: AgentLog,
        shape: Shape,
        *,
        learning_rate: float = LEARNING_RATE,
        polyak: float = POLYAK,
    ) -> None:
        self._library = _import()
        self._log, self._shape = log, shape
        self._library.seed(shape.seed)
        self._n_threads = shape.n_threads
        encoder = self._library.models.VectorEncoderFactory(hidden_units=list(shape.hidden_sizes))
        self._algo: Any = self._library.algos.IQLConfig(
            actor_learning_rate=learning_rate,
            critic_learning_rate=learning_rate,
            actor_encoder_factory=encoder,
            critic_encoder_factory=encoder,
            value_encoder_factory=encoder,
            batch_size=shape.batch_size,
            gamma=DISCOUNT,
            tau=polyak,
            expectile=EXPECTILE,
            weight_temp=INVERSE_TEMPERATURE,
            max_weight=MAX_WEIGHT,
            observation_scaler=self._library.preprocessing.StandardObservationScaler(),
        ).create()
        self._dataset = self._library.dataset.MDPDataset(
            observations=log.arrays.state,
            actions=log.arrays.action,
            rewards=log.arrays.rewards,
            terminals=log.runs.is_last.astype(np.float32),
        )

    def seconds_per_update(self, n_updates: int) -> float:
        """Between the ends of the first update and of the last."""
        ended_at: list[float] = []
        self.train(n_updates + 1, lambda _: ended_at.append(time.perf_counter()))
        return (ended_at[-1] - ended_at[0]) / n_updates

    def train(self, n_updates: int, after_update: Callable[[int], object] = lambda _: None) -> None:
        """So many more updates, calling back with the number of each."""
        torch.set_num_threads(self._n_threads)
        self._algo.fit(
            self._dataset,
            n_steps=n_updates,
            n_steps_per_epoch=n_updates,
            logger_adapter=self._library.logging.NoopAdapterFactory(),
            show_progress=False,
            callback=lambda _algo, _epoch, step: after_update(step),
        )

    def q(self, log: AgentLog) -> Floats:
        """Its `predict_value`."""
        q: Floats = self._algo.predict_value(log.arrays.state, log.arrays.action)
        return q

    def study(self, held_out: AgentLog, budget: int) -> Study:
        """Train anew and look at it on the way, which costs it no time."""
        looks: list[tuple[float, float]] = []
        looking_s = 0.0
        every = max(1, budget // _N_LOOKS)
        began = time.perf_counter()
        fresh = D3rlpyIql(self._log, self._shape)

        def look(step: int) -> None:
            nonlocal looking_s
            if step % every and step != budget:
                return
            paused = time.perf_counter()
            seconds = paused - began - looking_s
            looks.append((round(seconds, 3), quality(fresh, held_out)["auc"]))
            looking_s += time.perf_counter() - paused

        fresh.train(budget, look)
        seconds, target = looks[-1]
        return Study(
            n_updates=budget,
            seconds=seconds,
            first_s=next(at for at, auc in looks if auc >= target),
            **quality(fresh, held_out),
        )


def _import() -> Any:
    if importlib.util.find_spec("d3rlpy") is None:
        raise PeerMissing("not installed: `pip install harness-core[bench-d3rlpy]`")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about Gym, which it brings along
        import d3rlpy  # noqa: PLC0415  # an optional peer
        import structlog  # noqa: PLC0415  # comes with it, and writes to stdout unless told so

    quiet = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(wrapper_class=quiet)
    return d3rlpy
