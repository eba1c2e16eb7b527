"""A student beside its teacher: both choose from the same candidates of tasks that neither saw.

The two see the same attempts in different features, so each has decision groups of its own; ids,
labels and the random subsets are the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.stats import spearmanr

from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.config import EvaluationConfig
from harness_core.evaluation.crossfit import CrossFit
from harness_core.evaluation.metrics import Doubles, gap_closed, json_ready, within_task_auc
from harness_core.evaluation.selection import ORACLE, RANDOM, Outcomes, judge, merge, pick_shares
from harness_core.evaluation.subsets import Subset, draw_subsets, labelled, whole
from harness_core.features.batch import DecisionGroup, Floats
from harness_core.trajectories.vocabulary import GroupKind

TEACHER: Final = "teacher"
STUDENT: Final = "student"

_MIN_RANKED: Final = 2


class Side(NamedTuple):
    """One of the two: its models, and the attempts in its features."""

    judged: CrossFit
    groups: Sequence[DecisionGroup]

    def attempts(self) -> list[DecisionGroup]:
        """Complete attempts with a known outcome."""
        return labelled([group for group in self.groups if group.kind is GroupKind.ATTEMPT])


class _Pair(NamedTuple):
    """The same subsets as teacher and student see them."""

    teacher: Sequence[Subset]
    student: Sequence[Subset]


def compare_student(teacher: Side, student: Side, config: EvaluationConfig) -> dict[str, Any]:
    """Gap closed by both for each K, what the student loses, and how alike the two choose.

    `headline` is at the headline K, with all attempts of tasks that have fewer. Where tasks have no
    more attempts than that, it rests on one choice a task: `overall` is the mean over all K up to
    it, of which the smaller ones are judged on many subsets of every task.
    """
    bootstrap = Bootstrap(
        n_resamples=config.n_resamples, confidence=config.confidence, seed=config.seed
    )
    attempts = (teacher.attempts(), student.attempts())
    assert [group.group_id for group in attempts[0]] == [group.group_id for group in attempts[1]]
    sizes = sorted({*config.group_sizes, config.headline_size} - {1})
    drawn = {size: _drawn(attempts, size, config) for size in sizes}
    everything = _Pair(*map(whole, attempts))
    tables = {size: _judge(teacher, student, pair) for size, pair in drawn.items()}
    first, rest = tables[config.headline_size], _judge(teacher, student, everything)
    headline = (merge(first[0], rest[0]), merge(first[1], rest[1]))
    auc = {
        name: _mean(within_task_auc(groups, side.judged.scores(subsets)))
        for name, side, groups, subsets in zip(
            (TEACHER, STUDENT), (teacher, student), attempts, everything, strict=True
        )
    }
    shown = drawn[config.headline_size]
    result = {
        "k": {str(size): _row(*table, bootstrap) for size, table in tables.items()},
        "headline": {"size": config.headline_size, **_row(*headline, bootstrap)},
        "overall": _overall(
            {size: table for size, table in tables.items() if size <= config.headline_size},
            bootstrap,
        ),
        "within_task_auc": auc,
        "likeness": _likeness(teacher, student, shown if shown.teacher else everything),
    }
    ready: dict[str, Any] = json_ready(result)
    return ready


def _drawn(
    attempts: tuple[Sequence[DecisionGroup], ...], size: int, config: EvaluationConfig
) -> _Pair:
    return _Pair(
        *(
            draw_subsets(groups, size=size, n_subsets=config.n_subsets, seed=config.seed)
            for groups in attempts
        )
    )


def _judge(teacher: Side, student: Side, pair: _Pair) -> tuple[Outcomes, Outcomes]:
    return (
        judge(pair.teacher, {TEACHER: teacher.judged.controller}),
        judge(pair.student, {STUDENT: student.judged.controller}),
    )


class _Rates(NamedTuple):
    """Success by selector: over the tasks, and over tasks drawn again."""

    means: Mapping[str, float]
    samples: Mapping[str, Doubles]
    n_tasks: int


def _rates(teacher: Outcomes, student: Outcomes, bootstrap: Bootstrap) -> _Rates | None:
    """None where no task has so many attempts."""
    tasks, ours = teacher.by_task(teacher.success)
    same_tasks, theirs = student.by_task(student.success)
    assert tasks == same_tasks
    if not tasks:
        return None
    columns = {
        **dict(zip(teacher.selectors, ours.T, strict=True)),
        STUDENT: theirs[:, student.selectors.index(STUDENT)],
    }
    names = list(columns)
    values = np.stack([columns[name] for name in names], axis=1)
    return _Rates(
        means=dict(zip(names, map(float, values.mean(axis=0)), strict=True)),
        samples=dict(zip(names, bootstrap.means(values).T, strict=True)),
        n_tasks=len(tasks),
    )


def _row(teacher: Outcomes, student: Outcomes, bootstrap: Bootstrap) -> dict[str, Any]:
    rates = _rates(teacher, student, bootstrap)
    if rates is None:
        return {"n_tasks": 0}
    return {**rates.means, **_lost([rates], bootstrap), "n_tasks": rates.n_tasks}


def _overall(
    tables: Mapping[int, tuple[Outcomes, Outcomes]], bootstrap: Bootstrap
) -> dict[str, Any]:
    """The mean over several K; the same tasks are drawn again for each where all have as many."""
    found = {size: _rates(*table, bootstrap) for size, table in tables.items()}
    kept = {size: rates for size, rates in found.items() if rates is not None}
    if not kept:
        return {"sizes": [], "n_tasks": 0}
    n_tasks = max(rates.n_tasks for rates in kept.values())
    return {"sizes": list(kept), **_lost(list(kept.values()), bootstrap), "n_tasks": n_tasks}


def _lost(parts: Sequence[_Rates], bootstrap: Bootstrap) -> dict[str, Any]:
    """Mean gap closed by both over the parts, and what the student loses."""
    sides = (TEACHER, STUDENT)
    gaps = {name: np.mean([_gap(part.means, name) for part in parts]) for name in sides}
    drawn = {name: np.mean([_gap(part.samples, name) for part in parts], axis=0) for name in sides}
    return {
        "gap_closed": {name: float(gap) for name, gap in gaps.items()},
        "intervals": {name: list(bootstrap.interval(gap)) for name, gap in drawn.items()},
        "gap_lost": float(gaps[TEACHER] - gaps[STUDENT]),
        "gap_lost_interval": list(bootstrap.interval(drawn[TEACHER] - drawn[STUDENT])),
    }


def _gap(rates: Mapping[str, Any], name: str) -> Doubles:
    return gap_closed(rates[name], rates[RANDOM], rates[ORACLE])


def _likeness(teacher: Side, student: Side, pair: _Pair) -> dict[str, float]:
    """How often both pick the same candidate, and how alike they rank all of a subset."""
    ours, theirs = teacher.judged.scores(pair.teacher), student.judged.scores(pair.student)
    same = [
        float((pick_shares([one])[0] * pick_shares([two])[0]).sum())
        for one, two in zip(ours, theirs, strict=True)
    ]
    ranked = [_spearman(one, two) for one, two in zip(ours, theirs, strict=True)]
    return {
        "same_pick": float(np.mean(same)) if same else np.nan,
        "spearman": float(np.nanmean(ranked)) if not np.isnan(ranked).all() else np.nan,
    }


def _spearman(one: Floats, two: Floats) -> float:
    if len(one) < _MIN_RANKED or np.ptp(one) == 0 or np.ptp(two) == 0:
        return float("nan")
    return float(spearmanr(one, two).statistic)


def _mean(per_task: Mapping[str, float]) -> float:
    return float(np.mean(list(per_task.values()))) if per_task else float("nan")
