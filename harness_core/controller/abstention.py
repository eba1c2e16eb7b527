"""From which probability of success on a pick may be accepted, with a guarantee on its risk.

The risk curve says, for a few thresholds, how many picks of calibration tasks were accepted and how
many of these failed. There is one pick a task, by a model that never saw it, so that picks are
exchangeable with that of the next task. Two promises can be read off it, at run time, for any risk:

- *with confidence* (learn then test, Angelopoulos et al., 2021; selection with guaranteed risk,
  Geifman & El-Yaniv, 2017): P(fails | accepted) ≤ max_risk, except in a share 1 − confidence of
  calibrations. Each threshold is the score of the pick at a rank fixed beforehand. Given it, the
  picks strictly above are independent draws from those above, so that the failures among them are
  binomial. The bound is that of Clopper and Pearson, at a confidence that makes all thresholds
  hold at once; hence the risk may be chosen after looking.
- *on average* (conformal risk control, Angelopoulos et al., 2022): P(accepted and fails) ≤
  max_risk, over calibrations. Weaker, and to be had with far fewer tasks.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.special import betaincinv

from harness_core.records import Record

_Doubles = npt.NDArray[np.float64]

ALPHAS: Final = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
"""Risks that are looked at where nobody names others."""
ACCEPTS_ALL: Final = -1.0

_SHARES: Final = (0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0)
"""Shares of the calibration tasks that the thresholds accept."""
_N_QUANTILES: Final = 21
_SOLVED: Final = 1.0 - 1e-6
_DIGITS: Final = 6


class RiskPoint(Record):
    """One threshold, and what became of the picks above it."""

    threshold: float = Field(ge=ACCEPTS_ALL, le=1)
    """Picks with a probability of success above it are accepted; −1 accepts all."""
    n_accepted: int = Field(ge=0)
    n_failed: int = Field(ge=0)


class Feasibility(Record):
    """What a risk costs: how much is accepted, or that it cannot be promised."""

    max_risk: float
    is_feasible: bool
    threshold: float | None
    """None where no threshold reaches the risk."""
    accepted_share: float
    observed_risk: float | None
    """Share of failures among the accepted picks; None where none is accepted."""
    risk_bound: float | None
    """Upper bound of the risk of accepted picks, at the confidence asked for."""
    n_tasks_needed: int
    """Accepted tasks without a single failure that this risk takes at least."""


class Abstention(Record):
    """The risk curve and what the simple rules need."""

    n_tasks: int = Field(ge=0)
    group_size: int = Field(ge=1)
    """Most candidates that a calibration pick was chosen from."""
    n_looks: int = Field(ge=1)
    """Thresholds that were fixed beforehand; the bounds hold for all of them at once."""
    points: tuple[RiskPoint, ...]
    """From the strictest threshold to the one that accepts all."""
    mean_value: float | None
    """Mean value Q of the picks; None without any."""
    spread: tuple[float, ...]
    """Evenly spaced quantiles of the probability of success of candidates, every task alike."""

    def risk_bound(self, point: RiskPoint, *, confidence: float) -> float:
        """Upper bound of P(fails | accepted) at one of the points."""
        n, k = point.n_accepted, point.n_failed
        if k >= n:
            return 1.0
        error = (1.0 - confidence) / self.n_looks
        return float(betaincinv(k + 1, n - k, 1.0 - error))

    def with_confidence(self, max_risk: float, *, confidence: float) -> RiskPoint | None:
        """The point that accepts most with P(fails | accepted) ≤ `max_risk`; None for none."""
        return self._largest(
            [p for p in self.points if self.risk_bound(p, confidence=confidence) <= max_risk]
        )

    def on_average(self, max_risk: float) -> RiskPoint | None:
        """The point that accepts most with P(accepted and fails) ≤ `max_risk` on average."""
        within = []
        for point in self.points:
            # Failures only grow along the curve, as conformal risk control asks for.
            if (point.n_failed + 1) / (self.n_tasks + 1) > max_risk:
                break
            within.append(point)
        return self._largest(within)

    def table(
        self, alphas: Sequence[float] = ALPHAS, *, confidence: float
    ) -> tuple[Feasibility, ...]:
        """What each of these risks costs."""
        return tuple(self._row(alpha, confidence=confidence) for alpha in alphas)

    def reading(self, max_risk: float, *, confidence: float) -> str:
        """What one risk costs, in a sentence."""
        row = self._row(max_risk, confidence=confidence)
        wanted = f"at most {max_risk:g} of accepted picks fail, with confidence {confidence:g}"
        if row.is_feasible:
            return (
                f"That {wanted}, takes standing aside in {100 * (1 - row.accepted_share):.0f} % of "
                f"{self.n_tasks} calibration tasks."
            )
        return (
            f"That {wanted}, cannot be promised by any threshold with {self.n_tasks} calibration "
            f"tasks: it takes at least {row.n_tasks_needed} accepted tasks without a failure, so "
            f"the controller would always stand aside.{self._least(confidence)}"
        )

    def _least(self, confidence: float) -> str:
        bounds = [self.risk_bound(point, confidence=confidence) for point in self.points]
        least = min(bounds, default=1.0)
        return f" The least that can be promised is {least:.2f}." if least < 1 else ""

    def _row(self, max_risk: float, *, confidence: float) -> Feasibility:
        point = self.with_confidence(max_risk, confidence=confidence)
        error = (1.0 - confidence) / self.n_looks
        n_accepted = 0 if point is None else point.n_accepted
        return Feasibility(
            max_risk=max_risk,
            is_feasible=point is not None,
            threshold=None if point is None else point.threshold,
            accepted_share=n_accepted / max(self.n_tasks, 1),
            observed_risk=None if point is None else point.n_failed / n_accepted,
            risk_bound=None if point is None else self.risk_bound(point, confidence=confidence),
            n_tasks_needed=math.ceil(math.log(error) / math.log1p(-max_risk)),
        )

    @staticmethod
    def _largest(points: Sequence[RiskPoint]) -> RiskPoint | None:
        return max(points, key=lambda point: point.n_accepted, default=None)


class TaskPicks(NamedTuple):
    """One pick a task, by a model that never saw the task."""

    probability: _Doubles  # [N] calibrated probability of success of the pick
    success: _Doubles  # [N] hidden outcome in [0, 1]
    dangerous: npt.NDArray[np.bool_]  # [N]
    value: _Doubles  # [N] value Q of the pick
    candidates: Sequence[_Doubles]
    """[K] probabilities of the candidates that each pick was chosen from."""


def fit_abstention(picks: TaskPicks, *, group_size: int) -> Abstention:
    """The risk curve of picks; anything short of full success counts as a failure."""
    failed = (picks.success < _SOLVED) | picks.dangerous
    n = len(failed)
    points = {point.n_accepted: point for point in _points(picks.probability, failed)}
    return Abstention(
        n_tasks=n,
        group_size=group_size,
        n_looks=len(_SHARES),
        points=tuple(points[count] for count in sorted(points)),
        mean_value=round(float(picks.value.mean()), _DIGITS) if n else None,
        spread=_spread(picks.candidates),
    )


def _points(probability: _Doubles, failed: npt.NDArray[np.bool_]) -> list[RiskPoint]:
    n = len(failed)
    points = []
    descending = np.sort(probability)[::-1]
    for share in _SHARES if n else ():
        rank = math.ceil(share * n)
        # Strictly above the pick at the next rank: ties accept fewer, never more.
        threshold = float(descending[rank]) if rank < n else ACCEPTS_ALL
        accepted = probability > threshold
        if accepted.any():
            points.append(
                RiskPoint(
                    threshold=threshold,
                    n_accepted=int(accepted.sum()),
                    n_failed=int((accepted & failed).sum()),
                )
            )
    return points


def _spread(candidates: Sequence[_Doubles]) -> tuple[float, ...]:
    known = [row for row in candidates if len(row)]
    if not known:
        return ()
    values = np.concatenate(known)
    weights = np.concatenate([np.full(len(row), 1.0 / len(row)) for row in known])
    order = np.argsort(values, kind="stable")
    up_to = np.cumsum(weights[order]) / weights.sum()
    middles = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
    quantiles = values[order][np.minimum(np.searchsorted(up_to, middles), len(values) - 1)]
    return tuple(round(float(value), _DIGITS) for value in quantiles)


def figures_of(abstention: Abstention, *, max_risk: float, confidence: float) -> Mapping[str, Any]:
    """Plain JSON values for a report."""
    rows = abstention.table(confidence=confidence)
    last = abstention.points[-1] if abstention.points else None
    return {
        "n_tasks": abstention.n_tasks,
        "confidence": confidence,
        "base_risk": None if last is None else round(last.n_failed / last.n_accepted, _DIGITS),
        "mean_value": abstention.mean_value,
        "max_risk": {f"{row.max_risk:g}": _rounded(row) for row in rows},
        "reading": abstention.reading(max_risk, confidence=confidence),
    }


def _rounded(row: Feasibility) -> dict[str, Any]:
    return {
        name: round(value, _DIGITS) if isinstance(value, float) else value
        for name, value in row.model_dump(exclude={"max_risk"}).items()
    }
