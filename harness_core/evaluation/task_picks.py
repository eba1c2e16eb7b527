"""One pick a task, by the model that never saw the task: what abstention is calibrated on.

Candidates of one task, and groups of one task, resemble each other; tasks are what is drawn anew at
run time. So each task gives one decision: one of its groups, and as many of its candidates as
decisions are usually made among, both by lot.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from harness_core.controller.abstention import TaskPicks
from harness_core.evaluation.crossfit import CrossFit
from harness_core.evaluation.metrics import Doubles
from harness_core.evaluation.subsets import Subset, draw_subsets, labelled
from harness_core.features.batch import DecisionGroup
from harness_core.trajectories.vocabulary import GroupKind

GROUP_SIZE: Final = 8
"""Most candidates of one calibration decision."""


def task_picks(
    judged: CrossFit, groups: Sequence[DecisionGroup], *, group_size: int, seed: int
) -> TaskPicks:
    """The controller's pick of one decision a task; tasks with nothing but danger give none.

    Args:
        judged: models, each asked about tasks only that it never saw.
        groups: decision groups; single steps and attempts of unknown outcome are left out.
        group_size: most candidates of a decision.
        seed: of the lots.
    """
    subsets = _one_a_task(groups, group_size=group_size, seed=seed)
    allowed = [item for item in map(Subset.without_dangerous, subsets) if len(item.index)]
    scores, beliefs = judged.controller_with_belief(allowed)
    values = judged.action_values(allowed)
    best = [int(np.argmax(score)) for score in scores]
    return TaskPicks(
        probability=_doubles(row[place] for row, place in zip(beliefs, best, strict=True)),
        success=_doubles(s.success[place] for s, place in zip(allowed, best, strict=True)),
        dangerous=np.array(
            [bool(s.dangerous[place]) for s, place in zip(allowed, best, strict=True)],
            dtype=np.bool_,
        ),
        value=_doubles(row[place].sum() for row, place in zip(values, best, strict=True)),
        candidates=[row.astype(np.float64) for row in beliefs],
    )


def _one_a_task(groups: Sequence[DecisionGroup], *, group_size: int, seed: int) -> list[Subset]:
    by_task: dict[str, list[DecisionGroup]] = defaultdict(list)
    for group in labelled([group for group in groups if group.kind is GroupKind.ATTEMPT]):
        by_task[group.task_id].append(group)
    rng = np.random.default_rng(seed)
    drawn = [by_task[task][rng.integers(len(by_task[task]))] for task in sorted(by_task)]
    return [
        subset
        for group in drawn
        for subset in draw_subsets(
            [group], size=min(group_size, group.size), n_subsets=1, seed=seed
        )[:1]
    ]


def _doubles(values: Iterable[float]) -> Doubles:
    return np.array(list(values), dtype=np.float64)
