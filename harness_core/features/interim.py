"""The interim tables that features are made from, with only those columns read that may be used."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

import pyarrow as pa

from harness_core.features.contents import (
    STEP_COLUMNS,
    TASK_COLUMNS,
    TRAJECTORY_COLUMNS,
    TrajectoryContent,
    read_contents,
)
from harness_core.tables import read_table
from harness_core.trajectories import arrow
from harness_core.transitions.table import CANDIDATES

TRAJECTORIES_PATH: Final = "data/interim/trajectories.parquet"
STEPS_PATH: Final = "data/interim/steps.parquet"
TASKS_PATH: Final = "data/interim/tasks.parquet"
CANDIDATES_PATH: Final = "data/interim/candidates.parquet"
TRANSITIONS_PATH: Final = "data/interim/transitions.parquet"
FEATURES_PATH: Final = "data/features"
"""The same paths as in `stages.dag`, which is above this package; a test keeps them equal."""
DATASETS_PATH: Final = ".harness/datasets"
"""Memory-mapped copies of the feature tables, made anew whenever features are."""


class Folder(Protocol):
    """A working folder; `stages.dag.Workspace` is one."""

    def path(self, relative: str) -> Path:
        """Absolute path of a relative one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimTables:
    """What the feature stage reads. No column of the first three is a hidden outcome."""

    trajectories: pa.Table
    steps: pa.Table
    tasks: pa.Table
    candidates: pa.Table
    """Who is compared with whom. Its labels serve the agent prior of *other* tasks only."""

    @classmethod
    def read(cls, workspace: Folder) -> Self:
        """Read from a working folder.

        Raises:
            NoDataError: a table is not there yet.
            TableSchemaError: a table breaks its contract.
        """
        return cls(
            trajectories=read_table(
                workspace.path(TRAJECTORIES_PATH), arrow.TRAJECTORIES, columns=TRAJECTORY_COLUMNS
            ),
            steps=read_table(workspace.path(STEPS_PATH), arrow.STEPS, columns=STEP_COLUMNS),
            tasks=read_table(workspace.path(TASKS_PATH), arrow.TASKS, columns=TASK_COLUMNS),
            candidates=read_table(workspace.path(CANDIDATES_PATH), CANDIDATES),
        )

    def contents(self) -> Iterator[TrajectoryContent]:
        """The visible part of every trajectory, in the order of their ids."""
        return read_contents(self.trajectories, self.steps, self.tasks)

    def folds(self) -> Mapping[str, int]:
        """Fold of every task that has candidates; −1 for the frozen slice."""
        columns = self.candidates.select(["task_id", "fold"]).to_pydict()
        return dict(zip(columns["task_id"], columns["fold"], strict=True))
