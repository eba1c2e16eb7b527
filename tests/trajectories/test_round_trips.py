"""What is written is what is read, as Arrow, as Parquet and as ATIF."""

from pathlib import Path
from tempfile import TemporaryDirectory

import atif
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness_core.errors import NoDataError, TableSchemaError
from harness_core.importers.atif import read_document, write_atif
from harness_core.trajectories import arrow
from harness_core.trajectories.schema import Action, Candidate, Step, Trajectory
from harness_core.trajectories.store import (
    read_tasks,
    read_trajectories,
    write_tasks,
    write_trajectories,
)
from harness_core.trajectories.vocabulary import ActionKind
from tests.trajectories.strategies import TASKS, trajectories

QUICK = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@QUICK
@given(trajectory=trajectories())
def test_a_trajectory_survives_arrow(trajectory: Trajectory):
    rows, steps = arrow.tables_of([trajectory])
    assert (rows.schema, steps.schema) == (arrow.TRAJECTORIES, arrow.STEPS)
    (row,) = rows.to_pylist()
    again = arrow.trajectory_from_rows(row, steps.to_pylist())
    assert again == trajectory
    assert again.trajectory_id == trajectory.trajectory_id == row["trajectory_id"]


@QUICK
@given(task=TASKS)
def test_a_task_survives_arrow(task):
    table = pa.Table.from_pylist([arrow.task_row(task)], schema=arrow.TASKS)
    assert arrow.task_from_row(table.to_pylist()[0]) == task


@QUICK
@given(trajectory=trajectories())
def test_a_trajectory_survives_atif(trajectory: Trajectory):
    document = write_atif(trajectory)
    atif.Trajectory.model_validate(document)
    stored = orjson.loads(orjson.dumps(document))
    assert read_document(stored, trajectory.provenance) == trajectory
    assert write_atif(read_document(stored, trajectory.provenance)) == document


@settings(QUICK, max_examples=15)
@given(items=st.lists(trajectories(), max_size=4), tasks=st.lists(TASKS, max_size=4))
def test_tables_have_one_order_whatever_the_order_of_reading(items, tasks):
    items = list({item.trajectory_id: item for item in items}.values())
    tasks = list({(task.source, task.task_id): task for task in tasks}.values())
    with TemporaryDirectory() as name:
        folder = Path(name)
        paths = {"trajectories_path": folder / "t", "steps_path": folder / "s"}
        write_trajectories(items, **paths)
        write_tasks(folder / "k", tasks)
        first = [path.read_bytes() for path in sorted(folder.iterdir())]
        read = list(read_trajectories(**paths))
        assert {item.trajectory_id: item for item in read} == {
            item.trajectory_id: item for item in items
        }
        assert list(read_tasks(folder / "k").values()) == sorted(
            tasks, key=lambda task: (task.source, task.task_id)
        )
        write_trajectories(reversed(items), **paths)
        write_tasks(folder / "k", reversed(tasks))
        assert [path.read_bytes() for path in sorted(folder.iterdir())] == first


@given(trajectory=trajectories())
@settings(QUICK, max_examples=15)
def test_the_id_is_one_of_content_not_of_place(trajectory: Trajectory):
    moved = trajectory.provenance.model_copy(update={"path": "elsewhere", "line": 99})
    assert trajectory.model_copy(update={"provenance": moved}).trajectory_id == (
        trajectory.trajectory_id
    )
    other = trajectory.agent.model_copy(update={"version": trajectory.agent.version + "."})
    assert trajectory.model_copy(update={"agent": other}).trajectory_id != trajectory.trajectory_id


def test_the_chosen_candidate_is_the_action_taken():
    action, other = (Action(kind=ActionKind.CODE, text=text) for text in "ab")
    candidates = (Candidate(action=other), Candidate(action=action))
    Step(index=0, action=action, candidates=candidates, chosen_index=1)
    for chosen in (None, 0, 2):
        with pytest.raises(ValidationError):
            Step(index=0, action=action, candidates=candidates, chosen_index=chosen)


def test_a_missing_or_foreign_table_is_refused(tmp_path: Path):
    with pytest.raises(NoDataError, match="run the stage"):
        read_tasks(tmp_path / "tasks.parquet")
    write_tasks(tmp_path / "tasks.parquet", [])
    with pytest.raises(TableSchemaError, match="trajectory_id"):
        list(
            read_trajectories(
                trajectories_path=tmp_path / "tasks.parquet",
                steps_path=tmp_path / "tasks.parquet",
            )
        )
