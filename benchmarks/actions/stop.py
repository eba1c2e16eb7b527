"""Stop or continue: within one run, hand in after this step or let the agent take another.

There are two reasons to stop: what there is looks good enough, or nothing more will come of it.
The first is decided by the probability that this program succeeds, the second by the probability
that the run will yet.

Only runs are replayed of which every step is labelled. Where a log stopped because a hidden grader
was satisfied, its own stop and "always to the end" know the answer, and every rule that goes on
long enough inherits it: such figures are marked as inflated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.actions.logs import ActionLog
from benchmarks.actions.models import FoldModels
from harness_core.controller.stopping import Doubles, fit_logistic, thresholds
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.metrics import mean_by_task
from harness_core.features.batch import Floats, Integers

_MIN_RUNS: Final = 50
_FIXED_STEPS: Final = (2, 3, 5)
_MAX_LOSS: Final = 0.01
"""Success that giving up may cost on the folds that its threshold is set on."""
_PRIOR_MARGIN: Final = 0.01
SIGNALS: Final = ("value", "prior", "visible", "visible_known", "log_step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """R runs of at most T steps; place t is after t + 1 steps, and NaN behind the end of a run."""

    task_id: tuple[str, ...]  # [R]
    fold: Integers  # [R]
    length: Integers  # [R] steps that the log took
    label: Doubles  # [R, T] success of handing in here
    visible: Doubles  # [R, T] visible checks passed; NaN without any
    signals: Doubles  # [R, T, len(SIGNALS)]

    def last(self) -> Integers:
        """Place of the last step of each run."""
        return self.length - 1


def stop_or_continue(log: ActionLog, models: FoldModels, *, bootstrap: Bootstrap) -> dict[str, Any]:
    """Success against steps used, for the controller's stop and what it has to beat."""
    runs = labelled_runs(log, models)
    n_runs = len(runs.fold)
    if n_runs < _MIN_RUNS or runs.length.max(initial=1) < 2:  # noqa: PLR2004  # nothing to decide
        return {"not_measured": f"{n_runs} runs of two or more steps are labelled at every step"}
    known = runs.label[~np.isnan(runs.label)]
    if known.min() == known.max():
        return {"not_measured": f"all steps of {n_runs} labelled runs have the same label"}
    probability = _probability(runs, runs.label)
    final = np.broadcast_to(_at(runs.label, runs.last())[:, None], runs.label.shape)
    future = _probability(runs, np.where(np.isnan(runs.label), np.nan, final))
    places: dict[str, Integers] = {
        "logged_stop": runs.last(),
        "first_step": np.zeros(n_runs, dtype=np.int64),
        "oracle_stop": _first(runs.label >= 1.0, runs.last()),
        "controller_most_success": _controller(runs, probability, is_thrifty=False),
        "controller_fewest_steps": _controller(runs, probability, is_thrifty=True),
        "controller_gives_up": _gives_up(runs, future),
        **{f"at_most_{n}_steps": np.minimum(runs.last(), n - 1) for n in _FIXED_STEPS},
    }
    if not np.isnan(runs.visible).all():
        places["first_visible_pass"] = _first(runs.visible >= 1.0, runs.last())
    return {
        "label": log.label_source,
        "n_steps_presumed_wrong": log.n_presumed,
        "presumption_errs": log.presumed_error,
        "inflated": log.has_hidden_stop,
        "n_runs": n_runs,
        "n_tasks": len(set(runs.task_id)),
        "n_runs_left_out": int(log.is_last.sum()) - n_runs,
        "rules": {name: _used(runs, place, bootstrap) for name, place in places.items()},
    }


def labelled_runs(log: ActionLog, models: FoldModels) -> Runs:
    """The runs of two or more steps whose every step is labelled."""
    rows = [run for run in _runs(log) if len(run) > 1]
    longest = max((len(run) for run in rows), default=1)
    value = models.success_value(log)

    def padded(column: Floats) -> Doubles:
        table = np.full((len(rows), longest), np.nan)
        for number, run in enumerate(rows):
            table[number, : len(run)] = column[run]
        return table

    arrays = log.transitions
    return Runs(
        task_id=tuple(str(arrays.task_id[run[0]]) for run in rows),
        fold=np.array([arrays.fold[run[0]] for run in rows], dtype=np.int64),
        length=np.array([len(run) for run in rows], dtype=np.int64),
        label=padded(log.stop_label),
        visible=padded(log.visible),
        signals=np.stack([padded(column) for column in running_signals(log, value)], axis=-1),
    )


def running_signals(log: ActionLog, value: Floats) -> tuple[Floats, ...]:
    """What the probability of a running attempt is made of, in the order of `SIGNALS`."""
    prior = np.clip(log.prior, _PRIOR_MARGIN, 1.0 - _PRIOR_MARGIN)
    known = ~np.isnan(log.visible)
    return (
        value,
        np.log(prior / (1.0 - prior)).astype(np.float32),
        np.nan_to_num(log.visible, nan=0.0),
        known.astype(np.float32),
        np.log1p(log.transitions.step_index).astype(np.float32),
    )


def _runs(log: ActionLog) -> Iterator[Integers]:
    """Rows of s_1 … s_T of each run whose every step is labelled."""
    run = log.transitions.trajectory
    for rows in np.split(np.arange(len(run)), np.flatnonzero(np.diff(run)) + 1):
        after = rows[log.transitions.step_index[rows] > 0]
        if len(after) and not np.isnan(log.stop_label[after]).any():
            yield after


def _probability(runs: Runs, label: Doubles) -> Doubles:
    """Calibrated probability of a label [R, T] at each place; by the other folds."""
    valid = ~np.isnan(label)
    probability = np.full(label.shape, np.nan)
    for fold in np.unique(runs.fold):
        outside, inside = runs.fold != fold, runs.fold == fold
        chosen = valid & outside[:, None]
        weights, intercept = fit_logistic(runs.signals[chosen], label[chosen])
        mask = valid & inside[:, None]
        margin = runs.signals[mask] @ weights + intercept
        probability[mask] = 1.0 / (1.0 + np.exp(-margin))
    return probability


def _controller(runs: Runs, probability: Doubles, *, is_thrifty: bool) -> Integers:
    """Stop at a threshold that was set on the other folds.

    It is the one with most success there; if thrifty, the lowest with no less success than the
    log's own stop had.
    """
    place = runs.last().copy()
    for fold in np.unique(runs.fold):
        outside, inside = runs.fold != fold, runs.fold == fold
        threshold = _threshold(runs, probability, outside, is_thrifty=is_thrifty)
        place[inside] = _first(probability >= threshold, runs.last())[inside]
    return place


def _threshold(
    runs: Runs, probability: Doubles, rows: npt.NDArray[np.bool_], *, is_thrifty: bool
) -> float:
    logged = float(_at(runs.label, runs.last())[rows].mean())
    tried = thresholds(probability[rows])
    places = [_first(probability >= threshold, runs.last())[rows] for threshold in tried]
    worth = np.array([_at(runs.label[rows], place).mean() for place in places])
    steps = np.array([place.mean() for place in places])
    eligible = worth >= (logged if is_thrifty else worth.max())
    if not eligible.any():
        return np.inf
    # Of thresholds that stop at the same places the middle one errs least on other tasks.
    fewest = eligible & (steps == steps[eligible].min())
    return float(np.median(tried[fewest]))


def _gives_up(runs: Runs, future: Doubles) -> Integers:
    """Stop where the run is not likely to succeed any more, at the highest threshold that pays."""
    place = runs.last().copy()
    for fold in np.unique(runs.fold):
        outside, inside = runs.fold != fold, runs.fold == fold
        wanted = float(_at(runs.label, runs.last())[outside].mean()) - _MAX_LOSS
        for threshold in thresholds(future[outside])[::-1]:
            found = _first(future <= threshold, runs.last())
            if float(_at(runs.label, found)[outside].mean()) >= wanted:
                place[inside] = found[inside]
                break
    return place


def _first(hit: npt.NDArray[np.bool_], otherwise: Integers) -> Integers:
    return np.asarray(np.where(hit.any(axis=1), hit.argmax(axis=1), otherwise), dtype=np.int64)


def _at(values: Doubles, place: Integers) -> Doubles:
    return np.asarray(np.take_along_axis(values, place[:, None], axis=1)[:, 0])


def _used(runs: Runs, place: Integers, bootstrap: Bootstrap) -> dict[str, Any]:
    success = _at(runs.label, place)
    to_log = _by_task(runs, success - _at(runs.label, runs.last()))
    return {
        "success": _mean(runs, success, bootstrap),
        "steps": _mean(runs, (place + 1).astype(np.float64), bootstrap),
        "minus_logged_stop": bootstrap.difference(list(to_log.values()))._asdict(),
    }


def _mean(runs: Runs, values: Doubles, bootstrap: Bootstrap) -> dict[str, float]:
    metric = bootstrap.mean(_by_task(runs, values), name="")
    return {"mean": metric.value, "low": metric.low, "high": metric.high}


def _by_task(runs: Runs, values: Doubles) -> Mapping[str, float]:
    return mean_by_task(zip(runs.task_id, values.tolist(), strict=True))
