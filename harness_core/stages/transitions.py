"""Stage `transitions`: splits by task, transitions to learn from, decision groups to choose in."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from harness_core.rewards.table import COMPONENTS, REWARDS
from harness_core.stages import dag
from harness_core.stages.report import StageReport
from harness_core.tables import read_table, write_table
from harness_core.trajectories import arrow
from harness_core.trajectories.vocabulary import GroupKind, Language, Split
from harness_core.transitions.builder import transition_rows
from harness_core.transitions.config import TransitionConfig
from harness_core.transitions.groups import candidate_rows
from harness_core.transitions.recorded import (
    STEP_COLUMNS,
    TRAJECTORY_COLUMNS,
    Row,
    read_recorded,
)
from harness_core.transitions.splits import Assignment, assign_splits
from harness_core.transitions.table import CANDIDATES, TRANSITIONS

_LOG: Final = logging.getLogger("harness")

_REWARD_COLUMNS: Final = (
    *("trajectory_id", "step_index", "candidate_index", "is_taken"),
    *COMPONENTS,
    *("solved", "ends_here", "trusted"),
)


def run(transitions: TransitionConfig, workspace: dag.Workspace) -> StageReport:
    """Write the tables `transitions` and `candidates`."""
    assignments = assign_splits(_descriptions(workspace), transitions.split)
    recorded = list(
        read_recorded(
            read_table(
                workspace.path(dag.TRAJECTORIES), arrow.TRAJECTORIES, columns=TRAJECTORY_COLUMNS
            ),
            read_table(workspace.path(dag.STEPS), arrow.STEPS, columns=STEP_COLUMNS),
            read_table(workspace.path(dag.REWARDS), REWARDS, columns=_REWARD_COLUMNS),
        )
    )
    rows = list(transition_rows(recorded, assignments, discount_factor=transitions.discount_factor))
    candidates = candidate_rows(
        recorded,
        assignments,
        max_group_size=transitions.max_group_size,
        languages=_languages(workspace) if transitions.attempts == "first_answer" else None,
    )
    write_table(workspace.path(dag.TRANSITIONS), rows, TRANSITIONS)
    write_table(workspace.path(dag.CANDIDATES), candidates, CANDIDATES)
    _LOG.info("transitions: %d of %d trajectories", len(rows), len(recorded))
    return StageReport(
        stage="transitions",
        figures={
            "n_trajectories": len(recorded),
            "n_transitions": len(rows),
            "n_virtual_submits": sum(row["is_virtual"] for row in rows),
            "n_ended_by_danger": sum(item.is_dangerous for item in recorded),
            "n_tasks": _tasks_by_split(assignments),
            "n_folds": len({place.fold for place in assignments.values() if place.fold >= 0}),
            "groups": {kind.value: _group_figures(candidates, kind) for kind in GroupKind},
        },
    )


def _descriptions(workspace: dag.Workspace) -> dict[str, list[str]]:
    """All descriptions of each task, over all sources."""
    columns = ("task_id", "description")
    found: dict[str, list[str]] = defaultdict(list)
    # A log may name a task that no table describes: its own word is the description then.
    for path, schema in (
        (dag.TASKS, arrow.TASKS),
        (dag.TRAJECTORIES, arrow.TRAJECTORIES),
    ):
        table = read_table(workspace.path(path), schema, columns=columns)
        pairs = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
        for task, description in sorted(set(pairs)):
            found[task].append(description)
    return found


def _languages(workspace: dag.Workspace) -> dict[tuple[str, str], Language]:
    """Language of each task of each source."""
    columns = ["source", "task_id", "language"]
    table = read_table(workspace.path(dag.TASKS), arrow.TASKS, columns=columns)
    return {(row["source"], row["task_id"]): Language(row["language"]) for row in table.to_pylist()}


def _tasks_by_split(assignments: Mapping[str, Assignment]) -> dict[str, int]:
    counts = Counter(place.split for place in assignments.values())
    return {split.value: counts[split] for split in Split}


def _group_figures(candidates: Sequence[Row], kind: GroupKind) -> dict[str, Any]:
    labels: dict[str, list[float | None]] = defaultdict(list)
    for row in candidates:
        if row["kind"] == kind:
            labels[row["group_id"]].append(row["success"])
    n_candidates = sum(map(len, labels.values()))
    return {
        "n_groups": len(labels),
        "n_candidates": n_candidates,
        "n_mixed": sum(_is_mixed(group) for group in labels.values()),
        "n_unlabelled": sum(label is None for group in labels.values() for label in group),
        "largest": max(map(len, labels.values()), default=0),
    }


def _is_mixed(labels: Iterable[float | None]) -> bool:
    """Whether choosing matters: the group holds better and worse candidates."""
    return len({label for label in labels if label is not None}) > 1
