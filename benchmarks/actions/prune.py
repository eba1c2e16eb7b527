"""Prune: keep one of K attempts at a task that are still running after the same number of steps.

At equal steps nothing says yet how an attempt will end, so that the stop leak is shut out.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.actions.logs import ActionLog
from benchmarks.actions.models import FoldModels
from benchmarks.actions.stop import running_signals
from harness_core.controller.stopping import Doubles, fit_logistic
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.metrics import auc, gap_closed, mean_by_task
from harness_core.features.batch import Integers

STEPS: Final = (1, 2)
_N_SUBSETS: Final = 20
_MIN_TASKS: Final = 10
_MIN_SPREAD: Final = 1e-6


def prune(
    log: ActionLog, models: FoldModels, *, size: int, bootstrap: Bootstrap, seed: int
) -> dict[str, Any]:
    """Success of the attempt that is kept after step 1 and 2, by what it is chosen by.

    Of `size` attempts, or of as many as ten tasks have running then.
    """
    signals = np.stack(running_signals(log, models.success_value(log)), axis=1).astype(np.float64)
    return {
        str(step): _after(log, signals, step, size=size, bootstrap=bootstrap, seed=seed)
        for step in STEPS
    }


def _after(
    log: ActionLog, signals: Doubles, step: int, *, size: int, bootstrap: Bootstrap, seed: int
) -> dict[str, Any]:
    arrays = log.transitions
    rows = np.flatnonzero(
        (arrays.step_index == step) & ~log.is_last & ~np.isnan(log.outcome)
    ).astype(np.int64)
    outcome = log.outcome[rows].astype(np.float64)
    scores = {
        "value": signals[rows, 0],
        "agent_prior": signals[rows, 1],
        "value_and_prior": _fitted(signals[rows], outcome, arrays.fold[rows]),
    }
    size = min(size, _common_size(arrays.task_id[rows]))
    if size < 2:  # noqa: PLR2004  # nothing to choose between
        return {
            "not_measured": f"fewer than {_MIN_TASKS} tasks have two attempts running after "
            f"step {step}"
        }
    draws = list(_draws(arrays.task_id[rows], size, seed=seed))
    n_tasks = len({task for task, _ in draws})
    worth = {
        "random": [float(outcome[index].mean()) for _, index in draws],
        "oracle": [float(outcome[index].max()) for _, index in draws],
        **{name: _kept(draws, score, outcome) for name, score in scores.items()},
        "value_z_plus_prior_z": [
            _worth(_z(scores["value"][index]) + _z(scores["agent_prior"][index]), outcome[index])
            for _, index in draws
        ],
    }
    tasks = [task for task, _ in draws]
    by_task = {
        name: mean_by_task(zip(tasks, values, strict=True)) for name, values in worth.items()
    }
    return {
        "k": size,
        "n_tasks": n_tasks,
        "n_attempts": len(rows),
        "within_task_auc": {
            name: _auc(arrays.task_id[rows], score, outcome) for name, score in scores.items()
        },
        "kept": {name: _figures(by_task, name, bootstrap) for name in by_task},
    }


def _common_size(task_id: npt.NDArray[np.str_]) -> int:
    """The largest number of attempts that ten tasks have."""
    counts = np.sort(np.unique(task_id, return_counts=True)[1])[::-1]
    return int(counts[_MIN_TASKS - 1]) if len(counts) >= _MIN_TASKS else 0


def _fitted(signals: Doubles, outcome: Doubles, fold: Integers) -> Doubles:
    """Logit of final success from value, prior and visible checks, by the other folds."""
    score = np.zeros(len(outcome))
    for one in np.unique(fold):
        outside = fold != one
        if not outside.any():
            continue
        weights, intercept = fit_logistic(signals[outside], outcome[outside])
        score[~outside] = signals[~outside] @ weights + intercept
    return score


def _draws(
    task_id: npt.NDArray[np.str_], size: int, *, seed: int
) -> Iterator[tuple[str, Integers]]:
    for number, task in enumerate(np.unique(task_id)):
        members = np.flatnonzero(task_id == task)
        if len(members) < size:
            continue
        rng = np.random.default_rng([seed, number])
        for _ in range(_N_SUBSETS if len(members) > size else 1):
            yield str(task), rng.choice(members, size=size, replace=False).astype(np.int64)


def _kept(draws: list[tuple[str, Integers]], score: Doubles, outcome: Doubles) -> list[float]:
    return [_worth(score[index], outcome[index]) for _, index in draws]


def _worth(score: Doubles, outcome: Doubles) -> float:
    """Success of the best; of those that are tied, the mean."""
    return float(outcome[score >= score.max() - _MIN_SPREAD].mean())


def _z(values: Doubles) -> Doubles:
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > _MIN_SPREAD else np.zeros_like(values)


def _auc(task_id: npt.NDArray[np.str_], score: Doubles, outcome: Doubles) -> float:
    per_task = mean_by_task(
        (str(task), auc(score[task_id == task], outcome[task_id == task]))
        for task in np.unique(task_id)
    )
    return float(np.mean(list(per_task.values()))) if per_task else float("nan")


def _figures(
    by_task: Mapping[str, Mapping[str, float]], name: str, bootstrap: Bootstrap
) -> dict[str, Any]:
    """Success with its interval, gap closed, and the paired difference to the agent prior."""
    columns = {key: np.array(list(values.values())) for key, values in by_task.items()}
    metric = bootstrap.mean(by_task[name], name=name)
    sampled = {key: bootstrap.means(values) for key, values in columns.items()}
    gap = gap_closed(columns[name].mean(), columns["random"].mean(), columns["oracle"].mean())
    interval = bootstrap.interval(gap_closed(sampled[name], sampled["random"], sampled["oracle"]))
    to_prior = bootstrap.difference(columns[name] - columns["agent_prior"])
    return {
        "success": {"mean": metric.value, "low": metric.low, "high": metric.high},
        "gap_closed": {"value": float(gap), "low": interval.low, "high": interval.high},
        "minus_agent_prior": to_prior._asdict(),
    }
