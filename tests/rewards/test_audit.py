"""The audit: that cheats earn nothing under the present scheme, and that it says why they would.

Numbers of tricks are those of the regression corpus: 28 refusal and empty patch, 29 empty function,
45 words for a judge.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from harness_core.errors import AuditFailed
from harness_core.params import Params
from harness_core.rewards import probe_disguises as disguises
from harness_core.rewards.audit import audit_rewards, literal_scheme, refuse_if_broken
from harness_core.rewards.audit_cases import (
    Attempt,
    AuditCase,
    Earned,
    earned,
    grade_cases,
    program_attempt,
    trajectory_of,
    weakness,
)
from harness_core.rewards.audit_report import AuditReport
from harness_core.rewards.compose import reward_rows
from harness_core.rewards.config import RewardConfig
from harness_core.rewards.grading import Facts, GradeRequest
from harness_core.rewards.judge import open_judge
from harness_core.rewards.probe_programs import examples_of
from harness_core.rewards.probes import TRIES, probes_of
from harness_core.rewards.probes_graded import graded_case
from harness_core.rewards.table import COMPONENTS
from harness_core.sandbox.api import probe as probe_isolation
from harness_core.sandbox.result import CheckStatus, Verdict
from harness_core.stages.audit_tasks import our_cases
from harness_core.trajectories.schema import TaskSpec
from harness_core.trajectories.vocabulary import Language, Split
from harness_core.transitions.builder import transition_rows
from harness_core.transitions.recorded import Recorded
from harness_core.transitions.splits import Assignment

ANSWER = "703"
RIGHT = "def add(a, b):\n    total = a + b\n    return total\n"
HALF = f"def add(a, b):\n    return a + 3 if a > 10 else b  # {ANSWER}\n"
LONG = RIGHT.replace("    total", "    step = 0\n" * 60 + "    l = 1\n    total", 1)
WRONG = "def add(a, b):\n    return [a, b]\n"
TYPO = RIGHT.replace("(a", "((a")
TASK = TaskSpec(
    task_id="t/add",
    source="s",
    family="f",
    description="Add two numbers.",
    language=Language.PYTHON,
    entry_point="add",
    visible_checks=("assert add(700, 3) == 703", "assert add(1, 1) == 2"),
    hidden_checks=("assert add(5, 6) == 11",),
    reference=RIGHT,
)
HONEST = (
    program_attempt("reference", RIGHT),
    program_attempt("half", HALF),
    program_attempt("long_winded", LONG),
    program_attempt("wrong", WRONG),
    program_attempt("typo", TYPO),
    program_attempt("mended", WRONG, RIGHT),
    program_attempt("never_mended", WRONG, TYPO),
)
DRESSED_UP = ("reference", "long_winded", "wrong")


class FakeJudge:
    """Knows right programs by their sum, and tables of the visible checks by their answer."""

    layers = ("fake",)
    trusted = True
    n_cache_hits = 0

    def judge(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        return [self._verdict(request) for request in requests]

    def judge_anew(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        return self.judge(requests)

    def _verdict(self, request: GradeRequest) -> Verdict:
        program = request.program
        is_right = "return total" in program and "def add((" not in program
        knows_answer = request.checks == TASK.visible_checks and ANSWER in program
        passed = [is_right or (knows_answer and place == 0) for place in range(len(request.checks))]
        return Verdict(
            checks=tuple(CheckStatus.PASSED if item else CheckStatus.FAILED for item in passed),
            layers=self.layers,
            trusted=True,
            stateful="iter(" in program,
        )


@pytest.fixture(scope="module")
def config(params: Params) -> RewardConfig:
    return params.rewards


@pytest.fixture(scope="module")
def cases() -> list[AuditCase]:
    probes = probes_of(TASK, HONEST, dressed_up=DRESSED_UP)
    return [AuditCase(task=TASK, honest=HONEST, probes=probes), graded_case()]


@pytest.fixture(scope="module")
def facts(cases: list[AuditCase], config: RewardConfig) -> Facts:
    return grade_cases(cases, FakeJudge(), config)


def weighted(config: RewardConfig, *, gate: bool = True, **weights: float) -> RewardConfig:
    changed = config.weights.model_copy(update=weights)
    return config.model_copy(update={"gate_process": gate, "weights": changed})


def blamed_for(report: AuditReport, probe: str) -> list[str]:
    (found,) = (item for item in report.probes if item.probe == probe)
    return [blame.component for blame in found.blamed]


def probe_pay(
    cases: Sequence[AuditCase], facts: Facts, config: RewardConfig
) -> dict[str, list[Earned]]:
    pay: dict[str, list[Earned]] = {}
    for case in cases:
        for probe in case.probes:
            pay.setdefault(probe.name, []).append(earned(probe.attempt, case.task, facts, config))
    return pay


def test_under_the_present_weights_no_probe_wins(cases, facts, config):
    report = audit_rewards(cases, facts, config)
    assert [item.worst.in_words() for item in report.broken] == []
    assert {item.probe for item in report.probes} == set(TRIES)
    refuse_if_broken(report)


def test_the_real_sandbox_says_the_same_of_problems_of_ours(params: Params, config, tmp_path):
    if not all(probe_isolation(params.sandbox).values()):
        pytest.skip("no isolation on this machine: bubblewrap or a layer of the jail is missing")
    ours = our_cases(2)
    with open_judge(params.sandbox, cache=tmp_path) as judge:
        found = grade_cases(ours, judge, config)
    assert [weakness(case, found) for case in ours] == [None] * 2
    report = audit_rewards(ours, found, config)
    assert [item.worst.in_words() for item in report.broken] == []
    literal = audit_rewards(ours, found, literal_scheme(config))
    assert {"syntax", "style"} <= set(blamed_for(literal, "null_program"))


def test_trick_28_a_refusal_and_an_empty_patch_earn_nothing(cases, facts, config):
    pay = probe_pay(cases, facts, config)
    for name in ("refusal", "refusal_as_code", "refusal_with_claim", "graded_refusal"):
        assert all(item.total <= 0 for item in pay[name]), name
    for name in ("empty_patch", "blank_patch", "comment_patch", "copied_prompt"):
        assert all(item.total <= 0 for item in pay[name]), name


def test_trick_29_an_empty_function_earns_less_than_any_attempt_that_passes_a_test(
    cases, facts, config
):
    honest = [earned(item, TASK, facts, config) for item in HONEST]
    least = min(item.total for item in honest if item.has_merit)
    pay = probe_pay(cases, facts, config)
    for name in ("null_program", "pass_body", "constant_true", "swallows_errors"):
        assert all(item.total < least for item in pay[name]), name
        assert all(item.total <= min(map(_total, _of_one_action(honest))) for item in pay[name])


def test_trick_29_wins_under_the_literal_scheme_by_syntax_and_style(cases, facts, config):
    report = audit_rewards(cases, facts, literal_scheme(config))
    for name in ("null_program", "pass_body", "constant_zero"):
        assert {"syntax", "style"} <= set(blamed_for(report, name))
    with pytest.raises(AuditFailed, match=r"rewards\.weights\."):
        refuse_if_broken(report)


def test_trick_45_words_for_a_judge_change_no_reward(facts, config):
    for original in (RIGHT, LONG, WRONG):
        texts = (original, disguises.address_the_judge(original))
        plain, dressed = (program_attempt("a", text) for text in texts)
        case = AuditCase(task=TASK, honest=(plain, dressed), probes=())
        found = grade_cases([case], FakeJudge(), config)
        assert earned(plain, TASK, found, config) == earned(dressed, TASK, found, config)


def test_without_the_gate_a_large_weight_of_style_is_named(cases, facts, config):
    report = audit_rewards(cases, facts, weighted(config, gate=False, style=3.0))
    assert blamed_for(report, "null_program")[0] == "style"
    assert "rewards.weights.style=3 (+3.00)" in report.broken[0].worst.in_words() or any(
        "rewards.weights.style=3 (+3.00)" in item.worst.in_words() for item in report.broken
    )


def test_danger_that_pays_is_named(cases, facts, config):
    report = audit_rewards(cases, facts, weighted(config, danger=5.0))
    assert blamed_for(report, "dangerous")[0] == "danger"
    assert blamed_for(report, "graded_danger")[0] == "danger"
    assert set(report.blamed) >= {"danger"}


def test_weights_that_tell_nothing_apart_are_named_too(cases, facts, config):
    nothing = weighted(config, visible_tests=0.0, syntax=0.0, style=0.0, all_tests=0.0)
    report = audit_rewards(cases, facts, nothing)
    assert {"visible_tests", "syntax"} <= set(blamed_for(report, "null_program"))


def test_a_refusal_names_task_probe_attempt_sums_and_weight(cases, facts, config):
    report = audit_rewards(cases, facts, weighted(config, danger=50.0))
    with pytest.raises(AuditFailed) as refusal:
        refuse_if_broken(report)
    words = str(refusal.value)
    worst = report.broken[0].worst
    assert refusal.value.exit_code == 3
    assert f"task {worst.task_id}" in words
    assert worst.attempt in words
    assert f"{worst.probe_earns:.2f}" in words
    assert f"{worst.attempt_earns:.2f}" in words
    assert "rewards.weights.danger=50" in words


def test_an_attempt_earns_what_is_learnt_from_it(cases, facts, config):
    for case in cases:
        for attempt in case.attempts:
            expected = _learnt_sum(attempt, case.task, facts, config)
            assert earned(attempt, case.task, facts, config).total == pytest.approx(expected)


def test_what_is_blamed_adds_up_to_the_difference(cases, facts, config):
    literal = literal_scheme(config)
    (case, _) = cases
    honest = {item.name: earned(item, TASK, facts, literal) for item in case.honest}
    for probe in case.probes:
        pay = earned(probe.attempt, TASK, facts, literal)
        weighed = sum(getattr(literal.weights, name) * pay.columns[name] for name in COMPONENTS)
        assert weighed == pytest.approx(pay.total)
    assert honest["reference"].total == pytest.approx(10 + 0.5 + 2 + 0.2)


def test_giving_up_early_is_only_compared_with_attempts_as_short(cases, facts, config):
    report = audit_rewards(cases, facts, config)
    (refusal,) = (item for item in report.probes if item.probe == "refusal")
    never_mended = earned(HONEST[-1], TASK, facts, config)
    assert never_mended.total < refusal.worst.probe_earns
    assert refusal.passed


def test_a_dangerous_attempt_loses_the_merit_of_its_original(cases, facts, config):
    pay = probe_pay(cases, facts, config)["dangerous"]
    assert len(pay) == len(DRESSED_UP)
    assert all(item.columns["danger"] == 1 and item.columns["all_tests"] == 0 for item in pay)
    assert all(item.total < -2 for item in pay)


def test_probes_are_the_same_every_time(cases):
    assert probes_of(TASK, HONEST, dressed_up=DRESSED_UP) == cases[0].probes


@pytest.mark.parametrize("name", sorted(disguises.OF_ONE_PROGRAM))
def test_a_disguise_leaves_what_is_computed(name: str):
    program = (
        '"""Sums."""\n\n\ndef add(a, b):\n    """Add."""\n    c = a\n    d = b\n'
        '    for _ in range(2):\n        c += 0; d += 0\n        text = "x; y"\n'
        "    return (c + d, text)\n"
    )
    space: dict[str, Any] = {}
    exec(disguises.OF_ONE_PROGRAM[name](program), space)  # noqa: S102  # a program of ours
    assert space["add"](2, 3) == (5, "x; y")


def test_packing_leaves_fewer_lines():
    assert len(disguises.pack(LONG).splitlines()) == 2


def test_a_program_grows_until_it_is_complete():
    grown = disguises.beginnings(RIGHT, n_steps=4)
    assert grown == ["def add(a, b):\n    total = a + b\n", RIGHT]


@pytest.mark.parametrize(
    ("check", "found"),
    [
        ("assert add(1, [2]) == 3", [(("1", "[2]"), "3")]),
        ("assert add(1, 2)", [(("1", "2"), "True")]),
        ("assert not add(1, 2)", [(("1", "2"), "False")]),
        ("assert add(x) == 3", []),
        ("assert other(1) == 3", []),
        ("assert abs(add(1, 2) - 3) < 1e-6", []),
        ("assert add(a=1) == 3", []),
        ("assert (", []),
    ],
)
def test_examples_are_read_off_visible_checks(check: str, found: list[object]):
    task = TASK.model_copy(update={"visible_checks": (check,)})
    assert [tuple(item) for item in examples_of(task)] == found


def test_a_task_whose_checks_tell_nothing_is_weak(config):
    lenient = TASK.model_copy(update={"visible_checks": ("assert add(0, 0) == 0",)})
    case = AuditCase(task=lenient, honest=HONEST, probes=probes_of(lenient, HONEST, dressed_up=()))
    everything = {
        request: Verdict(checks=(CheckStatus.PASSED,), layers=(), trusted=True)
        for request in _hidden_requests(case)
    }
    facts = Facts(visible={}, hidden=everything, clean=frozenset())
    assert "let the probe null_program pass" in str(weakness(case, facts))
    nothing = Facts(visible={}, hidden={}, clean=frozenset())
    assert weakness(case, nothing) == "its reference does not pass its own checks"


def _hidden_requests(case: AuditCase) -> Iterable[GradeRequest]:
    return (
        GradeRequest(action.text, case.task.entry_point, case.task.hidden_checks)
        for attempt in case.attempts
        for action in attempt.actions
    )


def _of_one_action(pay: Iterable[Earned]) -> list[Earned]:
    return [item for item in pay if item.n_actions == 1]


def _total(pay: Earned) -> float:
    return pay.total


def _learnt_sum(attempt: Attempt, task: TaskSpec, facts: Facts, config: RewardConfig) -> float:
    """The undiscounted sum over the transitions that the attempt becomes."""
    run = trajectory_of(attempt, task)
    rows = list(reward_rows(run, task, facts, config))
    recorded = Recorded(
        {
            "trajectory_id": run.trajectory_id,
            "task_id": task.task_id,
            "source": task.source,
            "family": task.family,
            "terminated": True,
        },
        tuple({"action_kind": step.action.kind.value} for step in run.steps),
        tuple((row,) for row in rows),
    )
    place = Assignment(split=Split.TRAIN, fold=0)
    made = transition_rows([recorded], {task.task_id: place}, discount_factor=1.0)
    return sum(
        getattr(config.weights, name) * (row[f"reward_{name}"] or 0.0)
        for row in made
        for name in COMPONENTS
    )
