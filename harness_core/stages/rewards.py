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
from harness_core.rewards.batches import Graded, judge_batch
from harness_core.rewards.compose import Row, reward_rows
from harness_core.rewards.config import RewardConfig
from harness_core.rewards.grading import Facts, Judge, Requests
from harness_core.rewards.judge import open_judge
from harness_core.rewards.style import clean_programs
from harness_core.rewards.table import COMPONENTS, REWARDS
from harness_core.rewards.tool_policy import load_policy
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
    graded = _judged(requests, opened, rewards)
    facts = Facts(
        visible=graded.visible,
        hidden=graded.hidden,
        clean=clean_programs(requests.programs),
        policy=load_policy(workspace.path(dag.POLICY)),
        quarantined=graded.quarantined,
    )
    table = _table(workspace, tasks, facts, rewards)
    write_table(workspace.path(dag.REWARDS), table, REWARDS)
    flaky = sorted({task.task_id for task in tasks.values() if facts.is_quarantined(task)})
    if flaky:
        _LOG.warning("rewards: quarantined, judged otherwise the second time: %s", ", ".join(flaky))
    figures = {
        **_figures(table),
        "quarantined_tasks": flaky,
        "n_programs": len(requests.programs),
        **graded.figures(),
    }
    return StageReport(stage="rewards", figures=figures)


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


def _judged(requests: Requests, opened: OpenJudge, config: RewardConfig) -> Graded:
    if not requests.visible and not requests.hidden:
        return Graded()
    _LOG.info(
        "rewards: %d programs on visible and %d on hidden checks",
        *(len(requests.visible), len(requests.hidden)),
    )
    with opened() as judge:
        graded = judge_batch(requests, judge, config)
        # Logged and not reported: the report of equal data has equal bytes.
        _LOG.info(
            "rewards: %d of %d verdicts were known from an earlier run",
            *(judge.n_cache_hits, requests.n_different),
        )
    return graded


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
        "n_dangerous": int(
            pc.sum(pc.and_(table["ends_here"], pc.greater(table["danger"], 0))).as_py() or 0
        ),
        "n_contradicts_log": _n_true(table, "contradicts_log"),
        "n_quarantined": _n_true(table, "quarantined"),
        "suspicions": _counted(table, "suspicions"),
        "policy": _counted(table, "policy"),
        "means": {name: pc.mean(table.column(name)).as_py() for name in COMPONENTS},
        "n_paid": {name: table.num_rows - table.column(name).null_count for name in COMPONENTS},
    }


def _n_true(table: pa.Table, name: str) -> int:
    return int(pc.sum(table.column(name)).as_py() or 0)


def _counted(table: pa.Table, name: str) -> dict[str, int]:
    """How often each value of a column stands in it, those inside lists one by one."""
    column = table.column(name)
    flat = pc.list_flatten(column) if pa.types.is_list(column.type) else column
    counts = pc.value_counts(pc.drop_null(flat)).to_pylist()
    return dict(sorted((item["values"], item["counts"]) for item in counts))
