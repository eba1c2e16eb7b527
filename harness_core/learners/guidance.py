"""What guidance is worth in a state, learnt from logs in which it was drawn at random.

Two steps, both ridge regressions in closed form:

1. A baseline b(s) + u_task of success without guidance, fitted on the steps where none was drawn.
   The effect u_task of each task (hard or easy, whatever it looks like) is shrunk to 0; it serves
   to compare like with like here and is not part of the model.
2. For each template g the gain y − baseline of the steps where g was drawn, as c_g + w_g · x, with
   a pull of c_g and w_g to 0. The pulls are counted in steps, so that more logs outweigh them; to
   choose them on inner folds was worse, since so few draws tell too little about them.

Draws do not depend on the outcome, so the regressions need no weights. Both steps are repeated on
resampled tasks, which gives a gain its interval and says how sure its sign is; whoever chooses has
to look at that. What it is worth to choose the template with the largest gain is measured on inner
folds of tasks. Everything is numpy; equal data give equal bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from harness_core.features.batch import Flags, Floats, Integers
from harness_core.features.guided import NO_TEMPLATE, GuidedSteps

_Doubles = npt.NDArray[np.float64]

CONTEXT: Final = ("task.", "numeric.", "agent_prior")
"""Beginnings of the names of the state columns that a gain may depend on."""
MIN_STEPS: Final = 20
MIN_TASKS: Final = 10
"""A template that was drawn more rarely is never given."""
CONFIDENCE: Final = 0.8
"""Of the interval of a gain."""

_PULL_OF_TASKS: Final = 4.0
_PULL_OF_BASELINE: Final = 100.0
_PULL_OF_GAIN: Final = 20.0
_PULL_OF_CONTEXT: Final = 30.0
"""Steps that it takes to outweigh the pull of a coefficient to 0."""
_TINY_PULL: Final = 1e-9
"""Keeps equations solvable where nothing was drawn."""
_N_INNER_FOLDS: Final = 5
_N_PARTITIONS: Final = 4
"""Ways to cut the tasks into inner folds; one alone decides too much by chance."""
_N_RESAMPLES: Final = 200


class Gains(NamedTuple):
    """What each of G templates gains in one state, in points of success."""

    value: _Doubles  # [G]
    low: _Doubles  # [G]
    high: _Doubles  # [G]
    sureness: _Doubles  # [G] share of resampled models that see a gain


@dataclass(frozen=True, slots=True, kw_only=True)
class GainModel:
    """Gains of G templates from P columns of a state, with R resampled versions."""

    templates: tuple[str, ...]
    columns: tuple[str, ...]  # names of the P state columns
    centre: Floats  # [P]
    scale: Floats  # [P]
    weights: Floats  # [G, 1 + P], the constant first
    resampled: Floats  # [R, G, 1 + P]

    def gains(self, context: Floats) -> Gains:
        """What each template gains where the P columns have these values."""
        x = np.concatenate([[1.0], (context.astype(np.float64) - self.centre) / self.scale])
        samples = self.resampled @ x
        low, high = np.quantile(samples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
        return Gains(self.weights @ x, low, high, (samples > 0).mean(axis=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedGains:
    """A model, and what is known of how it came about."""

    model: GainModel
    worth: float
    """Gain a state of choosing the template with the largest gain, on inner folds."""
    n_steps: Mapping[str, int]
    """Steps by template."""


def fit_gains(steps: GuidedSteps, names: Sequence[str], *, seed: int) -> FittedGains | None:
    """Learn what each template gains.

    Args:
        steps: logged steps; those of tasks that the model will judge must not be among them.
        names: names of the columns of their states.
        seed: of inner folds and resamples.

    Returns:
        None where no template was drawn often enough, or never none.
    """
    templates = _drawn_often(steps)
    if not templates or NO_TEMPLATE not in steps.template:
        return None
    columns = [column for column, name in enumerate(names) if name.startswith(CONTEXT)]
    table = _Table.of(steps, templates, columns)
    rng = np.random.default_rng(seed)
    worth = _worth(table, rng)
    once = np.ones(table.n_tasks)
    resamples = rng.multinomial(table.n_tasks, once / table.n_tasks, size=_N_RESAMPLES)
    resampled = [_weights(table, row.astype(np.float64)) for row in resamples]
    model = GainModel(
        templates=templates,
        columns=tuple(names[column] for column in columns),
        centre=table.centre.astype(np.float32),
        scale=table.scale.astype(np.float32),
        weights=_weights(table, once).astype(np.float32),
        resampled=np.stack(resampled).astype(np.float32),
    )
    n_steps = {name: int(rows.sum()) for name, rows in zip(templates, table.drawn.T, strict=True)}
    return FittedGains(model=model, worth=worth, n_steps=n_steps)


def _drawn_often(steps: GuidedSteps) -> tuple[str, ...]:
    """Templates that were drawn often enough, sorted."""
    return tuple(
        name
        for name in sorted(set(steps.template.tolist()) - {NO_TEMPLATE})
        for rows in [steps.template == name]
        if rows.sum() >= MIN_STEPS and len(set(steps.task_id[rows].tolist())) >= MIN_TASKS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """N steps as the regressions see them."""

    design: _Doubles  # [N, 1 + P]
    centre: _Doubles  # [P]
    scale: _Doubles  # [P]
    success: _Doubles  # [N]
    propensity: _Doubles  # [N]
    task: Integers  # [N] number of the task
    n_tasks: int
    is_plain: Flags  # [N] no template was drawn
    drawn: Flags  # [N, G]
    may_be_drawn: Flags  # [N, G] whether it ever was in such a state: the first, or a later one

    @classmethod
    def of(cls, steps: GuidedSteps, templates: Sequence[str], columns: Sequence[int]) -> "_Table":
        context = steps.state[:, columns].astype(np.float64)
        spread = context.std(axis=0)
        centre, scale = context.mean(axis=0), np.where(spread > 0, spread, 1.0)
        known, task = np.unique(steps.task_id, return_inverse=True)
        drawn = np.stack([steps.template == name for name in templates], axis=1)
        first = steps.is_first
        ever = {is_first: drawn[first == is_first].any(axis=0) for is_first in (True, False)}
        return cls(
            design=np.column_stack([np.ones(len(steps)), (context - centre) / scale]),
            centre=centre,
            scale=scale,
            success=steps.success.astype(np.float64),
            propensity=steps.propensity.astype(np.float64),
            task=task.astype(np.int64),
            n_tasks=len(known),
            is_plain=steps.template == NO_TEMPLATE,
            drawn=drawn,
            may_be_drawn=np.where(first[:, None], ever[True], ever[False]),
        )


def _worth(table: _Table, rng: np.random.Generator) -> float:
    """What choosing by gains is worth on tasks that were not learnt from."""
    # The baseline of a task comes from its own plain steps, which hold none of its gains.
    gain = table.success - _baseline(table, np.ones(table.n_tasks))
    partitions = [
        rng.permutation(table.n_tasks)[table.task] % _N_INNER_FOLDS for _ in range(_N_PARTITIONS)
    ]
    return float(np.mean([_worth_on(table, gain, fold) for fold in partitions]))


def _worth_on(table: _Table, gain: _Doubles, fold: Integers) -> float:
    """Mean gain of the steps where just the chosen template was drawn, times how often one is.

    Steps are weighted by the inverse of the propensity of the draw (self-normalised).
    """
    expected = np.full(table.drawn.shape, -np.inf)
    for inner in range(_N_INNER_FOLDS):
        is_out = fold == inner
        learnt = _learnt(table, gain, np.where(is_out, 0.0, 1.0))
        expected[is_out] = table.design[is_out] @ learnt.T
    expected[~table.may_be_drawn] = -np.inf
    choice = expected.argmax(axis=1)
    is_given = expected.max(axis=1) > 0
    is_hit = is_given & table.drawn[np.arange(len(choice)), choice]
    if not is_hit.any():
        return 0.0
    mean = np.average(gain[is_hit], weights=1 / table.propensity[is_hit])
    return float(mean * is_given.mean())


def _weights(table: _Table, n_times: _Doubles) -> _Doubles:
    """Weights [G, 1 + P] where each task counts so many times."""
    gain = table.success - _baseline(table, n_times)
    return _learnt(table, gain, n_times[table.task])


def _learnt(table: _Table, gain: _Doubles, weight: _Doubles) -> _Doubles:
    pull = np.full(table.design.shape[1], _PULL_OF_CONTEXT)
    pull[0] = _PULL_OF_GAIN
    return np.stack(
        [_ridge(table.design[rows], gain[rows], weight[rows], pull) for rows in table.drawn.T]
    )


def _baseline(table: _Table, n_times: _Doubles) -> _Doubles:
    """Success [N] to be expected without guidance."""
    design = np.concatenate([table.design, np.eye(table.n_tasks)[table.task]], axis=1)
    pull = np.full(design.shape[1], _PULL_OF_TASKS)
    pull[: table.design.shape[1]] = _PULL_OF_BASELINE
    pull[0] = 0.0
    rows = table.is_plain
    learnt = _ridge(design[rows], table.success[rows], n_times[table.task][rows], pull)
    return np.asarray(design @ learnt)


def _ridge(design: _Doubles, target: _Doubles, weight: _Doubles, pull: _Doubles) -> _Doubles:
    weighted = design * weight[:, None]
    matrix = design.T @ weighted + np.diag(pull + _TINY_PULL)
    return np.asarray(np.linalg.solve(matrix, weighted.T @ target))
