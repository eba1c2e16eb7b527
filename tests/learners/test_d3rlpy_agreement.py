"""Our implicit Q-learning against d3rlpy's on a log of known values."""

import importlib.util

import pytest
from scipy.stats import spearmanr

from benchmarks.agent_log import Projections, generate
from benchmarks.peers.d3rlpy_iql import D3rlpyIql
from benchmarks.peers.harness_iql import comparable, train
from benchmarks.peers.trainer import Shape

N_UPDATES = 400


# Its dependencies warn of one another on import and in use.
@pytest.mark.filterwarnings("ignore")
def test_actions_are_ranked_as_d3rlpy_ranks_them() -> None:
    if importlib.util.find_spec("d3rlpy") is None:
        pytest.skip("d3rlpy is not installed; it comes with the extra `bench-d3rlpy`")
    shape = Shape(hidden_sizes=(32,), batch_size=256, n_threads=1, seed=0)
    projections = Projections.draw(n_state=24, n_action=20, seed=0, signal=20.0)
    log, held_out = (
        generate(n_runs=n, projections=projections, seed=seed) for seed, n in enumerate((1500, 500))
    )
    peer = D3rlpyIql(log, shape, learning_rate=3e-3, polyak=0.05)
    peer.train(N_UPDATES)
    config = comparable(shape, return_lambda=0.0)
    config = config.model_copy(
        update={
            "learning_rate": 3e-3,
            "max_updates": N_UPDATES,
            "iql": config.iql.model_copy(update={"polyak": 0.05}),
        }
    )
    ours = train(log, config).q(held_out)
    theirs = peer.q(held_out)
    truth = held_out.runs.true_q()
    assert spearmanr(ours, theirs).statistic >= 0.95
    assert spearmanr(ours, truth).statistic >= spearmanr(theirs, truth).statistic - 0.05
