"""How well a model tells attempts apart that are all still running after the same number of steps.

At equal steps the stop leak is shut out: nothing says yet how an attempt will end.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from harness_core.evaluation.crossfit import CrossFit
from harness_core.evaluation.metrics import auc, mean_by_task
from harness_core.features.batch import Floats, TransitionArrays
from harness_core.learners.returns import is_last, outcome_by_row

_STEPS = (1, 2)


def running_attempts(judged: CrossFit, transitions: TransitionArrays) -> dict[str, Any] | None:
    """Within-task AUC of s_t for t = 1, 2; None where every attempt is a single step."""
    outcome = outcome_by_row(transitions)
    result: dict[str, Any] = {}
    for step in _STEPS:
        # Row t of a run is the action taken in s_t; the outcome stands in row T, so t < T is
        # exactly "still running after t steps".
        rows = np.flatnonzero((transitions.step_index == step) & ~np.isnan(outcome))
        rows = rows[~is_last(transitions.trajectory)[rows]]
        if not len(rows):
            continue
        values = judged.running(transitions.state[rows], transitions.fold[rows])
        per_task = _auc_by_task(transitions.task_id[rows], values, outcome[rows])
        if per_task:
            mean = float(np.mean(list(per_task.values())))
            result[str(step)] = {"auc": mean, "n_tasks": len(per_task), "n_attempts": len(rows)}
    return result or None


def _auc_by_task(
    task_id: npt.NDArray[np.str_], values: Floats, outcome: Floats
) -> dict[str, float]:
    tasks, index = np.unique(task_id, return_inverse=True)
    return mean_by_task(
        (str(task), auc(values[index == position], outcome[index == position]))
        for position, task in enumerate(tasks)
    )
