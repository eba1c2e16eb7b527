"""The linear head beside networks and trees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from harness_core.errors import ModelError
from harness_core.learners.attempt_rows import draw_attempts
from harness_core.learners.checkpoint import Critic, load_critic, save_critic
from harness_core.learners.config import LinearConfig
from harness_core.learners.linear import LINEAR, fit_linear, load_linear, ridge_logistic
from harness_core.learners.networks import CriticNetwork

PENALTY = 4.0


@pytest.fixture
def linear(config) -> LinearConfig:
    return config.linear.model_copy(update={"share": 0.5})


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), columns=st.integers(1, 6), noise=st.floats(0.0, 5.0))
def test_the_gradient_is_zero_at_what_is_found(seed: int, columns: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((80, columns))
    label = rng.uniform(size=80) if seed % 2 else (x[:, 0] + noise * rng.standard_normal(80) > 0)
    weight, bias = ridge_logistic(x, np.asarray(label, dtype=np.float64), penalty=PENALTY)
    excess = expit(x @ weight + bias) - label
    assert np.allclose(x.T @ excess + PENALTY * weight, 0.0, atol=1e-3)
    assert abs(excess.sum()) < 1e-3


def test_it_is_the_logistic_regression_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 4))
    label = (x @ [1.0, -2.0, 0.0, 0.5] + rng.standard_normal(200) > 0.3).astype(np.float64)
    weight, bias = ridge_logistic(x, label, penalty=PENALTY)
    peer = LogisticRegression(C=1.0 / PENALTY, tol=1e-8).fit(x, label)
    assert np.allclose(weight, peer.coef_[0], atol=1e-3)
    assert bias == pytest.approx(peer.intercept_[0], abs=1e-3)


def test_a_stronger_pull_gives_smaller_weights() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((100, 3))
    label = (x[:, 0] > 0).astype(np.float64)
    sizes = [np.abs(ridge_logistic(x, label, penalty=p)[0]).sum() for p in (0.1, 10.0, 1000.0)]
    assert sizes[0] > sizes[1] > sizes[2]


def test_attempts_that_succeed_score_higher(training, linear) -> None:
    head = fit_linear(training, linear, seed=0)
    assert head is not None
    rows = draw_attempts(training.attempts, max_rows=10_000, seed=0)
    score = head.score(rows.x)
    assert score[rows.label == 1].mean() > score[rows.label == 0].mean()


def test_half_a_share_counts_half(training, linear) -> None:
    rows = draw_attempts(training.attempts, max_rows=10_000, seed=0)
    whole, half = (
        fit_linear(training, linear.model_copy(update={"share": share}), seed=0)
        for share in (1.0, 0.5)
    )
    assert whole is not None
    assert half is not None
    assert np.allclose(whole.score(rows.x), 2 * half.score(rows.x), atol=1e-4)


def test_no_share_is_no_head(training, linear) -> None:
    nothing = linear.model_copy(update={"share": 0.0})
    assert fit_linear(training, nothing, seed=0) is None


def test_a_critic_adds_the_head_and_keeps_it(training, linear, spec, tmp_path) -> None:
    head = fit_linear(training, linear, seed=0)
    assert head is not None
    network = CriticNetwork(spec, seed=0)
    x = draw_attempts(training.attempts, max_rows=20, seed=0).x
    alone = Critic(network).terminal(x)
    save_critic(tmp_path, network, linear=head)
    assert np.allclose(load_critic(tmp_path).terminal(x), alone + head.score(x), atol=1e-5)
    save_critic(tmp_path, network)
    assert not (tmp_path / LINEAR).exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"no file of this kind", "safetensors"),
        (save({"weight": np.zeros(3, np.float32), "bias": np.zeros(1, np.float32)}), "7 columns"),
        (save({"weight": np.zeros(7, np.float32)}), "bias"),
        (
            save({"weight": np.full(7, np.nan, np.float32), "bias": np.zeros(1, np.float32)}),
            "finite",
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, content: bytes, says: str) -> None:
    (tmp_path / LINEAR).write_bytes(content)
    with pytest.raises(ModelError, match=says):
        load_linear(tmp_path, width=7)
