"""Whether predicted probabilities of success mean what they say, on held-out attempts."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import IsotonicRegression

from harness_core.evaluation.metrics import Doubles

_N_BINS = 10
_N_CURVE_POINTS = 21


def reliability(probability: npt.ArrayLike, label: npt.ArrayLike) -> dict[str, Any]:
    """ECE and Brier score, reliability by bins of equal count, and the isotonic curve.

    ECE is the mean distance of predicted and observed rate over bins of equal count. The isotonic
    curve is the best monotone map from predicted to observed: the diagonal when calibrated.
    """
    predicted = np.asarray(probability, dtype=np.float64)
    observed = np.asarray(label, dtype=np.float64)
    order = np.argsort(predicted, kind="stable")
    predicted, observed = predicted[order], observed[order]
    if not len(predicted):
        return {"n": 0, "ece": math.nan, "brier": math.nan, "bins": [], "isotonic": []}
    # Equal predictions share their mean outcome, so that no order of attempts can matter.
    _, tie, count = np.unique(predicted, return_inverse=True, return_counts=True)
    shared = (np.bincount(tie, weights=observed) / count)[tie]
    bins = [
        {"predicted": float(p.mean()), "observed": float(o.mean()), "n": len(p)}
        for p, o in zip(_split(predicted), _split(shared), strict=True)
    ]
    error = sum(item["n"] * abs(item["predicted"] - item["observed"]) for item in bins)
    return {
        "n": len(predicted),
        "ece": error / len(predicted),
        "brier": float(np.mean((predicted - observed) ** 2)),
        "bins": bins,
        "isotonic": _isotonic(predicted, observed),
    }


def _split(values: Doubles) -> list[Doubles]:
    return np.array_split(values, min(_N_BINS, len(values)))


def _isotonic(predicted: Doubles, observed: Doubles) -> list[dict[str, float]]:
    fitted = IsotonicRegression(out_of_bounds="clip").fit(predicted, observed)
    points = np.linspace(predicted[0], predicted[-1], _N_CURVE_POINTS)
    return [
        {"predicted": float(x), "observed": float(y)}
        for x, y in zip(points, fitted.predict(points), strict=True)
    ]
