"""AdamW in one call a group, against torch's own step."""

import torch
from torch.optim import AdamW

from harness_core.learners.descent import Descent


def _weights() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(7, 5, generator=generator)) for _ in range(3)]


def _loss(weights) -> torch.Tensor:
    return (weights[0] @ weights[1].T).square().mean()


def _groups(weights):
    return [
        {"params": weights[:1], "weight_decay": 0.1},
        {"params": weights[1:], "weight_decay": 0.0},
    ]


def test_steps_are_those_of_torch_and_a_weight_without_gradient_stays() -> None:
    ours, theirs = _weights(), _weights()
    one, two = Descent(_groups(ours), lr=0.05), AdamW(_groups(theirs), lr=0.05)
    for _ in range(5):
        one.descend(_loss(ours))
        two.zero_grad()
        _loss(theirs).backward()
        two.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)
    assert torch.equal(ours[2], _weights()[2])


def test_a_loaded_state_goes_on_as_if_nothing_had_happened() -> None:
    whole, halves = _weights(), _weights()
    one, two = (Descent(_groups(weights), lr=0.05) for weights in (whole, halves))
    for _ in range(3):
        one.descend(_loss(whole))
        two.descend(_loss(halves))
    resumed = Descent(_groups(halves), lr=0.05)
    resumed.load_state_dict(two.state_dict())
    one.descend(_loss(whole))
    resumed.descend(_loss(halves))
    for mine, other in zip(whole, halves, strict=True):
        assert torch.equal(mine, other)
