"""The stage `rewards` on small logs, with a fake judge and with the real sandbox."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness_core.errors import CanaryPassed, IsolationUnavailable, NoDataError
from harness_core.params import Params
from harness_core.rewards.canaries import CONTROL
from harness_core.rewards.grading import GradeRequest
from harness_core.rewards.table import COMPONENTS, REWARDS
from harness_core.sandbox.api import probe
from harness_core.sandbox.result import CheckStatus, Evidence, Verdict
from harness_core.stages import dag
from harness_core.stages.project import prepare_project
from harness_core.stages.rewards import run, run_with
from harness_core.tables import file_digest, read_table
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

PROGRAMS = {
    "right": "def add(a, b):\n    return a + b\n",
    "wrong": "def add(a, b):\n    return a * b\n",
    "null": "def add(a, b):\n    pass\n",
    "broken": "def add(a, b:\n",
    "dangerous": "import os\n\n\ndef add(a, b):\n    os.getpid()\n    return a + eval(str(b))\n",
}
VISIBLE = ("assert add(2, 2) == 4",)
HIDDEN = (
    "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(0, 5) == 5\n",
)


class FakeJudge:
    """Says who passes; knows the programs above."""

    layers = ("fake",)
    trusted = True
    n_cache_hits = 0

    def __init__(self) -> None:
        self.asked: list[GradeRequest] = []

    def judge(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        self.asked.extend(requests)
        return [self._verdict(request) for request in requests]

    def judge_anew(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        return [self._verdict(request) for request in requests]

    def _verdict(self, request: GradeRequest) -> Verdict:
        is_canary = any(" != " in check for check in request.checks)
        passes = "return a + " in request.program and not is_canary
        passes |= request == CONTROL
        if request.checks == VISIBLE:
            passes |= "return a * b" in request.program
        status = CheckStatus.PASSED if passes else CheckStatus.FAILED
        return Verdict(
            checks=(status,) * len(request.checks), layers=self.layers, trusted=self.trusted
        )

    @contextmanager
    def open(self) -> Iterator["FakeJudge"]:
        yield self


@contextmanager
def no_isolation() -> Iterator[FakeJudge]:
    raise IsolationUnavailable("no bubblewrap; install it")
    yield FakeJudge()


def workspace_of(
    root: Path, *, language: Language = Language.PYTHON, reference: str = PROGRAMS["right"]
) -> dag.Workspace:
    workspace = prepare_project(root)
    is_python = language is Language.PYTHON
    task = TaskSpec(
        task_id="t/1",
        source="s",
        family="f",
        description="Add.",
        language=language,
        entry_point="add",
        visible_checks=VISIBLE if is_python else (),
        hidden_checks=HIDDEN if is_python else (),
        reference=reference,
    )
    runs = [_trajectory(name, line) for line, name in enumerate(PROGRAMS, start=1)]
    write_tasks(workspace.path(dag.TASKS), [task])
    write_trajectories(
        runs,
        trajectories_path=workspace.path(dag.TRAJECTORIES),
        steps_path=workspace.path(dag.STEPS),
    )
    return workspace


def _trajectory(name: str, line: int) -> Trajectory:
    programs = [PROGRAMS["wrong"], PROGRAMS[name]]
    return Trajectory(
        task=TaskRef(task_id="t/1", family="f", description="Add."),
        agent=Agent(name=name),
        steps=tuple(
            Step(index=index, action=Action(kind=ActionKind.CODE, text=program))
            for index, program in enumerate(programs)
        ),
        outcome=Outcome(success=True),
        terminated=True,
        truncated=False,
        provenance=Provenance(
            importer="native", source="s", path="a.jsonl", source_sha256="0", line=line
        ),
    )


def last_rows(workspace: dag.Workspace) -> dict[str, dict[str, Any]]:
    """The last reward row of each trajectory, by the name of its program."""
    rewards = read_table(workspace.path(dag.REWARDS), REWARDS).to_pylist()
    by_id = {_trajectory(name, 1).trajectory_id: name for name in PROGRAMS}
    return {by_id[row["trajectory_id"]]: row for row in rewards if row["step_index"] == 1}


def check_rewards(workspace: dag.Workspace) -> None:
    rows = last_rows(workspace)
    solved = {name: row["solved"] for name, row in rows.items()}
    assert solved == {
        "right": True,
        "wrong": False,
        "null": False,
        "broken": False,
        "dangerous": True,
    }
    assert {name for name, row in rows.items() if row["contradicts_log"]} == {
        "wrong",
        "null",
        "broken",
    }
    assert {name for name, row in rows.items() if row["ends_here"]} == {"dangerous"}
    # The program before it passed the visible test: submitting it again gains nothing.
    assert rows["wrong"]["visible_tests"] == rows["wrong"]["syntax"] == 0
    assert rows["null"]["visible_tests"] == rows["null"]["syntax"] == -1
    assert rows["broken"]["syntax"] == -1
    assert rows["wrong"]["repeated_action"] == 1


def test_every_action_is_paid_and_every_program_asked_for_once(
    tmp_path: Path, params: Params
) -> None:
    workspace, judge = workspace_of(tmp_path), FakeJudge()
    figures = run_with(params.rewards, judge.open, workspace).figures
    check_rewards(workspace)
    assert len(judge.asked) == len(set(judge.asked)) == 2 * len(PROGRAMS)
    assert (figures["n_rows"], figures["n_graded"], figures["n_contradicts_log"]) == (10, 5, 3)
    assert (figures["layers"], figures["trusted"], figures["n_dangerous"]) == (["fake"], True, 1)
    assert set(figures["means"]) == set(COMPONENTS)
    assert figures["means"]["all_tests"] == pytest.approx(0.4)


def test_visible_and_hidden_checks_are_never_judged_together(
    tmp_path: Path, params: Params
) -> None:
    workspace, judge = workspace_of(tmp_path), FakeJudge()
    run_with(params.rewards, judge.open, workspace)
    assert [request.checks for request in judge.asked] == [VISIBLE] * 5 + [HIDDEN] * 5


def test_a_grader_that_can_be_fooled_writes_no_reward(tmp_path: Path, params: Params) -> None:
    class Gullible(FakeJudge):
        def _verdict(self, request: GradeRequest) -> Verdict:
            return Verdict(
                checks=(CheckStatus.PASSED,) * len(request.checks), layers=(), trusted=True
            )

    workspace = workspace_of(tmp_path)
    with pytest.raises(CanaryPassed):
        run_with(params.rewards, Gullible().open, workspace)
    assert not workspace.path(dag.REWARDS).exists()


def test_a_task_that_is_judged_two_ways_is_quarantined(tmp_path: Path, params: Params) -> None:
    class Moody(FakeJudge):
        def judge_anew(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
            verdicts = [self._verdict(request) for request in requests]
            return [
                verdict.model_copy(update={"checks": (CheckStatus.FAILED,) * len(verdict.checks)})
                if request.checks == HIDDEN
                else verdict
                for request, verdict in zip(requests, verdicts, strict=True)
            ]

    workspace = workspace_of(tmp_path)
    twice = params.rewards.model_copy(update={"repeat_share": 1.0})
    figures = run_with(twice, Moody().open, workspace).figures
    assert figures["quarantined_tasks"] == ["t/1"]
    assert (figures["n_graded_twice"], figures["n_quarantined"]) == (10, 10)
    assert all(row["solved"] is None for row in last_rows(workspace).values())


def test_what_the_reference_fails_grades_nobody(tmp_path: Path, params: Params) -> None:
    workspace = workspace_of(tmp_path, reference=PROGRAMS["null"])
    figures = run_with(params.rewards, FakeJudge().open, workspace).figures
    rows = last_rows(workspace)
    assert figures["n_refuted_checks"] == 2
    assert all(row["solved"] is None and row["outcome"] == 1.0 for row in rows.values())


def test_evidence_from_a_box_can_be_refused(tmp_path: Path, params: Params) -> None:
    class Relayed(FakeJudge):
        def _verdict(self, request: GradeRequest) -> Verdict:
            verdict = super()._verdict(request)
            kind = Evidence.IN_BOX if request.checks == HIDDEN else Evidence.COMPARED
            return verdict.model_copy(update={"evidence": (kind,) * len(verdict.checks)})

    workspace = workspace_of(tmp_path)
    strict = params.rewards.model_copy(update={"accept_in_box": False})
    figures = run_with(strict, Relayed().open, workspace).figures
    rows = last_rows(workspace)
    assert all(row["solved"] is None and row["outcome"] == 1.0 for row in rows.values())
    assert rows["null"]["visible_tests"] == -1
    assert figures["evidence"] == {"compared": 5, "in_box": 5, "none": 0}


def test_without_isolation_no_reward_is_written(tmp_path: Path, params: Params) -> None:
    workspace = workspace_of(tmp_path)
    with pytest.raises(IsolationUnavailable, match="install it"):
        run_with(params.rewards, no_isolation, workspace)
    assert not workspace.path(dag.REWARDS).exists()


def test_a_log_without_programs_opens_no_sandbox(tmp_path: Path, params: Params) -> None:
    workspace = workspace_of(tmp_path, language=Language.SQL)
    figures = run_with(params.rewards, no_isolation, workspace).figures
    rows = last_rows(workspace)
    assert all(row["isolation"] == "" and row["trusted"] for row in rows.values())
    assert all(row["outcome"] == 1.0 and row["all_tests"] is None for row in rows.values())
    assert (figures["layers"], figures["n_graded"]) == ([], 0)


def test_the_same_log_gives_the_same_bytes(tmp_path: Path, params: Params) -> None:
    digests = set()
    for name in ("a", "b"):
        workspace = workspace_of(tmp_path / name)
        run_with(params.rewards, FakeJudge().open, workspace)
        digests.add(file_digest(workspace.path(dag.REWARDS)))
    assert len(digests) == 1


def test_a_task_that_no_table_describes_is_named(tmp_path: Path, params: Params) -> None:
    workspace = workspace_of(tmp_path)
    write_tasks(workspace.path(dag.TASKS), [])
    with pytest.raises(NoDataError, match=r"a\.jsonl line \d: the source s has no task t/1"):
        run_with(params.rewards, FakeJudge().open, workspace)


def test_the_real_sandbox_says_the_same_and_remembers_it(
    tmp_path: Path, params: Params, caplog: pytest.LogCaptureFixture
) -> None:
    if not all(probe(params.sandbox).values()):
        pytest.skip("no isolation on this machine: bubblewrap or a layer of the jail is missing")
    workspace = workspace_of(tmp_path)
    first = run(params.rewards, params.sandbox, workspace)
    check_rewards(workspace)
    digest = file_digest(workspace.path(dag.REWARDS))
    with caplog.at_level("INFO", logger="harness"):
        second = run(params.rewards, params.sandbox, workspace)
    assert file_digest(workspace.path(dag.REWARDS)) == digest
    assert second == first
    assert "10 of 10 verdicts were known" in caplog.text
    assert "bubblewrap" in first.figures["layers"]
