"""IQL of TorchRL: its replay buffer, `IQLLoss` and `SoftUpdate`, in the loop of its examples."""

import importlib.util
import logging
import time
import warnings
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.agent_log import DISCOUNT, AgentLog
from benchmarks.peers.trainer import (
    EXPECTILE,
    INVERSE_TEMPERATURE,
    LEARNING_RATE,
    POLYAK,
    PeerMissing,
    Shape,
)


class TorchrlIql:
    """Measures TorchRL. It goes on where the last call stopped.

    Raises:
        PeerMissing: the package is not installed.
    """

    name: Final = "torchrl"

    def __init__(self, log: AgentLog, shape: Shape) -> None:
        if importlib.util.find_spec("torchrl") is None:
            raise PeerMissing("not installed: `pip install harness-core[bench]`")
        torch.manual_seed(shape.seed)
        self._n_threads = shape.n_threads
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what its next release will do
            import torchrl  # noqa: F401, PLC0415  # sets its own level when imported

            # Its handler writes to stdout, where the figures go.
            logging.getLogger("torchrl").setLevel(logging.ERROR)
            self._buffer = _buffer(log, shape)
            self._loss = _loss(log, shape)
            self._target = _target(self._loss)
            self._optimizer = torch.optim.Adam(self._loss.parameters(), lr=LEARNING_RATE)
            self.seconds_per_update(1)

    def seconds_per_update(self, n_updates: int) -> float:
        """So many updates in a row."""
        torch.set_num_threads(self._n_threads)
        began = time.perf_counter()
        for _ in range(n_updates):
            losses = self._loss(self._buffer.sample())
            total = losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_value"]
            self._optimizer.zero_grad()
            total.backward()
            self._optimizer.step()
            self._target.step()
        return (time.perf_counter() - began) / n_updates


def _buffer(log: AgentLog, shape: Shape) -> Any:
    from tensordict import TensorDict  # noqa: PLC0415  # an optional peer
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer  # noqa: PLC0415

    arrays = log.arrays
    n_rows = len(arrays.trajectory)
    done = torch.from_numpy(log.runs.is_last.astype(np.bool_))[:, None]
    rows = TensorDict(
        {
            "observation": torch.from_numpy(arrays.state),
            "action": torch.from_numpy(arrays.action),
            "next": {
                "observation": torch.from_numpy(arrays.next_state),
                "reward": torch.from_numpy(arrays.rewards),
                "done": done,
                "terminated": done,
            },
        },
        batch_size=[n_rows],
    )
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(n_rows), batch_size=shape.batch_size)
    buffer.extend(rows)
    return buffer


def _loss(log: AgentLog, shape: Shape) -> Any:
    from tensordict.nn import NormalParamExtractor, TensorDictModule  # noqa: PLC0415
    from torch.distributions import Independent, Normal  # noqa: PLC0415
    from torchrl.modules import MLP, ProbabilisticActor, ValueOperator  # noqa: PLC0415
    from torchrl.objectives import IQLLoss  # noqa: PLC0415

    n_state, n_action = log.arrays.state.shape[1], log.arrays.action.shape[1]
    cells = {"num_cells": list(shape.hidden_sizes), "activation_class": nn.ReLU}
    body = nn.Sequential(
        MLP(in_features=n_state, out_features=2 * n_action, **cells), NormalParamExtractor()
    )

    def gaussian(loc: Tensor, scale: Tensor) -> Any:
        return Independent(Normal(loc, scale), 1)

    actor = ProbabilisticActor(
        module=TensorDictModule(body, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=gaussian,
    )
    q = ValueOperator(
        MLP(in_features=n_state + n_action, out_features=1, **cells),
        in_keys=["observation", "action"],
    )
    value = ValueOperator(
        MLP(in_features=n_state, out_features=1, **cells), in_keys=["observation"]
    )
    loss = IQLLoss(
        actor,
        q,
        value,
        num_qvalue_nets=2,
        loss_function="l2",
        temperature=INVERSE_TEMPERATURE,
        expectile=EXPECTILE,
    )
    loss.make_value_estimator(gamma=DISCOUNT)
    return loss


def _target(loss: Any) -> Any:
    from torchrl.objectives import SoftUpdate  # noqa: PLC0415

    return SoftUpdate(loss, tau=POLYAK)
