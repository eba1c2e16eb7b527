"""Trajectories and tasks as the tables of an interim folder."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pyarrow as pa

from harness_core.tables import read_table, write_table
from harness_core.trajectories import arrow
from harness_core.trajectories.schema import TaskSpec, Trajectory


def write_trajectories(
    trajectories: Iterable[Trajectory], *, trajectories_path: Path, steps_path: Path
) -> int:
    """Write both tables in canonical order; return the number of trajectories."""
    rows, steps = arrow.tables_of(trajectories)
    write_table(steps_path, steps, arrow.STEPS)
    return write_table(trajectories_path, rows, arrow.TRAJECTORIES)


def read_trajectories(*, trajectories_path: Path, steps_path: Path) -> Iterator[Trajectory]:
    """All trajectories, in the order of their ids."""
    rows = read_table(trajectories_path, arrow.TRAJECTORIES)
    steps = read_table(steps_path, arrow.STEPS)
    by_trajectory = groupby(_rows(steps), key=itemgetter("trajectory_id"))
    for row, (_, group) in zip(_rows(rows), by_trajectory, strict=True):
        yield arrow.trajectory_from_rows(row, list(group))


def write_tasks(path: Path, tasks: Iterable[TaskSpec]) -> int:
    """Write the tasks table in canonical order; return the number of tasks."""
    ordered = sorted(tasks, key=lambda task: (task.source, task.task_id))
    return write_table(path, [arrow.task_row(task) for task in ordered], arrow.TASKS)


def read_tasks(path: Path) -> dict[tuple[str, str], TaskSpec]:
    """All tasks by `(source, task_id)`."""
    tasks = (arrow.task_from_row(row) for row in _rows(read_table(path, arrow.TASKS)))
    return {(task.source, task.task_id): task for task in tasks}


def _rows(table: pa.Table) -> Iterator[arrow.Row]:
    for batch in table.to_batches(max_chunksize=1024):
        yield from batch.to_pylist()
