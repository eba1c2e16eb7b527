"""The benchmark of training, at sizes that say nothing about speed."""

import json

import numpy as np
import pytest

from benchmarks.agent_log import CHANCE, GOAL, HORIZON, Projections, generate, true_values
from benchmarks.peers.bare_iql import BareIql
from benchmarks.peers.d3rlpy_elsewhere import D3rlpyElsewhere, read_log, write_log
from benchmarks.peers.harness_iql import HarnessIql, train
from benchmarks.peers.matmuls import Matmuls
from benchmarks.peers.trainer import PeerMissing, Shape
from benchmarks.ranking import auc, quality
from benchmarks.results_speed import train_section
from benchmarks.training import Sizes, compare, summary
from benchmarks.training_memory import measure
from harness_core.params import Params

SHAPE = Shape(hidden_sizes=(16,), batch_size=64, n_threads=1, seed=0)
SIZES = Sizes(
    n_state=12, n_action=16, n_runs=60, n_updates=4, n_rounds=2, budget=5, n_transitions=0
)


def make_log(*, n_runs: int, seed: int = 0):
    projections = Projections.draw(n_state=24, n_action=20, seed=0, signal=20.0)
    return generate(n_runs=n_runs, projections=projections, seed=seed)


def missing(log, shape):
    raise PeerMissing("not installed here")


def test_the_figures_have_their_shape_and_a_missing_peer_is_named(params: Params) -> None:
    trainers = {
        "harness": HarnessIql,
        "d3rlpy": missing,
        "bare_loop": BareIql,
        "matmul_time": Matmuls,
    }
    figures = compare(SIZES, SHAPE, params.train, trainers=trainers)
    assert json.loads(json.dumps(figures)) == figures
    assert set(figures["updates_per_s"]) == {"harness", "bare_loop"}
    assert set(figures["ratio"]) == {"bare_loop", "matmul_time"}
    assert figures["unavailable"] == {"d3rlpy": "not installed here"}
    assert figures["time_to_quality"] == {"unavailable": "not installed here"}
    assert figures["memory"] == {}
    assert any(line.startswith("| bare loop |") for line in train_section(figures))
    assert figures["machine"]["n_cores"] >= 1


def test_a_ratio_is_the_median_within_rounds_and_products_stand_the_other_way_round() -> None:
    rounds = [
        {"harness": 1.0, "d3rlpy": 2.0, "matmul_time": 0.5},
        {"harness": 2.0, "d3rlpy": 6.0, "matmul_time": 1.0},
        {"harness": 4.0, "d3rlpy": 16.0, "matmul_time": 1.0},
    ]
    figures = summary(rounds)
    assert figures["updates_per_s"] == {"harness": 0.5, "d3rlpy": 0.2}
    assert figures["ratio"] == {"d3rlpy": 3.0, "matmul_time": 2.0}
    assert figures["ratio_range"]["d3rlpy"] == [2.0, 4.0]


def test_the_true_values_are_those_that_runs_have() -> None:
    log = make_log(n_runs=4_000)
    runs, q = log.runs, true_values()
    returns = log.arrays.rewards[:, 0].astype(np.float64)
    for row in range(len(returns) - 2, -1, -1):
        returns[row] += log.arrays.discount[row] * returns[row + 1]
    first = runs.time == 0
    for level in range(len(CHANCE)):
        chosen = first & (runs.level == level)
        assert returns[chosen].mean() == pytest.approx(q[0, 0, level], abs=0.04)
    assert q[GOAL - 1, HORIZON - 1] == pytest.approx(CHANCE)
    assert (q[0, HORIZON - GOAL + 1 :] == 0).all()


def test_equal_seeds_give_equal_logs_and_a_run_ends_at_its_goal_or_its_limit() -> None:
    one, two = make_log(n_runs=50), make_log(n_runs=50)
    np.testing.assert_array_equal(one.arrays.state, two.arrays.state)
    runs = one.runs
    assert runs.is_last.sum() == 50
    assert (runs.success[runs.is_last] == (runs.reward[runs.is_last] == 1)).all()
    inner = ~runs.is_last[:-1]
    np.testing.assert_array_equal(one.arrays.next_state[:-1][inner], one.arrays.state[1:][inner])


def test_the_shipped_trainer_learns_to_rank_the_generated_actions(params: Params) -> None:
    update = {"accelerator": "cpu", "n_threads": 1, "max_updates": 150, "hidden_sizes": (32,)}
    ranker = train(make_log(n_runs=600), params.train.model_copy(update=update))
    found = quality(ranker, make_log(n_runs=300, seed=1))
    assert found["spearman"] > 0.7
    assert found["auc"] > 0.65


def test_features_on_disc_are_trained_on_and_their_memory_is_told() -> None:
    projections = Projections.draw(n_state=12, n_action=16, seed=0)
    found = measure(2_000, SHAPE, projections, n_updates=4)
    assert found["n_transitions"] == pytest.approx(2_000, rel=0.05)
    assert found["peak_rss_gib"] >= found["before_training_gib"] > 0
    assert found["prepare_us_per_transition"] > 0


def test_a_log_in_a_file_is_the_same_log(tmp_path) -> None:
    log = make_log(n_runs=20)
    write_log(tmp_path / "log.npz", log)
    found = read_log(tmp_path / "log.npz")
    for one, two in ((log.arrays, found.arrays), (log.runs, found.runs)):
        for name in type(one).__slots__:
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_an_interpreter_without_d3rlpy_is_a_missing_peer(tmp_path) -> None:
    with pytest.raises(PeerMissing, match="cannot be started"):
        D3rlpyElsewhere(make_log(n_runs=20), SHAPE, python=tmp_path / "python")
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\nexit 0\n")
    mute.chmod(0o755)
    with pytest.raises(PeerMissing, match="without a word"):
        D3rlpyElsewhere(make_log(n_runs=20), SHAPE, python=mute)
    mute.write_text("#!/bin/sh\necho 'no module named d3rlpy' >&2\nexit 1\n")
    with pytest.raises(PeerMissing, match="ended: no module named d3rlpy"):
        D3rlpyElsewhere(make_log(n_runs=20), SHAPE, python=mute)


def test_another_interpreter_answers_what_it_measures(tmp_path) -> None:
    other = tmp_path / "python"
    other.write_text(
        "#!/bin/sh\nread -r question; echo '" + '{"torch": "2"}' + "'\n"
        "read -r question; echo 0.25\n"
        "read -r question; echo '"
        '{"n_updates": 5, "seconds": 2.0, "auc": 0.5, "spearman": 0.1, "first_s": 1.0}'
        "'\n"
        "read -r question; echo '" + '{"torch": "3"}' + "'\n"
        'read -r question; echo "$question" > "$(dirname "$0")/asked"; echo 0.5\n'
    )
    other.chmod(0o755)
    peer = D3rlpyElsewhere(make_log(n_runs=20), SHAPE, python=other)
    assert peer.versions == {"torch": "2"}
    assert peer.seconds_per_update(3) == 0.25
    assert peer.study(make_log(n_runs=10, seed=1), 5).first_s == 1.0
    second = D3rlpyElsewhere(make_log(n_runs=20), SHAPE, python=other, beside=peer)
    assert second.versions == {"torch": "3"}
    assert second.seconds_per_update(4) == 0.5
    assert json.loads((tmp_path / "asked").read_text()) == {"of": 1, "n_updates": 4}
    peer.close()


def test_ties_count_half() -> None:
    label = np.array([True, False, True, False])
    assert auc(np.zeros(4, dtype=np.float32), label) == 0.5
    assert auc(np.array([3, 1, 2, 0], dtype=np.float32), label) == 1.0
