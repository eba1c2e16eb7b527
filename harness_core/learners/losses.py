"""Losses of the learners, as pure functions of tensors.

Letters: B rows, G decision groups, K candidates, C reward components, M negatives. A mask is 1
where a value counts and 0 where it must not move any weight.
"""

import torch
from torch import Tensor
from torch.nn import functional

MAX_ADVANTAGE_WEIGHT = 100.0
"""Ceiling of an advantage weight, so that one lucky action cannot be the whole batch."""


def masked_mean(values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean of the values whose mask is 1; 0 when there is none."""
    if mask is None:
        return values.mean()
    weight = mask.to(values.dtype)
    return (values * weight).sum() / weight.sum().clamp(min=1.0)


def expectile_loss(residual: Tensor, expectile: float, mask: Tensor | None = None) -> Tensor:
    """Mean of |expectile − 1(residual < 0)| · residual², with residual = Q − V of shape [B, C].

    The minimiser over V is the expectile of Q (Newey & Powell, 1987); an expectile of 0.5 gives
    half the squared error. Kostrikov et al., 2021, eq. 5.
    """
    weight = torch.where(residual < 0, 1.0 - expectile, expectile)
    return masked_mean(weight * residual.square(), mask)


def huber_td_loss(
    predicted: Tensor, target: Tensor, *, delta: float, mask: Tensor | None = None
) -> Tensor:
    """Mean Huber loss of predicted − target, both [..., B, C]; the target receives no gradient.

    u²/2 for |u| ≤ delta, else delta · (|u| − delta/2) (Huber, 1964).
    """
    elements = functional.huber_loss(
        predicted, target.detach().expand_as(predicted), reduction="none", delta=delta
    )
    return masked_mean(elements, None if mask is None else mask.expand_as(elements))


def binary_cross_entropy(logits: Tensor, labels: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean of −y·log σ(z) − (1 − y)·log(1 − σ(z)) over the known labels y in [0, 1]."""
    elements = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return masked_mean(elements, mask)


def pairwise_logistic_loss(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Logistic loss of every ordered pair of one group, all three of shape [G, K].

    Over pairs with y_i > y_j: Σ (y_i − y_j) · softplus(z_j − z_i) / Σ (y_i − y_j), then the mean
    over groups that have such a pair, so that a large group does not outweigh a small one. A graded
    label in [0, 1] weighs a pair by how far apart its labels are. Burges et al., 2005 (RankNet).
    """
    gap = (labels[:, :, None] - labels[:, None, :]).clamp(min=0.0)
    gap = gap * (mask[:, :, None] & mask[:, None, :])
    loss = gap * functional.softplus(scores[:, None, :] - scores[:, :, None])
    total = gap.sum(dim=(1, 2))
    has_pair = total > 0
    return masked_mean(loss.sum(dim=(1, 2)) / torch.where(has_pair, total, 1.0), has_pair)


def awr_weights(advantage: Tensor, inverse_temperature: float) -> Tensor:
    """min(exp(inverse_temperature · advantage), ceiling), without gradient, [B].

    Peng et al., 2019 (advantage-weighted regression); an inverse temperature of 0 weighs every
    logged action the same, which is behaviour cloning.
    """
    exponent = inverse_temperature * advantage.detach()
    return exponent.exp().clamp(max=MAX_ADVANTAGE_WEIGHT)


def info_nce_loss(positive: Tensor, negatives: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean of −log of the softmax share that the logged action has among its negatives.

    `positive` [B] scores the logged action, `negatives` [B, M] other actions in the same state;
    a negative with mask 0 does not take part. Behaviour cloning of an energy-based policy
    (van den Oord et al., 2018; Florence et al., 2021).
    """
    if mask is not None:
        negatives = negatives.masked_fill(~mask, -torch.inf)
    scores = torch.cat([positive[:, None], negatives], dim=1)
    return (scores.logsumexp(dim=1) - positive).mean()
