"""A small world of logs: programs with checks, queries, tool calls; and a runner for programs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness_core.features.config import EncoderConfig, FeatureConfig
from harness_core.features.interim import InterimTables
from harness_core.rewards.table import COMPONENTS
from harness_core.sandbox.grader import GradeJob
from harness_core.sandbox.protocol import ProgramJob
from harness_core.sandbox.result import CallResult, CallStatus, CheckStatus, ProgramRun, Verdict
from harness_core.stages import dag
from harness_core.tables import write_table
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
    Usage,
)
from harness_core.trajectories.vocabulary import ActionKind, Language
from harness_core.transitions.table import CANDIDATES, TRANSITIONS

N_TASKS = 10
PROGRAMS = (
    "def add(a, b):\n    return a + b\n",
    "def add(a, b):\n    return b + a\n",
    "def add(a, b):\n    return a - b\n",
    "def add(a, b):\n    return 3\n",
    "def add(a, b:\n",
)


@dataclass
class InProcessRunner:
    """Runs the (harmless) programs of these tests without a box."""

    programs: list[str] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)

    def run(self, jobs: Sequence[ProgramJob]) -> list[ProgramRun]:
        self.programs += [job.program for job in jobs]
        self.calls.update(call for job in jobs for call in job.calls)
        return [_run(job) for job in jobs]

    def grade(self, jobs: Sequence[GradeJob]) -> list[Verdict]:
        return [
            Verdict(checks=(CheckStatus.PASSED,) * len(job.checks), layers=(), trusted=True)
            for job in jobs
        ]


def _run(job: ProgramJob) -> ProgramRun:
    names: dict[str, Any] = {}
    try:
        exec(job.program, names)  # noqa: S102  # programs of this file
    except SyntaxError:
        failed = CallResult(status=CallStatus.NOT_LOADED)
        return ProgramRun(calls=(failed,) * len(job.calls), layers=())
    return ProgramRun(calls=tuple(_call(call, names) for call in job.calls), layers=())


def _call(call: str, names: dict[str, Any]) -> CallResult:
    try:
        return CallResult(status=CallStatus.VALUE, value=eval(call, names))  # noqa: S307  # as above
    except Exception as error:  # noqa: BLE001  # whatever a program raises
        return CallResult(status=CallStatus.RAISED, detail=type(error).__name__)


@dataclass(frozen=True)
class World:
    """Logs, their tasks, and the tables that earlier stages would have made of them."""

    trajectories: tuple[Trajectory, ...]
    tasks: tuple[TaskSpec, ...]

    def tables(self) -> InterimTables:
        trajectories, steps = arrow.tables_of(self.trajectories)
        ordered = sorted(self.tasks, key=lambda task: (task.source, task.task_id))
        tasks = pa.Table.from_pylist([arrow.task_row(task) for task in ordered], arrow.TASKS)
        return InterimTables(
            trajectories=trajectories, steps=steps, tasks=tasks, candidates=self.candidates()
        )

    def candidates(self) -> pa.Table:
        rows: list[dict[str, Any]] = []
        for source, task_id in sorted({(t.provenance.source, t.task.task_id) for t in self._all()}):
            attempts = [
                t for t in self._all() if (t.provenance.source, t.task.task_id) == (source, task_id)
            ]
            rows += [
                _candidate(
                    t,
                    group_id=f"{source}/{task_id}",
                    kind="attempt",
                    number=number,
                    step_index=len(t.steps) - 1,
                    k=None,
                )
                for number, t in enumerate(attempts)
            ]
        for t in self._all():
            for step in t.steps:
                rows += [
                    _candidate(
                        t,
                        group_id=f"{t.trajectory_id}:{step.index}",
                        kind="step",
                        number=k,
                        step_index=step.index,
                        k=k,
                    )
                    for k in range(len(step.candidates))
                ]
        rows.sort(key=lambda row: (row["group_id"], row["candidate_index"]))
        return pa.Table.from_pylist(rows, CANDIDATES)

    def transitions(self) -> pa.Table:
        rows: list[dict[str, Any]] = []
        for t in self._all():
            kinds = [*(step.action.kind for step in t.steps), ActionKind.SUBMIT]
            for index, kind in enumerate(kinds):
                is_virtual = index == len(t.steps)
                rows.append(
                    {
                        "trajectory_id": t.trajectory_id,
                        "step_index": index,
                        **_task_columns(t),
                        "action_kind": kind.value,
                        "is_virtual": is_virtual,
                        **{f"reward_{name}": None for name in COMPONENTS},
                        "reward_all_tests": float(bool(t.outcome.success)) if is_virtual else None,
                        "discount": 0.0 if is_virtual else 0.99,
                    }
                )
        return pa.Table.from_pylist(rows, TRANSITIONS)

    def write(self, root: Path) -> dag.Workspace:
        workspace = dag.Workspace(root)
        trajectories, steps = arrow.tables_of(self.trajectories)
        write_table(workspace.path(dag.TRAJECTORIES), trajectories, arrow.TRAJECTORIES)
        write_table(workspace.path(dag.STEPS), steps, arrow.STEPS)
        write_table(workspace.path(dag.TASKS), [arrow.task_row(t) for t in self.tasks], arrow.TASKS)
        write_table(workspace.path(dag.CANDIDATES), self.candidates(), CANDIDATES)
        write_table(workspace.path(dag.TRANSITIONS), self.transitions(), TRANSITIONS)
        return workspace

    def _all(self) -> list[Trajectory]:
        return sorted(self.trajectories, key=lambda t: t.trajectory_id)


def _task_columns(t: Trajectory) -> dict[str, Any]:
    number = int(t.task.task_id.rpartition("/")[2])
    split = "test" if number % 5 == 4 else "train"
    return {
        "task_id": t.task.task_id,
        "source": t.provenance.source,
        "family": t.task.family,
        "split": split,
        "fold": -1 if split == "test" else number % 2,
    }


def _candidate(
    t: Trajectory, *, group_id: str, kind: str, number: int, step_index: int, k: int | None
) -> dict[str, Any]:
    taken = t.steps[step_index].chosen_index or 0
    return {
        "group_id": group_id,
        "kind": kind,
        "candidate_index": number,
        **_task_columns(t),
        "trajectory_id": t.trajectory_id,
        "step_index": step_index,
        "step_candidate": taken if k is None else k,
        "is_taken": k is None or k == taken,
        "agent_name": t.agent.name,
        "model": t.agent.model,
        "n_steps": len(t.steps),
        "n_tokens": None,
        "success": None if t.outcome.success is None else float(t.outcome.success),
        "dangerous": False,
        "trusted": True,
        "propensity": None,
    }


def _trajectory(
    source: str, number: int, agent: str, steps: Sequence[Step], *, success: bool
) -> Trajectory:
    return Trajectory(
        task=TaskRef(
            task_id=f"{source}/{number}",
            family=f"family {number % 3}",
            description=f"{source} task {number}: do the thing number {number} properly",
        ),
        agent=Agent(name=agent, model="m1"),
        steps=tuple(steps),
        outcome=Outcome(success=success, score=float(success)),
        terminated=True,
        truncated=False,
        provenance=Provenance(
            importer="native", source=source, path="a.jsonl", source_sha256="0" * 64, line=1
        ),
    )


def _code(number: int, attempt: int) -> Trajectory:
    program = PROGRAMS[(number + attempt) % len(PROGRAMS)]
    action = Action(kind=ActionKind.CODE, text=program)
    first = Action(kind=ActionKind.CODE, text=f"def add(a, b):\n    return a * {attempt}\n")
    steps = [
        Step(index=0, observation="Write add.", action=first, result="0 of 1 passed", is_error=True)
    ]
    candidates = tuple(Candidate(action=item) for item in (first, action))
    steps.append(
        Step(
            index=1,
            action=action,
            result="1 of 1 passed",
            candidates=candidates,
            chosen_index=1,
            logged_reward=0.5,
            usage=Usage(completion_tokens=20 + attempt),
        )
    )
    chosen = steps if attempt % 2 else [steps[0]]
    return _trajectory("code", number, f"agent {attempt % 2}", chosen, success=attempt % 2 == 1)


def _query(number: int, attempt: int) -> Trajectory:
    texts = (
        "SHOW TABLES",
        f"SELECT name FROM singer WHERE age > {number + attempt % 2}",  # noqa: S608  # a log, not run
    )
    results = ("singer, concert", f"[('a', {attempt % 2})]")
    steps = [
        Step(index=i, action=Action(kind=ActionKind.CODE, text=text), result=result, is_error=False)
        for i, (text, result) in enumerate(zip(texts, results, strict=True))
    ]
    steps.append(Step(index=2, action=Action(kind=ActionKind.SUBMIT)))
    return _trajectory("sql", number, f"agent {attempt}", steps, success=attempt == 0)


def _tools(number: int, attempt: int) -> Trajectory:
    order = f"order-{number}"
    call = {"name": "cancel", "arguments": {"order_id": order, "why": f"reason {attempt}"}}
    steps = [
        Step(
            index=0,
            observation=f"Please cancel {order}.",
            action=Action(kind=ActionKind.TOOL_CALL, text=f"cancel({order})", arguments=call),
            result="cancelled" if attempt else "Error: not found",
            is_error=not attempt,
        ),
        Step(
            index=1,
            action=Action(kind=ActionKind.MESSAGE, text=f"The answer is: done {attempt}. OK?"),
        ),
    ]
    return _trajectory("tools", number, "helper", steps, success=bool(attempt))


def _spec(source: str, number: int, language: Language) -> TaskSpec:
    checks = language is Language.PYTHON
    return TaskSpec(
        task_id=f"{source}/{number}",
        source=source,
        family=f"family {number % 3}",
        description=f"{source} task {number}: do the thing number {number} properly",
        language=language,
        entry_point="add" if checks else None,
        visible_checks=("assert add(1, 2) == 3",) if checks else (),
        generated_checks=(
            ("assert add(2, 2) == 4", "assert add(5, 5) == 11", f"assert add({number}, 0) == 0")
            if checks
            else ()
        ),
        hidden_checks=("assert add(7, 8) == 15",) if checks else (),
        reference=PROGRAMS[0] if checks else None,
    )


def make_world() -> World:
    makers = {
        "code": (_code, Language.PYTHON, 4),
        "sql": (_query, Language.SQL, 3),
        "tools": (_tools, Language.TOOLS, 2),
    }
    return World(
        trajectories=tuple(
            make(number, attempt)
            for make, _, n_attempts in makers.values()
            for number in range(N_TASKS)
            for attempt in range(n_attempts)
        ),
        tasks=tuple(
            _spec(source, number, language)
            for source, (_, language, _) in makers.items()
            for number in range(N_TASKS)
        ),
    )


def make_config() -> FeatureConfig:
    return FeatureConfig(
        encoder=EncoderConfig(
            name="hashed", path=None, max_tokens=32, max_chunks=2, batch_size=8, max_texts=1000
        ),
        encode_code=False,
        n_text_dimensions=4,
        max_inputs=10,
        max_made_inputs=4,
        run_cpu_s=1,
        prior_strength=5.0,
    )
