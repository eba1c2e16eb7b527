"""Perceptrons as a processor computes them, against batched products and automatic gradients."""

import pytest
import torch

from harness_core.learners.perceptrons import StackedMlp, _n_padded


@pytest.fixture
def mlp() -> StackedMlp:
    mlp = StackedMlp(2, (20, 32, 24, 3))
    generator = torch.Generator().manual_seed(0)
    for parameter in mlp.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return mlp


def _rows(n: int = 50) -> torch.Tensor:
    return torch.randn(n, 20, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("products", ["oneDNN", "BLAS"])
@pytest.mark.parametrize("n_rows", [0, 1, 16, 50])
def test_outputs_and_gradients_are_those_of_batched_products(
    mlp: StackedMlp, products: str, n_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if products == "BLAS":
        monkeypatch.setattr("harness_core.learners.perceptrons._ONEDNN", None)
    rows = _rows(n_rows).requires_grad_()
    weight = torch.randn(2, n_rows, 3, generator=torch.Generator().manual_seed(2))
    found, expected = mlp(rows), mlp.batched(rows)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    wanted = (rows, *mlp.parameters())
    for one, two in zip(
        torch.autograd.grad(found, wanted, weight),
        torch.autograd.grad(expected, wanted, weight),
        strict=True,
    ):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_rows", [1, 15, 16, 17, 250, 257, 5000])
def test_numbers_of_rows_are_rounded_up_by_a_sixteenth_at_most(n_rows: int) -> None:
    padded = _n_padded(n_rows)
    assert n_rows <= padded < n_rows + max(16, n_rows / 16 + 1)
    assert padded == n_rows or padded % 16 == 0


def test_dropout_drops_its_share_and_keeps_the_mean(mlp: StackedMlp) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        wide = StackedMlp(1, (1, 64, 64))
        wide.weights[0].fill_(1.0)
        wide.weights[1].copy_(torch.eye(64)[None])
        output = wide(torch.ones(4096, 1), dropout=0.3)
    assert float((output == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(output.mean()) == pytest.approx(1.0, abs=0.01)


def test_what_is_dropped_moves_no_weight(mlp: StackedMlp) -> None:
    rows = _rows(1)
    torch.manual_seed(3)
    first = torch.autograd.grad(mlp(rows, dropout=0.5).sum(), mlp.weights[1])[0]
    kept = first.abs().sum(dim=2) > 0  # [members, hidden]
    assert 0.1 < float(kept.float().mean()) < 0.7


def test_equal_seeds_drop_the_same(mlp: StackedMlp) -> None:
    outputs = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        outputs.append(mlp(_rows(), dropout=0.4))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_a_few_rows_give_the_same_whether_or_not_something_is_learnt_from_them() -> None:
    mlp = StackedMlp(2, (6, 32, 3), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        mlp.weights[-1].uniform_(-1.0, 1.0)
        alone = mlp(torch.ones(4, 6))
    torch.testing.assert_close(alone, mlp(torch.ones(4, 6)).detach())
