import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness_core.learners.losses import (
    MAX_ADVANTAGE_WEIGHT,
    awr_weights,
    binary_cross_entropy,
    expectile_loss,
    huber_td_loss,
    info_nce_loss,
    masked_mean,
    pairwise_logistic_loss,
)

numbers = st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=20)


@given(numbers)
def test_the_expectile_loss_at_one_half_is_half_the_squared_error(values: list[float]) -> None:
    residual = torch.tensor(values)
    half_mse = residual.square().mean() / 2
    assert expectile_loss(residual, 0.5) == pytest.approx(float(half_mse), rel=1e-5)


@pytest.mark.parametrize("expectile", [0.5, 0.7, 0.9])
def test_the_value_of_a_fair_coin_is_the_expectile(expectile: float) -> None:
    value = torch.zeros((), requires_grad=True)
    outcomes = torch.tensor([0.0, 1.0])
    optimiser = torch.optim.SGD([value], lr=0.5)
    for _ in range(200):
        optimiser.zero_grad()
        expectile_loss(outcomes - value, expectile).backward()
        optimiser.step()
    assert float(value.detach()) == pytest.approx(expectile, abs=1e-3)


@given(numbers)
def test_a_large_delta_makes_huber_half_the_squared_error(values: list[float]) -> None:
    predicted = torch.tensor(values)
    loss = huber_td_loss(predicted, torch.zeros_like(predicted), delta=1e3)
    assert float(loss) == pytest.approx(float(predicted.square().mean() / 2), rel=1e-5)


def test_far_errors_count_linearly_in_huber() -> None:
    near = huber_td_loss(torch.tensor([10.0]), torch.zeros(1), delta=1.0)
    far = huber_td_loss(torch.tensor([20.0]), torch.zeros(1), delta=1.0)
    assert float(far - near) == pytest.approx(10.0)


def test_a_td_target_receives_no_gradient() -> None:
    target = torch.ones(3, requires_grad=True)
    predicted = torch.zeros(3, requires_grad=True)
    huber_td_loss(predicted, target, delta=1.0).backward()
    assert target.grad is None
    assert predicted.grad is not None


@pytest.mark.parametrize("loss", ["expectile", "huber", "cross-entropy"])
def test_a_masked_entry_moves_nothing(loss: str) -> None:
    predicted = torch.tensor([[0.3, 5.0], [0.1, -5.0]], requires_grad=True)
    mask = torch.tensor([[True, False], [True, False]])
    target = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    value = {
        "expectile": lambda: expectile_loss(target - predicted, 0.7, mask),
        "huber": lambda: huber_td_loss(predicted, target, delta=1.0, mask=mask),
        "cross-entropy": lambda: binary_cross_entropy(predicted, target, mask),
    }[loss]()
    value.backward()
    assert predicted.grad is not None
    assert (predicted.grad[:, 1] == 0).all()
    assert (predicted.grad[:, 0] != 0).all()


def test_nothing_but_masked_entries_costs_nothing() -> None:
    assert float(masked_mean(torch.ones(3), torch.zeros(3, dtype=torch.bool))) == 0.0


def test_the_pairwise_loss_prefers_the_right_order() -> None:
    labels, mask = torch.tensor([[1.0, 0.0, 0.0]]), torch.ones(1, 3, dtype=torch.bool)
    right = pairwise_logistic_loss(torch.tensor([[2.0, 0.0, -1.0]]), labels, mask)
    wrong = pairwise_logistic_loss(torch.tensor([[-2.0, 0.0, 1.0]]), labels, mask)
    assert right < torch.tensor(2.0).log() < wrong


@given(shift=st.floats(-5, 5, width=32))
def test_the_pairwise_loss_ignores_what_all_candidates_share(shift: float) -> None:
    scores = torch.tensor([[0.5, -0.2, 1.0]])
    labels, mask = torch.tensor([[1.0, 0.0, 0.5]]), torch.ones(1, 3, dtype=torch.bool)
    moved = pairwise_logistic_loss(scores + shift, labels, mask)
    assert float(moved) == pytest.approx(
        float(pairwise_logistic_loss(scores, labels, mask)), abs=1e-5
    )


@pytest.mark.parametrize(
    ("labels", "known"),
    [
        pytest.param([1.0, 1.0, 1.0], [True] * 3, id="equal labels"),
        pytest.param([1.0, 0.0, 0.0], [True, False, False], id="one known label"),
        pytest.param([1.0, 0.0, 0.0], [False] * 3, id="no known label"),
    ],
)
def test_a_group_without_a_pair_costs_nothing_and_moves_nothing(
    labels: list[float], known: list[bool]
) -> None:
    scores = torch.zeros(1, 3, requires_grad=True)
    loss = pairwise_logistic_loss(scores, torch.tensor([labels]), torch.tensor([known]))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert scores.grad is not None
    assert (scores.grad == 0).all()


def test_a_large_group_weighs_as_much_as_a_small_one() -> None:
    scores = torch.zeros(2, 4)
    scores[1, 0] = -3.0
    labels = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    one, other = (
        pairwise_logistic_loss(scores[i : i + 1], labels[i : i + 1], mask[i : i + 1])
        for i in range(2)
    )
    both = pairwise_logistic_loss(scores, labels, mask)
    assert float(both) == pytest.approx(float(one + other) / 2)


def test_advantage_weights_grow_with_the_advantage_up_to_a_ceiling() -> None:
    weights = awr_weights(torch.tensor([-1.0, 0.0, 1.0, 1e6]), 3.0)
    assert (weights.diff() > 0).all()
    assert float(weights[-1]) == MAX_ADVANTAGE_WEIGHT


def test_info_nce_among_equals_is_the_log_of_their_number() -> None:
    loss = info_nce_loss(torch.zeros(5), torch.zeros(5, 3))
    assert float(loss) == pytest.approx(float(torch.tensor(4.0).log()))


def test_a_masked_negative_takes_no_part() -> None:
    negatives = torch.tensor([[0.0, 50.0]])
    mask = torch.tensor([[True, False]])
    loss = info_nce_loss(torch.zeros(1), negatives, mask)
    assert float(loss) == pytest.approx(float(torch.tensor(2.0).log()))
