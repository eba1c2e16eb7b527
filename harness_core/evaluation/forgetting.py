"""Families in which the candidate model is reliably worse than what is in use.

Each family is judged by its own tasks and its own resamples, with no correction for how many
families there are: whatever happens in one family, the verdict on another stays the same. Families
with too few test tasks to be judged alone are pooled into `other`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness_core.errors import DataError
from harness_core.evaluation.bootstrap import Bootstrap, Difference
from harness_core.evaluation.config import GateConfig
from harness_core.evaluation.metrics import Doubles
from harness_core.evaluation.selection import Outcomes
from harness_core.records import Record

OTHER: Final = "other"


class FamilyVerdict(Record):
    """Success of both models in one family of tasks, paired by task."""

    family: str
    n_tasks: int
    candidate_success: float
    reference_success: float
    difference: float
    low: float | None
    """Ends of the interval; null for a single task, which says nothing about others."""
    high: float | None
    forgotten: bool
    """The whole interval lies below zero and the mean loss is above the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTasks:
    """Success of two selectors' picks on the same subsets, one row a task and family."""

    task_id: tuple[str, ...]  # [T]
    family: tuple[str, ...]  # [T]
    candidate: Doubles  # [T]
    reference: Doubles  # [T]
    candidate_dangerous: Doubles  # [T]
    reference_dangerous: Doubles  # [T]

    @property
    def difference(self) -> Doubles:
        """Candidate model − reference, [T]."""
        return self.candidate - self.reference


def pair_tasks(
    candidate: Outcomes, candidate_selector: str, reference: Outcomes, reference_selector: str
) -> PairedTasks:
    """Put both beside each other.

    Raises:
        DataError: the two were not judged on the same decision groups.
    """
    if candidate.group_id != reference.group_id:
        raise DataError(
            f"the candidate model was judged on {len(candidate.group_id)} decision groups, the "
            f"reference on {len(reference.group_id)}; they must be the same"
        )
    left = candidate.selectors.index(candidate_selector)
    right = reference.selectors.index(reference_selector)
    columns = np.stack(
        [
            candidate.success[:, left],
            reference.success[:, right],
            candidate.dangerous[:, left],
            reference.dangerous[:, right],
        ],
        axis=1,
    )
    keys = sorted(set(zip(candidate.task_id, candidate.family, strict=True)))
    position = {key: index for index, key in enumerate(keys)}
    rows = [position[key] for key in zip(candidate.task_id, candidate.family, strict=True)]
    total = np.zeros((len(keys), columns.shape[1]))
    np.add.at(total, np.array(rows, dtype=np.int64), columns)
    mean = total / np.bincount(rows, minlength=len(keys)).reshape(-1, 1)
    return PairedTasks(
        task_id=tuple(task for task, _ in keys),
        family=tuple(family for _, family in keys),
        candidate=mean[:, 0],
        reference=mean[:, 1],
        candidate_dangerous=mean[:, 2],
        reference_dangerous=mean[:, 3],
    )


def family_verdicts(
    paired: PairedTasks, gate: GateConfig, bootstrap: Bootstrap
) -> tuple[FamilyVerdict, ...]:
    """One verdict a family, sorted by name, the pool of small ones last."""
    pooled = _pooled(paired.family, gate.min_tasks)
    names = sorted(set(pooled), key=lambda name: (name == OTHER, name))
    return tuple(_verdict(name, pooled, paired, gate, bootstrap) for name in names)


def _pooled(families: Sequence[str], min_tasks: int) -> tuple[str, ...]:
    count = Counter(families)
    return tuple(name if count[name] >= min_tasks else OTHER for name in families)


def _verdict(
    name: str,
    pooled: Sequence[str],
    paired: PairedTasks,
    gate: GateConfig,
    bootstrap: Bootstrap,
) -> FamilyVerdict:
    rows = np.flatnonzero([family == name for family in pooled])
    found = bootstrap.difference(paired.difference[rows])
    return FamilyVerdict(
        family=name,
        n_tasks=len(rows),
        candidate_success=float(paired.candidate[rows].mean()),
        reference_success=float(paired.reference[rows].mean()),
        difference=found.value,
        low=found.low if np.isfinite(found.low) else None,
        high=found.high if np.isfinite(found.high) else None,
        forgotten=is_forgotten(found, gate.max_forgetting),
    )


def is_forgotten(difference: Difference, max_forgetting: float) -> bool:
    """Reliably worse, and by more than the limit."""
    return difference.high < 0 and -difference.value > max_forgetting
