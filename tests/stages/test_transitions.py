"""The stage `transitions` on a small log, and splits of real ones."""

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from harness_core.errors import TableSchemaError
from harness_core.params import Params
from harness_core.rewards.compose import reward_rows
from harness_core.rewards.grading import Facts
from harness_core.rewards.table import REWARDS
from harness_core.stages import dag
from harness_core.stages.transitions import run
from harness_core.tables import file_digest, read_table, write_table
from harness_core.trajectories.schema import (
    Action,
    Agent,
    Outcome,
    Provenance,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.store import write_tasks, write_trajectories
from harness_core.trajectories.vocabulary import ActionKind, Language
from harness_core.transitions.table import CANDIDATES, TRANSITIONS

N_TASKS, N_ATTEMPTS = 12, 3
NOTHING = Facts(visible={}, hidden={}, clean=frozenset())


def trajectory(task: int, attempt: int) -> Trajectory:
    text = "DROP TABLE t" if attempt == 2 else f"SELECT {task}, {attempt}"
    return Trajectory(
        task=TaskRef(task_id=f"t/{task}", family="f", description=f"Question {task}"),
        agent=Agent(name=f"agent {attempt}"),
        steps=tuple(
            Step(index=index, action=Action(kind=ActionKind.CODE, text=text)) for index in range(2)
        ),
        outcome=Outcome(score=attempt / 2),
        terminated=True,
        truncated=False,
        provenance=Provenance(
            importer="native", source="s", path="a", source_sha256="0", line=attempt + 1
        ),
    )


@pytest.fixture
def workspace(tmp_path: Path, params: Params) -> dag.Workspace:
    found = dag.Workspace(tmp_path)
    tasks = {
        f"t/{number}": TaskSpec(
            task_id=f"t/{number}",
            source="s",
            family="f",
            description=f"Question {number}",
            language=Language.SQL,
        )
        for number in range(N_TASKS)
    }
    runs = [trajectory(task, attempt) for task in range(N_TASKS) for attempt in range(N_ATTEMPTS)]
    write_tasks(found.path(dag.TASKS), tasks.values())
    write_trajectories(
        runs, trajectories_path=found.path(dag.TRAJECTORIES), steps_path=found.path(dag.STEPS)
    )
    rows = [
        row
        for item in sorted(runs, key=lambda item: item.trajectory_id)
        for row in reward_rows(item, tasks[item.task.task_id], NOTHING, params.rewards)
    ]
    write_table(found.path(dag.REWARDS), rows, REWARDS)
    return found


def test_both_tables_keep_their_order_and_their_counts(
    workspace: dag.Workspace, params: Params
) -> None:
    figures = run(params.transitions, workspace).figures
    rows = read_table(workspace.path(dag.TRANSITIONS), TRANSITIONS).to_pylist()
    keys = [(row["trajectory_id"], row["step_index"]) for row in rows]
    assert keys == sorted(set(keys))
    # Two harmless attempts give two actions and a submit each; the dangerous one ends at once.
    assert len(rows) == N_TASKS * (3 + 3 + 1)
    assert figures["n_virtual_submits"] == 2 * N_TASKS
    assert figures["n_ended_by_danger"] == N_TASKS
    candidates = read_table(workspace.path(dag.CANDIDATES), CANDIDATES).to_pylist()
    groups = Counter(row["group_id"] for row in candidates)
    assert groups == {f"attempt:s:t/{number}": N_ATTEMPTS for number in range(N_TASKS)}
    assert figures["groups"]["attempt"]["n_mixed"] == N_TASKS
    assert sum(figures["n_tasks"].values()) == N_TASKS


def test_a_task_has_one_split_and_one_fold_in_all_rows(
    workspace: dag.Workspace, params: Params
) -> None:
    run(params.transitions, workspace)
    places = defaultdict(set)
    for path, schema in ((dag.TRANSITIONS, TRANSITIONS), (dag.CANDIDATES, CANDIDATES)):
        for row in read_table(workspace.path(path), schema).to_pylist():
            places[row["task_id"]].add((row["split"], row["fold"]))
    assert {len(found) for found in places.values()} == {1}
    assert {split for found in places.values() for split, _ in found} == {
        "train",
        "validation",
        "test",
    }


def test_the_same_tables_give_the_same_bytes(workspace: dag.Workspace, params: Params) -> None:
    digests = set()
    for _ in range(2):
        run(params.transitions, workspace)
        digests.add(
            tuple(file_digest(workspace.path(p)) for p in (dag.TRANSITIONS, dag.CANDIDATES))
        )
    assert len(digests) == 1


def test_tables_that_do_not_belong_together_are_refused(
    workspace: dag.Workspace, params: Params
) -> None:
    rewards = read_table(workspace.path(dag.REWARDS), REWARDS)
    write_table(workspace.path(dag.REWARDS), rewards.slice(1), REWARDS)
    with pytest.raises(TableSchemaError, match="run the stage `rewards` again"):
        run(params.transitions, workspace)
