"""Stage `rewards`: runs the programs of the log in the sandbox and pays every action.

Without isolation nothing is written. A log without Python programs needs no sandbox and opens none.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from harness_core.errors import NoDataError
from harness_core.rewards.compose import Row, reward_rows
from harness_core.rewards.config import RewardConfig
from harness_core.rewards.grading import Facts, Judge, Requests, grade
from harness_core.rewards.judge import open_judge
from harness_core.rewards.style import clean_programs
from harness_core.rewards.table import COMPONENTS, REWARDS
from harness_core.sandbox.config import SandboxConfig
from harness_core.stages import dag
from harness_core.stages.report import StageReport
from harness_core.tables import write_table
from harness_core.trajectories.schema import TaskSpec, Trajectory
from harness_core.trajectories.store import read_tasks, read_trajectories

_LOG: Final = logging.getLogger("harness")
_CHUNK_ROWS: Final = 8192

Tasks = Mapping[tuple[str, str], TaskSpec]
OpenJudge = Callable[[], AbstractContextManager[Judge]]


def run(rewards: RewardConfig, sandbox: SandboxConfig, workspace: dag.Workspace) -> StageReport:
    """Write the table `rewards`.

    Raises:
        IsolationUnavailable: programs must be run and no sandbox is strong enough.
    """
    return run_with(rewards, lambda: open_judge(sandbox, cache=workspace.cache), workspace)


def run_with(rewards: RewardConfig, opened: OpenJudge, workspace: dag.Workspace) -> StageReport:
    """Write the table `rewards`, judged by whatever `opened` gives."""
    tasks = read_tasks(workspace.path(dag.TASKS))
    requests = Requests()
    for trajectory in _trajectories(workspace):
        requests.add(trajectory, task_of(trajectory, tasks))
    facts, isolation = _facts(requests, opened)
    table = _table(workspace, tasks, facts, rewards)
    write_table(workspace.path(dag.REWARDS), table, REWARDS)
    return StageReport(stage="rewards", figures={**_figures(table), **isolation})


def task_of(trajectory: Trajectory, tasks: Tasks) -> TaskSpec:
    """The task of a trajectory.

    Raises:
        NoDataError: its source has no such task.
    """
    key = (trajectory.provenance.source, trajectory.task.task_id)
    if key not in tasks:
        raise NoDataError(
            f"{trajectory.provenance.path} line {trajectory.provenance.line}: the source {key[0]}"
            f" has no task {key[1]}; run the stage `ingest` again"
        )
    return tasks[key]


def _trajectories(workspace: dag.Workspace) -> Iterator[Trajectory]:
    # Read twice rather than kept: logs may be larger than memory, programs are not.
    return read_trajectories(
        trajectories_path=workspace.path(dag.TRAJECTORIES),
        steps_path=workspace.path(dag.STEPS),
    )


def _facts(requests: Requests, opened: OpenJudge) -> tuple[Facts, dict[str, Any]]:
    visible, hidden = {}, {}
    isolation: dict[str, Any] = {"layers": [], "trusted": True}
    if requests.visible or requests.hidden:
        _LOG.info(
            "rewards: %d programs on visible and %d on hidden checks",
            *(len(requests.visible), len(requests.hidden)),
        )
        with opened() as judge:
            # Apart, so that no box ever sees visible and hidden checks together.
            visible = grade(requests.visible, judge)
            hidden = grade(requests.hidden, judge)
            isolation = {"layers": list(judge.layers), "trusted": judge.trusted}
            # Logged and not reported: the report of equal data has equal bytes.
            _LOG.info(
                "rewards: %d of %d verdicts were known from an earlier run",
                *(judge.n_cache_hits, len(requests.visible) + len(requests.hidden)),
            )
    clean = clean_programs(requests.programs)
    return Facts(visible=visible, hidden=hidden, clean=clean), {
        **isolation,
        "n_programs": len(requests.programs),
        "n_graded": len(hidden),
        "n_graded_visible": len(visible),
        "n_tampered": sum(verdict.tampered for verdict in (*visible.values(), *hidden.values())),
    }


def _table(workspace: dag.Workspace, tasks: Tasks, facts: Facts, config: RewardConfig) -> pa.Table:
    rows = (
        row
        for trajectory in _trajectories(workspace)
        for row in reward_rows(trajectory, task_of(trajectory, tasks), facts, config)
    )
    chunks = [pa.Table.from_pylist(chunk, schema=REWARDS) for chunk in _chunks(rows)]
    if not chunks:
        raise NoDataError("no trajectory to reward; run the stage `ingest` on a log that has some")
    return pa.concat_tables(chunks).combine_chunks()


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while chunk := list(islice(rows, _CHUNK_ROWS)):
        yield chunk


def _figures(table: pa.Table) -> dict[str, Any]:
    return {
        "n_rows": table.num_rows,
        "n_solved": _n_true(table, "solved"),
        "n_dangerous": _n_true(table, "ends_here"),
        "n_contradicts_log": _n_true(table, "contradicts_log"),
        "means": {name: pc.mean(table.column(name)).as_py() for name in COMPONENTS},
        "n_paid": {name: table.num_rows - table.column(name).null_count for name in COMPONENTS},
    }


def _n_true(table: pa.Table, name: str) -> int:
    return int(pc.sum(table.column(name)).as_py() or 0)
