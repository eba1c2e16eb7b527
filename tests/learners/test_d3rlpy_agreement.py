"""Our implicit Q-learning against the true values of a generated log, and against d3rlpy's."""

import importlib.util
import os

import pytest
from scipy.stats import spearmanr

from benchmarks.agent_log import AgentLog, Projections, generate
from benchmarks.peers.d3rlpy_elsewhere import PYTHON_VARIABLE, open_d3rlpy
from benchmarks.peers.harness_iql import comparable, train
from benchmarks.peers.trainer import Shape
from harness_core.learners.config import TrainConfig

N_UPDATES = 400
SHAPE = Shape(hidden_sizes=(32,), batch_size=256, n_threads=1, seed=0)


def _logs(shape: Shape) -> tuple[AgentLog, AgentLog]:
    projections = Projections.draw(n_state=24, n_action=20, seed=shape.seed, signal=20.0)
    log, held_out = (
        generate(n_runs=n, projections=projections, seed=seed) for seed, n in enumerate((1500, 500))
    )
    return log, held_out


def _config(shape: Shape) -> TrainConfig:
    """Larger steps than the defaults of d3rlpy, so that few updates are enough."""
    config = comparable(shape, return_lambda=0.0)
    return config.model_copy(
        update={
            "learning_rate": 3e-3,
            "max_updates": N_UPDATES,
            "iql": config.iql.model_copy(update={"polyak": 0.05}),
        }
    )


def test_actions_are_ranked_as_their_values_by_dynamic_programming() -> None:
    log, held_out = _logs(SHAPE)
    ours = train(log, _config(SHAPE)).q(held_out)
    assert spearmanr(ours, held_out.runs.true_q()).statistic >= 0.95


# Its dependencies warn of one another on import and in use.
@pytest.mark.filterwarnings("ignore")
def test_actions_are_ranked_as_d3rlpy_ranks_them() -> None:
    if PYTHON_VARIABLE not in os.environ and importlib.util.find_spec("d3rlpy") is None:
        pytest.skip("d3rlpy is not here: it cannot be installed beside ours; `make integration`")
    log, held_out = _logs(SHAPE)
    peer = open_d3rlpy(log, SHAPE, learning_rate=3e-3, polyak=0.05)
    peer.train(N_UPDATES)
    ours = train(log, _config(SHAPE)).q(held_out)
    theirs = peer.q(held_out)
    truth = held_out.runs.true_q()
    assert spearmanr(ours, theirs).statistic >= 0.95
    assert spearmanr(ours, truth).statistic >= spearmanr(theirs, truth).statistic - 0.05
