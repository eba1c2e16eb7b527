"""A small set of tables in which everything holds, and a way to break one cell."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from harness_core.trajectories import arrow
from harness_core.trajectories.schema import (
    Action,
    Agent,
    Candidate,
    Outcome,
    Provenance,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import ActionKind, Language

Tables = dict[str, pa.Table]
SECRET = "sk-this-text-of-a-log-must-not-leak"


def _step(index: int) -> Step:
    action = Action(kind=ActionKind.CODE, text=f"{SECRET} = {index}")
    other = Action(kind=ActionKind.CODE, text="pass")
    return Step(
        index=index,
        observation=SECRET,
        action=action,
        is_error=index == 0,
        candidates=(
            Candidate(action=other, propensity=0.25),
            Candidate(action=action, propensity=0.75),
        ),
        chosen_index=1,
        propensity=0.75,
    )


def _trajectory(number: int) -> Trajectory:
    success = number % 2 == 0
    return Trajectory(
        task=TaskRef(task_id=f"task/{number // 2}", family="strings", description=SECRET),
        agent=Agent(name="agent", model=f"m{number % 3}"),
        steps=tuple(_step(index) for index in range(1 + number % 3)),
        outcome=Outcome(
            success=success, score=float(success), n_tests_passed=int(success), n_tests_total=1
        ),
        terminated=True,
        truncated=False,
        provenance=Provenance(
            importer="native", source="pack", path="a.json", source_sha256="0" * 64, line=number + 1
        ),
    )


def _task(number: int) -> TaskSpec:
    return TaskSpec(
        task_id=f"task/{number}",
        source="pack",
        family="strings",
        description=SECRET,
        language=Language.PYTHON,
        entry_point="f",
        visible_checks=("assert f(1) == 2",),
        hidden_checks=("assert f(2) == 3",),
    )


@pytest.fixture(scope="session")
def good_tables() -> Tables:
    trajectories, steps = arrow.tables_of(_trajectory(number) for number in range(24))
    tasks = [arrow.task_row(_task(number)) for number in range(12)]
    tasks.sort(key=lambda row: row["task_id"])
    return {
        "trajectories": trajectories,
        "steps": steps,
        "tasks": pa.Table.from_pylist(tasks, schema=arrow.TASKS),
    }


@pytest.fixture(scope="session")
def broken() -> Callable[..., Tables]:
    """`broken(tables, "steps", 3, step_index=9)`: the same tables with cells of a row changed."""

    def change(tables: Tables, name: str, row: int, **cells: object) -> Tables:
        table = tables[name]
        rows = table.to_pylist()
        rows[row] = {**rows[row], **cells}
        return {**tables, name: pa.Table.from_pylist(rows, schema=table.schema)}

    return change
