"""The stage `audit`, and that nothing is trained on rewards that did not pass it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import harness_core.stages.audit as stage
from harness_core.cli import app, run_app
from harness_core.errors import AuditFailed, IsolationUnavailable
from harness_core.params import Params
from harness_core.rewards.grading import GradeRequest
from harness_core.rewards.judge import open_judge
from harness_core.sandbox.api import probe as probe_isolation
from harness_core.sandbox.result import CheckStatus, Verdict
from harness_core.simulation.problems import load_problems
from harness_core.stages import dag
from harness_core.stages.audit_guard import refuse_unaudited, scheme_digest
from harness_core.stages.audit_tasks import logged_cases, our_cases
from harness_core.stages.execute import execute
from harness_core.stages.report import StageReport
from harness_core.trajectories.schema import TaskSpec
from harness_core.trajectories.store import write_tasks
from harness_core.trajectories.vocabulary import Language

REFERENCE = "def twice(x):\n    doubled = x + x\n    return doubled\n"
LOGGED = TaskSpec(
    task_id="logged/twice",
    source="mine",
    family="f",
    description="Twice as much.",
    language=Language.PYTHON,
    entry_point="twice",
    visible_checks=("assert twice(2) == 4", "assert twice('a') == 'aa'"),
    hidden_checks=("assert twice(3) == 6",),
    reference=REFERENCE,
)


class FakeJudge:
    """Takes a program for right if it ends as the reference of its task does."""

    layers = ("fake",)
    trusted = True
    n_cache_hits = 0

    def __init__(self) -> None:
        known = [(item.entry_point, item.reference) for item in load_problems()]
        known.append((str(LOGGED.entry_point), REFERENCE))
        self._endings = {name: text.strip().splitlines()[-1].strip() for name, text in known}
        self.n_asked = 0

    def judge(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        self.n_asked += len(requests)
        return [self._verdict(request) for request in requests]

    def judge_anew(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        return self.judge(requests)

    def _verdict(self, request: GradeRequest) -> Verdict:
        ending = self._endings[request.entry_point or ""]
        is_right = ending in request.program and "answer_of" not in request.program
        is_right &= f"def {request.entry_point}((" not in request.program
        status = CheckStatus.PASSED if is_right else CheckStatus.FAILED
        return Verdict(checks=(status,) * len(request.checks), layers=self.layers, trusted=True)

    @contextmanager
    def open(self) -> Iterator["FakeJudge"]:
        yield self


@contextmanager
def no_isolation() -> Iterator[FakeJudge]:
    raise IsolationUnavailable("no bubblewrap; install it")
    yield FakeJudge()


@pytest.fixture
def workspace(tmp_path: Path) -> dag.Workspace:
    return dag.Workspace(tmp_path)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> FakeJudge:
    """The stage with the fake judge, on few tasks."""
    judge = FakeJudge()
    monkeypatch.setattr(stage, "open_judge", lambda *_, **__: judge.open())
    monkeypatch.setattr(stage, "_N_OURS", 1)
    return judge


def literal(params: Params) -> Params:
    rewards = params.rewards.model_copy(update={"gate_process": False})
    return params.model_copy(update={"rewards": rewards})


def test_a_passing_audit_leaves_its_figures_and_both_schemes(
    workspace: dag.Workspace, params: Params, judged: FakeJudge
) -> None:
    figures = execute("audit", params, workspace).figures
    assert figures["passed"]
    assert figures["scheme"] == scheme_digest(params.rewards)
    assert figures["n_tasks"] == 2
    assert figures["closest_margin"] > 0
    table = stage.read_table(workspace)
    assert table["present"]["passed"]
    assert not table["literal"]["passed"]
    assert {"syntax", "style"} <= set(table["literal"]["blamed"])


def test_the_same_parameters_give_the_same_bytes(
    tmp_path: Path, params: Params, judged: FakeJudge
) -> None:
    contents = set()
    for name in ("a", "b"):
        workspace = dag.Workspace(tmp_path / name)
        report = execute("audit", params, workspace)
        table = workspace.path(dag.AUDIT_TABLE).read_bytes()
        contents.add((report.model_dump_json(), table))
    assert len(contents) == 1


def test_a_failing_audit_says_why_and_stops_training_with_exit_code_3(
    workspace: dag.Workspace, params: Params, judged: FakeJudge
) -> None:
    execute("audit", params, workspace)
    with pytest.raises(AuditFailed, match=r"the probe \w+ earns .* rewards\.weights\.") as refusal:
        execute("audit", literal(params), workspace)
    assert refusal.value.exit_code == 3
    assert not workspace.path(dag.report_path("audit")).exists()
    assert not stage.read_table(workspace)["present"]["passed"]
    with pytest.raises(AuditFailed, match="is missing or cannot be read") as training:
        execute("train", literal(params), workspace)
    assert training.value.exit_code == 3


def test_training_starts_after_a_passing_audit_of_the_same_rewards_only(
    workspace: dag.Workspace, params: Params, judged: FakeJudge
) -> None:
    execute("audit", params, workspace)
    refuse_unaudited(params.rewards, workspace)
    with pytest.raises(AuditFailed, match="another section `rewards` was audited"):
        execute("train", literal(params), workspace)


def test_a_report_that_did_not_pass_stops_training(
    workspace: dag.Workspace, params: Params
) -> None:
    report = StageReport(stage="audit", figures={"passed": False})
    report.write(workspace.path(dag.report_path("audit")))
    with pytest.raises(AuditFailed, match="did not pass"):
        refuse_unaudited(params.rewards, workspace)


def test_training_depends_on_the_audit_and_the_audit_on_the_rewards() -> None:
    stages = list(dag.STAGES)
    assert dag.report_path("audit") in dag.STAGES["train"].deps
    assert dag.report_path("rewards") in dag.STAGES["audit"].deps
    assert stages.index("rewards") < stages.index("audit") < stages.index("train")


def test_logs_without_programs_are_audited_without_a_sandbox(
    workspace: dag.Workspace, params: Params
) -> None:
    sql = LOGGED.model_copy(update={"language": Language.SQL})
    write_tasks(workspace.path(dag.TASKS), [sql])
    figures = stage.run_with(params.rewards, no_isolation, workspace).figures
    assert (figures["passed"], figures["n_tasks"]) == (True, 1)


def test_without_isolation_programs_are_not_audited(
    workspace: dag.Workspace, params: Params
) -> None:
    with pytest.raises(IsolationUnavailable, match="install it"):
        stage.run_with(params.rewards, no_isolation, workspace)


def test_tasks_of_the_logs_are_audited_too(
    workspace: dag.Workspace, params: Params, judged: FakeJudge
) -> None:
    write_tasks(workspace.path(dag.TASKS), [LOGGED])
    figures = execute("audit", params, workspace).figures
    assert figures["n_tasks"] == 3
    assert "logged/twice" in stage.read_table(workspace)["tasks"]


def test_a_task_that_accepts_nothing_at_all_is_left_out_and_named(
    workspace: dag.Workspace, params: Params, judged: FakeJudge
) -> None:
    broken = LOGGED.model_copy(update={"reference": REFERENCE.replace("doubled", "result")})
    write_tasks(workspace.path(dag.TASKS), [broken])
    figures = execute("audit", params, workspace).figures
    assert figures["weak_tasks"] == {"logged/twice": "its reference does not pass its own checks"}
    assert figures["n_tasks"] == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"language": Language.SQL},
        {"reference": None},
        {"reference": "twice = lambda x: x + x\n"},
        {"reference": "def twice(x): return x + x\n"},
        {"hidden_checks": ()},
        {"hidden_checks": LOGGED.visible_checks},
        {"visible_checks": ()},
        {"visible_checks": ("assert round(twice(2)) == 4",)},
        {"task_id": "arrays/roll_blocks"},
    ],
)
def test_tasks_that_no_probe_can_be_made_of_are_passed_over(changes: dict[str, object]) -> None:
    assert [case.task for case in logged_cases([LOGGED], 5)] == [LOGGED]
    assert logged_cases([LOGGED.model_copy(update=changes)], 5) == []


def test_our_tasks_are_spread_over_all_families_and_always_the_same() -> None:
    chosen = our_cases(12)
    assert len({case.task.family for case in chosen}) == 10
    assert [case.task.task_id for case in our_cases(12)] == [case.task.task_id for case in chosen]


def test_the_command_prints_the_table_and_exits_by_the_present_scheme(
    workspace: dag.Workspace, judged: FakeJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["audit", "rewards", "--workdir", str(workspace.root)]
    assert run_app(app, [*arguments, "--literal"]) == 0
    printed = capsys.readouterr()
    shown = json.loads(printed.out)
    assert (shown["passed"], shown["literal"]["passed"]) == (True, False)
    assert "| null_program" in printed.err
    assert run_app(app, [*arguments, "--set", "rewards.gate_process=false"]) == 3
    printed = capsys.readouterr()
    shown = json.loads(printed.out)
    assert "literal" not in shown
    found = {item["probe"]: item for item in shown["present"]["probes"]}["null_program"]
    assert (found["passed"], found["worst_margin"] < 0) == (False, True)
    assert {"task", "attempt", "blamed"} <= found.keys()
    assert "harness: task " in printed.err


def test_training_by_command_is_refused_after_a_failing_audit(
    workspace: dag.Workspace, judged: FakeJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    literal_gate = ["--workdir", str(workspace.root), "--set", "rewards.gate_process=false"]
    assert run_app(app, ["audit", "rewards", *literal_gate]) == 3
    assert run_app(app, ["train", *literal_gate]) == 3
    assert "run `harness audit rewards`" in capsys.readouterr().err


def test_the_whole_audit_in_the_real_sandbox(workspace: dag.Workspace, params: Params) -> None:
    if not all(probe_isolation(params.sandbox).values()):
        pytest.skip("no isolation on this machine: bubblewrap or a layer of the jail is missing")
    write_tasks(workspace.path(dag.TASKS), [LOGGED])
    figures = stage.run_with(
        params.rewards,
        lambda: open_judge(params.sandbox, cache=workspace.cache),
        workspace,
        n_ours=1,
    ).figures
    assert (figures["passed"], figures["n_tasks"], figures["weak_tasks"]) == (True, 3, {})
