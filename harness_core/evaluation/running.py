"""How well V tells attempts apart that are all still running after the same number of steps.

At equal steps the stop leak is shut out: nothing says yet how an attempt will end.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from harness_core.evaluation.crossfit import CrossFit
from harness_core.evaluation.metrics import auc, mean_by_task
from harness_core.features.batch import Floats, TransitionArrays
from harness_core.rewards.table import COMPONENTS

_STEPS = (1, 2)
_OUTCOMES = ("all_tests", "outcome")


def running_attempts(judged: CrossFit, transitions: TransitionArrays) -> dict[str, Any] | None:
    """Within-task AUC of V(s_t) for t = 1, 2; None where every attempt is a single step."""
    outcome = _outcome_by_row(transitions)
    result: dict[str, Any] = {}
    for step in _STEPS:
        # Row t of a run is the action taken in s_t; the outcome stands in row T, so t < T is
        # exactly "still running after t steps".
        rows = np.flatnonzero((transitions.step_index == step) & ~np.isnan(outcome))
        rows = rows[~_is_last(transitions)[rows]]
        if not len(rows):
            continue
        values = judged.values(transitions.state[rows], transitions.fold[rows])
        per_task = _auc_by_task(transitions.task_id[rows], values, outcome[rows])
        if per_task:
            mean = float(np.mean(list(per_task.values())))
            result[str(step)] = {"auc": mean, "n_tasks": len(per_task), "n_attempts": len(rows)}
    return result or None


def _outcome_by_row(transitions: TransitionArrays) -> Floats:
    """Final outcome of the run that each row belongs to, [N]; NaN when unknown."""
    columns = [COMPONENTS.index(name) for name in _OUTCOMES]
    reward = transitions.rewards[:, columns]
    known = ~np.isnan(reward).all(axis=1)
    own = np.where(np.isnan(reward), -np.inf, reward).max(axis=1)
    last = known & _is_last(transitions)
    outcome = dict(zip(transitions.trajectory[last].tolist(), own[last].tolist(), strict=True))
    found = [outcome.get(key, np.nan) for key in transitions.trajectory.tolist()]
    return np.array(found, dtype=np.float32)


def _is_last(transitions: TransitionArrays) -> npt.NDArray[np.bool_]:
    trajectory = transitions.trajectory
    return np.append(trajectory[1:] != trajectory[:-1], True)[: len(trajectory)]


def _auc_by_task(
    task_id: npt.NDArray[np.str_], values: Floats, outcome: Floats
) -> dict[str, float]:
    tasks, index = np.unique(task_id, return_inverse=True)
    return mean_by_task(
        (str(task), auc(values[index == position], outcome[index == position]))
        for position, task in enumerate(tasks)
    )
