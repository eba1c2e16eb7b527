"""A linear head beside the networks: ridge logistic regression of success on complete attempts.

Where tasks are few, what a straight line says of standardised columns errs otherwise than trees and
networks do; a part of its log-odds can be added to theirs. Fitted by damped Newton steps, which
need no seed and no step size.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from scipy.special import expit

from harness_core.errors import ModelError
from harness_core.features.batch import Floats
from harness_core.learners.attempt_rows import draw_attempts
from harness_core.learners.config import LinearConfig
from harness_core.learners.data import TrainingData
from harness_core.tables import publish_bytes

LINEAR: Final = "linear.safetensors"

_Doubles = npt.NDArray[np.float64]

_MAX_STEPS: Final = 50
_MIN_SPREAD: Final = 1e-6
_CLOSE: Final = 1e-6
"""Largest change of a weight, in log-odds a standard deviation, that ends the fit."""
_SHORTEST: Final = 1e-4
"""Share of a Newton step below which no shorter one is tried."""
_MAX_BYTES: Final = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearHead:
    """Log-odds of success as a weighted sum of columns, times what the head counts for."""

    weight: Floats
    """[D]; a column that never varied has 0."""
    bias: float

    def score(self, x: Floats) -> Floats:
        """What is added to the other heads' log-odds, [N], of [state | set-relative] [N, D]."""
        return np.asarray(x @ self.weight + self.bias, dtype=np.float32)


def fit_linear(data: TrainingData, config: LinearConfig, *, seed: int) -> LinearHead | None:
    """Fit on the attempts of `data`; None where there are none, or all turned out alike."""
    if not config.share or data.attempts is None:
        return None
    rows = draw_attempts(data.attempts, max_rows=config.max_rows, seed=seed)
    if not len(rows.label) or rows.label.min() == rows.label.max():
        return None
    mean, spread = rows.x.mean(axis=0, dtype=np.float64), rows.x.std(axis=0, dtype=np.float64)
    varies = spread > _MIN_SPREAD
    scale = np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0)
    weight, bias = ridge_logistic(
        (rows.x - mean) * scale, rows.label.astype(np.float64), penalty=config.penalty
    )
    weight = weight * scale
    return LinearHead(
        weight=(config.share * weight).astype(np.float32),
        bias=config.share * float(bias - mean @ weight),
    )


def ridge_logistic(x: _Doubles, label: _Doubles, *, penalty: float) -> tuple[_Doubles, float]:
    """Weights [D] and intercept that minimise Σ cross-entropy + penalty/2 · |weights|².

    Args:
        x: rows [N, D].
        label: in [0, 1], [N]; not all 0 and not all 1.
        penalty: positive; the intercept is free.
    """
    rows = np.hstack([x, np.ones((len(x), 1))])
    pull = np.append(np.full(x.shape[1], penalty), 0.0)
    found = np.zeros(rows.shape[1])
    for _ in range(_MAX_STEPS):
        chance = expit(rows @ found)
        gradient = rows.T @ (chance - label) + pull * found
        # Newton's matrix is singular where all chances are 0 or 1; a trace of the identity helps.
        curvature = (rows * (chance * (1.0 - chance))[:, None]).T @ rows
        curvature[np.diag_indices_from(curvature)] += pull + _MIN_SPREAD
        step = np.linalg.solve(curvature, gradient)
        length = 1.0
        now = _loss(rows, label, pull, found)
        while length > _SHORTEST and _loss(rows, label, pull, found - length * step) > now:
            length /= 2
        found = found - length * step
        if length * np.abs(step).max() < _CLOSE:
            break
    return found[:-1], float(found[-1])


def save_linear(folder: Path, head: LinearHead | None) -> None:
    """Write the head, or remove one that is left of another model."""
    path = folder / LINEAR
    if head is None:
        path.unlink(missing_ok=True)
        return
    bias = np.array([head.bias], dtype=np.float32)
    publish_bytes(path, save_arrays({"weight": head.weight, "bias": bias}))


def load_linear(folder: Path, *, width: int) -> LinearHead | None:
    """Read the head if there is one.

    Raises:
        ModelError: the file is too large, malformed, not finite, or of another width.
    """
    path = folder / LINEAR
    if not path.exists():
        return None
    if path.stat().st_size > _MAX_BYTES:
        raise ModelError(f"{path} is larger than {_MAX_BYTES} bytes")
    try:
        found = load_arrays(path.read_bytes())
    except (SafetensorError, ValueError) as error:
        raise ModelError(f"{path} is not a safetensors file: {error}") from error
    shapes = {name: value.shape for name, value in found.items()}
    if shapes != {"weight": (width,), "bias": (1,)}:
        raise ModelError(f"{path} holds {shapes}, expected a weight of {width} columns and a bias")
    if not all(value.dtype == np.float32 and np.isfinite(value).all() for value in found.values()):
        raise ModelError(f"{path} holds what is no finite number of 32 bits")
    return LinearHead(weight=found["weight"], bias=float(found["bias"][0]))


def _loss(rows: _Doubles, label: _Doubles, pull: _Doubles, weights: _Doubles) -> float:
    margin = rows @ weights
    fit = np.sum(np.logaddexp(0.0, margin) - label * margin)
    return float(fit + 0.5 * pull @ (weights * weights))
