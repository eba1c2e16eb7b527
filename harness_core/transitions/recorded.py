"""A trajectory as it was recorded, with the reward rows of each of its steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from harness_core.errors import TableSchemaError
from harness_core.transitions.splits import Assignment

Row = dict[str, Any]

TRAJECTORY_COLUMNS: Final = (
    *("trajectory_id", "source", "task_id", "family", "agent_name", "model"),
    *("n_steps", "terminated"),
)
STEP_COLUMNS: Final = (
    *("trajectory_id", "step_index", "action_kind", "action_text", "completion_tokens"),
    *("is_error", "logged_reward", "candidates"),
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One trajectory; `rewards[t]` are the reward rows of step t, one a candidate."""

    row: Row
    steps: tuple[Row, ...]
    rewards: tuple[tuple[Row, ...], ...]

    @property
    def trajectory_id(self) -> str:
        """Id of the trajectory."""
        return str(self.row["trajectory_id"])

    @property
    def taken(self) -> tuple[Row, ...]:
        """The reward row of the action taken at each step."""
        return tuple(
            next(row for row in candidates if row["is_taken"]) for candidates in self.rewards
        )

    @property
    def n_steps_until_end(self) -> int:
        """Steps up to the first dangerous or tampering action, which ends it, it included."""
        ends = (index for index, row in enumerate(self.taken) if row["ends_here"])
        return next(ends, len(self.steps) - 1) + 1

    @property
    def is_dangerous(self) -> bool:
        """Whether any action taken was dangerous."""
        return any(row["ends_here"] and row["danger"] for row in self.taken)

    @property
    def is_cut_short(self) -> bool:
        """Whether an action ended it that nothing after can make up for."""
        return any(row["ends_here"] for row in self.taken)

    def task_columns(self, assignments: Mapping[str, Assignment]) -> Row:
        """The columns that say which task this is and where the task stands."""
        place = assignments[self.row["task_id"]]
        return {
            **{name: self.row[name] for name in ("task_id", "source", "family")},
            "split": place.split.value,
            "fold": place.fold,
        }


def read_recorded(trajectories: pa.Table, steps: pa.Table, rewards: pa.Table) -> Iterator[Recorded]:
    """Join the three tables, which are all sorted by trajectory and step.

    Raises:
        TableSchemaError: they don't hold the same trajectories and steps.
    """
    steps_of = groupby(_rows(steps), key=itemgetter("trajectory_id"))
    rewards_of = groupby(_rows(rewards), key=itemgetter("trajectory_id"))
    for row, (name, group), (other, reward_group) in zip(
        _rows(trajectories), steps_of, rewards_of, strict=True
    ):
        steps_here = tuple(group)
        rewards_here = tuple(
            tuple(candidates) for _, candidates in groupby(reward_group, key=_step_index)
        )
        if not row["trajectory_id"] == name == other or len(rewards_here) != len(steps_here):
            raise TableSchemaError(
                f"trajectory {row['trajectory_id']}: the tables trajectories, steps and rewards"
                " don't belong together; run the stage `rewards` again"
            )
        yield Recorded(row, steps_here, rewards_here)


def candidate_propensities(step: Row) -> Sequence[float | None]:
    """Propensity of each logged candidate of a step; of the one action when none are logged."""
    return [candidate["propensity"] for candidate in step["candidates"] or ()] or [None]


def _step_index(row: Row) -> int:
    return int(row["step_index"])


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=1024):
        yield from batch.to_pylist()
