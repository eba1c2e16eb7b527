import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness_core.learners.batches import Layout
from harness_core.learners.returns import (
    component_mask,
    discounted_returns,
    lambda_returns,
    linked_rows,
)


def _padded_returns(rewards, discount, next_value, valid, *, return_lambda: float) -> torch.Tensor:
    """λ-returns [B, T, C] of the rows that are valid, zeros elsewhere."""
    layout = Layout.of(valid.sum(dim=1).numpy())
    ends = valid.sum(dim=1).cumsum(dim=0) - 1
    continues = torch.ones(int(valid.sum()), dtype=torch.bool).index_fill(0, ends, value=False)
    rewards, discount, next_value = (
        layout.flatten(values) for values in (rewards, discount, next_value)
    )
    found = lambda_returns(
        rewards,
        discount,
        next_value,
        continues,
        return_lambda=return_lambda,
        longest=valid.shape[1],
    )
    return layout.pad(found)


@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    return_lambda=st.sampled_from([0.0, 0.4, 0.9, 1.0]),
    seed=st.integers(0, 1000),
)
def test_returns_of_all_rows_at_once_are_those_of_one_row_after_another(
    lengths: list[int], return_lambda: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    n = sum(lengths)
    rewards, next_value = torch.randn(2, n, 2, generator=generator, dtype=torch.float64)
    discount = torch.rand(n, generator=generator, dtype=torch.float64)
    continues = torch.ones(n, dtype=torch.bool)
    continues[np.cumsum(lengths) - 1] = False
    found = lambda_returns(
        rewards,
        discount,
        next_value,
        continues,
        return_lambda=return_lambda,
        longest=max(lengths),
    )
    following = next_value[-1]
    for row in reversed(range(n)):
        value = next_value[row]
        if continues[row]:
            value = (1 - return_lambda) * value + return_lambda * following
        following = rewards[row] + discount[row] * value
        torch.testing.assert_close(found[row], following)


def test_a_row_is_linked_where_the_state_below_is_its_next_state() -> None:
    state = np.array([[1.0], [2.0], [3.0], [4.0]], dtype=np.float32)
    next_state = np.array([[2.0], [9.0], [4.0], [1.0]], dtype=np.float32)
    assert linked_rows(state, next_state).tolist() == [True, False, True, False]


def _trajectories(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two runs of 4 and 2 steps and 3 components; the second is truncated."""
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(2, 4, 3, generator=generator)
    next_value = torch.randn(2, 4, 3, generator=generator)
    valid = torch.tensor([[True] * 4, [True, True, False, False]])
    discount = torch.full((2, 4), 0.9) * valid
    discount[0, 3] = 0.0
    return rewards * valid[..., None], discount, next_value * valid[..., None], valid


@given(seed=st.integers(0, 1000))
def test_lambda_one_is_monte_carlo(seed: int) -> None:
    rewards, discount, next_value, valid = _trajectories(seed)
    returns = _padded_returns(rewards, discount, next_value, valid, return_lambda=1.0)
    expected = sum(0.9**k * rewards[0, k] for k in range(4))
    torch.testing.assert_close(returns[0, 0], torch.as_tensor(expected))


@given(seed=st.integers(0, 1000))
def test_lambda_zero_is_one_step_td(seed: int) -> None:
    rewards, discount, next_value, valid = _trajectories(seed)
    returns = _padded_returns(rewards, discount, next_value, valid, return_lambda=0.0)
    torch.testing.assert_close(returns, rewards + discount[..., None] * next_value)


@given(seed=st.integers(0, 1000), return_lambda=st.floats(0, 1))
def test_the_lambda_return_is_the_weighted_mean_of_n_step_returns(
    seed: int, return_lambda: float
) -> None:
    rewards, discount, next_value, valid = _trajectories(seed)
    returns = _padded_returns(rewards, discount, next_value, valid, return_lambda=return_lambda)

    def n_step(n: int) -> torch.Tensor:
        head = sum((0.9**k * rewards[0, k] for k in range(n)), torch.zeros(3))
        return head if n == 4 else head + 0.9**n * next_value[0, n - 1]

    weights = [(1 - return_lambda) * return_lambda ** (n - 1) for n in (1, 2, 3)]
    weights.append(return_lambda**3)
    expected = sum((w * n_step(n) for w, n in zip(weights, (1, 2, 3, 4), strict=True)))
    torch.testing.assert_close(returns[0, 0], torch.as_tensor(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("return_lambda", [0.0, 0.5, 1.0])
def test_a_truncated_run_bootstraps_on_its_last_state(return_lambda: float) -> None:
    rewards, discount, next_value, valid = _trajectories(0)
    returns = _padded_returns(rewards, discount, next_value, valid, return_lambda=return_lambda)
    torch.testing.assert_close(returns[1, 1], rewards[1, 1] + 0.9 * next_value[1, 1])


def test_padding_has_no_return() -> None:
    returns = _padded_returns(*_trajectories(0), return_lambda=0.5)
    assert (returns[1, 2:] == 0).all()


def test_discounted_returns_agree_with_lambda_one_on_terminated_runs() -> None:
    rewards, discount, next_value, valid = _trajectories(3)
    flat = discounted_returns(rewards[0].numpy(), discount[0].numpy(), np.zeros(4, dtype=np.int64))
    expected = _padded_returns(rewards, discount, next_value, valid, return_lambda=1.0)[0]
    np.testing.assert_allclose(flat, expected.numpy(), rtol=1e-5)


def test_discounted_returns_do_not_cross_trajectories() -> None:
    rewards = np.array([[1.0], [10.0], [100.0]], dtype=np.float32)
    discount = np.full(3, 0.5, dtype=np.float32)
    returns = discounted_returns(rewards, discount, np.array([0, 0, 1]))
    assert returns[:, 0].tolist() == [6.0, 10.0, 100.0]


def test_a_component_is_learnt_where_its_trajectory_has_any_value_of_it() -> None:
    nan = np.nan
    rewards = np.array([[nan, 1.0], [nan, nan], [2.0, nan]], dtype=np.float32)
    mask = component_mask(rewards, np.array([0, 0, 5]))
    assert mask.tolist() == [[False, True], [False, True], [True, False]]


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_padding_and_flattening_are_inverse(lengths: list[int]) -> None:
    layout = Layout.of(np.asarray(lengths))
    values = torch.arange(sum(lengths) * 2, dtype=torch.float32).reshape(-1, 2)
    padded = layout.pad(values)
    assert padded.shape[:2] == (len(lengths), max(lengths))
    assert torch.equal(layout.flatten(padded), values)
    assert int(layout.valid.sum()) == sum(lengths)
