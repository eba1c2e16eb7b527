"""What features may read of tasks and trajectories: the visible part, and nothing else.

The records here have no field for an outcome, a graded reward, a hidden check, a reference or how
a run ended, so no feature built from them can depend on one. Stored tables and requests at run
time both become these records, and everything after that is one code path.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa

from harness_core.errors import DataError
from harness_core.trajectories.vocabulary import ActionKind, Language

TRAJECTORY_COLUMNS: Final = (
    "trajectory_id",
    "source",
    "task_id",
    "family",
    "description",
    "initial_state",
    "agent_name",
    "model",
)
STEP_COLUMNS: Final = (
    "trajectory_id",
    "step_index",
    "observation",
    "action_kind",
    "action_text",
    "action_arguments",
    "result",
    "is_error",
    "prompt_tokens",
    "completion_tokens",
    "candidates",
    "chosen_index",
)
TASK_COLUMNS: Final = (
    "source",
    "task_id",
    "description",
    "initial_state",
    "language",
    "entry_point",
    "visible_checks",
    "generated_checks",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContent:
    """The visible part of a task."""

    task_id: str
    source: str
    description: str
    initial_state: str = ""
    language: Language = Language.TEXT
    entry_point: str | None = None
    visible_checks: tuple[str, ...] = ()
    generated_checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionContent:
    """One action; `arguments` is the JSON text of its tool call."""

    kind: ActionKind
    text: str = ""
    arguments: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContent:
    """What was seen, which actions were proposed, which was taken, what came back."""

    observation: str = ""
    actions: tuple[ActionContent, ...]
    """All logged candidates, or the one action taken."""
    taken_index: int = 0
    result: str = ""
    is_error: bool | None = None
    n_tokens: int | None = None

    @property
    def taken(self) -> ActionContent:
        """The action taken."""
        return self.actions[self.taken_index]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryContent:
    """The visible part of a trajectory."""

    trajectory_id: str
    task: TaskContent
    agent: "AgentKey"
    steps: tuple[StepContent, ...]


class AgentKey(NamedTuple):
    """Whom a success rate is estimated for."""

    source: str
    name: str
    model: str


def read_contents(
    trajectories: pa.Table, steps: pa.Table, tasks: pa.Table
) -> Iterator[TrajectoryContent]:
    """The contents of three interim tables, in the order of their trajectories."""
    specs = {task.source_and_id: task.content for task in _tasks(tasks)}
    by_trajectory = groupby(_rows(steps, STEP_COLUMNS), key=itemgetter("trajectory_id"))
    for row in _rows(trajectories, TRAJECTORY_COLUMNS):
        trajectory_id, group = next(by_trajectory, ("nothing", iter(())))
        if trajectory_id != row["trajectory_id"]:
            raise DataError(
                f"steps and trajectories differ: expected steps of {row['trajectory_id']}, "
                f"found {trajectory_id}; run the ingest stage again"
            )
        task = specs.get((row["source"], row["task_id"])) or TaskContent(
            task_id=row["task_id"],
            source=row["source"],
            description=row["description"],
            initial_state=row["initial_state"],
        )
        yield TrajectoryContent(
            trajectory_id=trajectory_id,
            task=task,
            agent=AgentKey(row["source"], row["agent_name"], row["model"]),
            steps=tuple(_step(item) for item in group),
        )


class _KeyedTask(NamedTuple):
    source_and_id: tuple[str, str]
    content: TaskContent


def _tasks(table: pa.Table) -> Iterator[_KeyedTask]:
    for row in _rows(table, TASK_COLUMNS):
        yield _KeyedTask(
            (row["source"], row["task_id"]),
            TaskContent(
                task_id=row["task_id"],
                source=row["source"],
                description=row["description"],
                initial_state=row["initial_state"],
                language=Language(row["language"]),
                entry_point=row["entry_point"],
                visible_checks=tuple(row["visible_checks"] or ()),
                generated_checks=tuple(row["generated_checks"] or ()),
            ),
        )


def _step(row: Mapping[str, Any]) -> StepContent:
    taken = ActionContent(
        kind=ActionKind(row["action_kind"]),
        text=row["action_text"],
        arguments=row["action_arguments"],
    )
    actions = tuple(
        ActionContent(kind=ActionKind(item["kind"]), text=item["text"], arguments=item["arguments"])
        for item in row["candidates"] or ()
    )
    counts = [row[name] for name in ("prompt_tokens", "completion_tokens") if row[name] is not None]
    return StepContent(
        observation=row["observation"],
        actions=actions or (taken,),
        taken_index=row["chosen_index"] if actions else 0,
        result=row["result"],
        is_error=row["is_error"],
        n_tokens=sum(counts) if counts else None,
    )


def _rows(table: pa.Table, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    # A selection, not a check: whatever else the table holds must not be reachable from here.
    for batch in table.select(list(columns)).to_batches(max_chunksize=1024):
        yield from batch.to_pylist()
