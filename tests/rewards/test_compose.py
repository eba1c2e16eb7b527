"""The rows of a trajectory and their weighted sum."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.params import Params
from harness_core.rewards.compose import Row, reward_of, reward_rows
from harness_core.rewards.config import RewardConfig
from harness_core.rewards.grading import Facts, GradeRequest, Requests
from harness_core.rewards.scopes import SCOPES
from harness_core.rewards.style import clean_programs
from harness_core.rewards.table import COMPONENTS, OF_A_PROGRAM
from harness_core.rewards.tool_policy import ToolPolicy
from harness_core.sandbox.result import CheckStatus, Evidence, Verdict
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

PROVENANCE = Provenance(importer="native", source="s", path="a", source_sha256="0", line=1)
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"
HALF = "def add(a, b):\n    return a * b + 1\n"
TABLE = "def add(a, b):\n    if (a, b) == (1, 2):\n        return 3\n    return None\n"
CONSTANT = "def add(a, b):\n    return 3\n"
NULL = "def add(a, b):\n    pass\n"
UGLY = "def add(a, b):\n    c = a; d = b; e = c; f = d; g = 0; h = 0; return e + f\n"
DANGEROUS = "import os\n\n\ndef add(a, b):\n    os.system('ls')\n    return a + b\n"
BROKEN = "def add(a, b:\n"
VISIBLE, HIDDEN = ("assert add(1, 2) == 3",), ("assert add(2, 2) == 4", "assert add(0, 0) == 0")
CORRECT = {RIGHT, UGLY, DANGEROUS}


def task(**changes: Any) -> TaskSpec:
    known: dict[str, Any] = {
        "task_id": "t/1",
        "source": "s",
        "family": "f",
        "description": "Add.",
        "language": Language.PYTHON,
        "entry_point": "add",
        "visible_checks": VISIBLE,
        "hidden_checks": HIDDEN,
        "reference": RIGHT,
    }
    return TaskSpec(**(known | changes))


def code(program: str, **known: Any) -> Step:
    return Step(index=0, action=Action(kind=ActionKind.CODE, text=program), **known)


def trajectory(*steps: Step, outcome: Outcome | None = None) -> Trajectory:
    return Trajectory(
        task=TaskRef(task_id="t/1", family="f", description="Add."),
        agent=Agent(name="a"),
        steps=tuple(step.model_copy(update={"index": i}) for i, step in enumerate(steps)),
        outcome=outcome or Outcome(),
        terminated=True,
        truncated=False,
        provenance=PROVENANCE,
    )


def judged(request: GradeRequest) -> Verdict:
    """What an honest grader says of the programs above."""
    visible = CORRECT | {HALF, TABLE, CONSTANT}
    passes = {VISIBLE: visible, HIDDEN: CORRECT}.get(request.checks, CORRECT)
    status = CheckStatus.PASSED if request.program in passes else CheckStatus.FAILED
    return Verdict(checks=(status,) * len(request.checks), layers=("box", "jail"), trusted=True)


def rows_of(run: Trajectory, of: TaskSpec, config: RewardConfig) -> list[Row]:
    requests = Requests()
    requests.add(run, of)
    facts = Facts(
        visible={request: judged(request) for request in requests.visible},
        hidden={request: judged(request) for request in requests.hidden},
        clean=clean_programs(requests.programs),
    )
    return list(reward_rows(run, of, facts, config))


@pytest.fixture
def config(params: Params) -> RewardConfig:
    return params.rewards


def test_a_right_program_is_paid_as_the_article_says(config: RewardConfig) -> None:
    (row,) = rows_of(trajectory(code(RIGHT)), task(), config)
    paid = {name: row[name] for name in COMPONENTS}
    assert paid == {
        "all_tests": 1.0,
        "outcome": None,
        "syntax": 1.0,
        "visible_tests": 1.0,
        "excess_lines": 0.0,
        "style": 1.0,
        "danger": 0.0,
        "progress": None,
        "invalid_call": None,
        "repeated_action": 0.0,
        "step_cost": 1.0,
        "token_cost": None,
    }
    assert reward_of(row, config) == pytest.approx(10 + 0.5 + 1 + 0.2 - 0.02)
    assert (row["solved"], row["n_hidden_passed"], row["n_hidden_total"]) == (True, 2, 2)
    assert (row["isolation"], row["trusted"], row["ends_here"]) == ("box,jail", True, False)


def test_length_and_style_are_paid_apart(config: RewardConfig) -> None:
    (row,) = rows_of(trajectory(code(UGLY)), task(), config)
    assert row["excess_lines"] == 8 - 1.5 * 2
    assert row["style"] == 0
    assert row["solved"]


@pytest.mark.parametrize("program", [NULL, "", "pass\n", "x = 1\n", BROKEN, WRONG])
def test_a_program_that_does_nothing_earns_nothing(program: str, config: RewardConfig) -> None:
    (row,) = rows_of(trajectory(code(program)), task(), config)
    paid = [row[name] for name in COMPONENTS if name not in {"step_cost", "repeated_action"}]
    assert not any(paid)
    honest = [rows_of(trajectory(code(item)), task(), config)[0] for item in (RIGHT, UGLY, HALF)]
    assert all(reward_of(row, config) < reward_of(other, config) for other in honest)


@pytest.mark.parametrize(("program", "flag"), [(TABLE, "hard-coded"), (CONSTANT, "ignores-input")])
def test_a_program_that_knows_the_visible_tests_only_earns_nothing_by_them(
    program: str, flag: str, config: RewardConfig
) -> None:
    (row,) = rows_of(trajectory(code(program)), task(), config)
    (honest,) = rows_of(trajectory(code(HALF)), task(), config)
    assert (row["visible_tests"], row["syntax"], row["style"]) == (0.0, 0.0, 0.0)
    assert row["suspicions"] == [flag]
    assert (honest["visible_tests"], honest["suspicions"]) == (1.0, [])
    assert reward_of(row, config) < reward_of(honest, config)


def test_whoever_solves_the_task_is_not_suspected_of_a_table(config: RewardConfig) -> None:
    visible, hidden = (GradeRequest(TABLE, "add", checks) for checks in (VISIBLE, HIDDEN))
    passed = {
        request: judged(request).model_copy(
            update={"checks": (CheckStatus.PASSED,) * len(request.checks)}
        )
        for request in (visible, hidden)
    }
    facts = Facts(visible=passed, hidden=passed, clean=frozenset())
    (row,) = reward_rows(trajectory(code(TABLE)), task(), facts, config)
    assert (row["solved"], row["visible_tests"]) == (True, 1.0)


def test_without_the_gate_an_empty_function_harvests_points(config: RewardConfig) -> None:
    literal = config.model_copy(update={"gate_process": False})
    (row,) = rows_of(trajectory(code(NULL)), task(), literal)
    assert (row["syntax"], row["style"]) == (1.0, 1.0)


def test_without_visible_checks_form_pays_only_on_a_solved_task(config: RewardConfig) -> None:
    blind = task(visible_checks=())
    (right,) = rows_of(trajectory(code(RIGHT)), blind, config)
    (half,) = rows_of(trajectory(code(HALF)), blind, config)
    assert (right["syntax"], right["style"], right["visible_tests"]) == (1.0, 1.0, None)
    assert (half["syntax"], half["style"]) == (0.0, 0.0)
    first, last = rows_of(trajectory(code(HALF), code(RIGHT)), blind, config)
    assert (first["syntax"], first["solved"]) == (None, None)
    assert last["syntax"] == 1.0


@pytest.mark.parametrize("claimed", [True, False, None])
def test_the_log_never_overrides_what_was_computed(
    *, claimed: bool | None, config: RewardConfig
) -> None:
    run = trajectory(code(WRONG), outcome=Outcome(success=claimed, score=1.0))
    (row,) = rows_of(run, task(), config)
    assert (row["all_tests"], row["outcome"], row["solved"]) == (0.0, None, False)
    assert row["contradicts_log"] is (claimed is not False)


def test_a_claim_that_tests_passed_is_looked_into(config: RewardConfig) -> None:
    run = trajectory(code(WRONG), code(RIGHT), code(WRONG), code(HALF)).model_copy(
        update={"extra": {"claims": {"0": "Passed", "1": "passed", "2": True, "3": "failed"}}}
    )
    rows = rows_of(run, task(), config)
    assert [row["contradicts_log"] for row in rows] == [True, False, False, False]
    assert [row["visible_tests"] for row in rows] == [0, 1, -1, 1]


@given(programs=st.lists(st.sampled_from([RIGHT, WRONG, HALF, NULL, BROKEN]), min_size=1))
def test_what_programs_earn_on_the_way_telescopes_to_the_last_one(
    programs: list[str], params: Params
) -> None:
    # Ng, Harada and Russell (1999): with a potential, no way round pays more than its end.
    config = params.rewards
    *_, alone = rows_of(trajectory(code(programs[-1])), task(), config)
    rows = rows_of(trajectory(*map(code, programs)), task(), config)
    for name in OF_A_PROGRAM:
        assert sum(row[name] or 0.0 for row in rows) == pytest.approx(alone[name] or 0.0)


def test_an_outcome_is_believed_only_where_nothing_can_be_run(config: RewardConfig) -> None:
    run = trajectory(code(WRONG), code(RIGHT), outcome=Outcome(success=True, score=0.75))
    for other in (task(hidden_checks=()), task(language=Language.SQL)):
        first, last = rows_of(run, other, config)
        assert (last["all_tests"], last["outcome"], last["solved"]) == (None, 0.75, None)
        assert (first["all_tests"], first["outcome"]) == (None, None)


def test_who_submits_no_program_has_not_solved_a_task_with_hidden_checks(
    config: RewardConfig,
) -> None:
    refusal = Step(index=0, action=Action(kind=ActionKind.MESSAGE, text="I would rather not."))
    (row,) = rows_of(trajectory(refusal, outcome=Outcome(success=True)), task(), config)
    assert (row["all_tests"], row["outcome"], row["contradicts_log"]) == (0.0, None, True)


def test_a_submit_is_paid_for_the_program_before_it(config: RewardConfig) -> None:
    submit = Step(index=0, action=Action(kind=ActionKind.SUBMIT))
    first, second, last = rows_of(trajectory(code(WRONG), code(RIGHT), submit), task(), config)
    assert [row["all_tests"] for row in (first, second, last)] == [None, None, 1.0]
    assert [row["solved"] for row in (first, second, last)] == [None, True, True]
    assert (last["syntax"], last["repeated_action"]) == (None, None)


def test_every_logged_candidate_is_labelled_and_only_the_taken_one_is_charged(
    config: RewardConfig,
) -> None:
    programs = (WRONG, RIGHT, DANGEROUS)
    step = code(
        RIGHT,
        candidates=tuple(
            Candidate(action=Action(kind=ActionKind.CODE, text=item)) for item in programs
        ),
        chosen_index=1,
        is_error=False,
        usage=Usage(completion_tokens=100),
    )
    rows = rows_of(trajectory(code(RIGHT), step), task(), config)[1:]
    assert [row["candidate_index"] for row in rows] == [0, 1, 2]
    assert [row["is_taken"] for row in rows] == [False, True, False]
    assert [row["solved"] for row in rows] == [False, True, True]
    assert [row["all_tests"] for row in rows] == [None, 1.0, None]
    assert [row["repeated_action"] for row in rows] == [0.0, 1.0, 0.0]
    assert [row["danger"] for row in rows] == [0.0, 0.0, 1.0]
    assert [row["ends_here"] for row in rows] == [False, False, False]
    assert [row["token_cost"] for row in rows] == [None, 0.1, None]
    assert [row["invalid_call"] for row in rows] == [None, 0.0, None]


def test_danger_needs_no_outcome_and_no_run(config: RewardConfig) -> None:
    run = trajectory(code(DANGEROUS), outcome=Outcome(success=True))
    nothing = Facts(visible={}, hidden={}, clean=frozenset())
    for other in (task(), task(hidden_checks=(), visible_checks=(), reference=None)):
        (row,) = reward_rows(run, other, nothing, config)
        assert (row["danger"], row["danger_rules"], row["ends_here"]) == (1.0, ["B605"], True)


def test_a_program_that_tampers_is_not_solved(config: RewardConfig) -> None:
    request = GradeRequest(RIGHT, "add", HIDDEN)
    verdict = judged(request).model_copy(update={"tampered": True})
    facts = Facts(visible={}, hidden={request: verdict}, clean=frozenset())
    (row,) = reward_rows(trajectory(code(RIGHT)), task(), facts, config)
    assert (row["all_tests"], row["solved"]) == (0.0, False)
    assert (row["tampered"], row["ends_here"], row["danger"]) == (True, True, 0.0)


def test_a_program_that_changes_its_mind_is_not_solved(config: RewardConfig) -> None:
    requests = [GradeRequest(RIGHT, "add", checks) for checks in (VISIBLE, HIDDEN)]
    verdicts = {
        request: judged(request).model_copy(update={"stateful": True}) for request in requests
    }
    facts = Facts(visible=verdicts, hidden=verdicts, clean=frozenset())
    (row,) = reward_rows(trajectory(code(RIGHT)), task(), facts, config)
    assert (row["all_tests"], row["solved"], row["visible_tests"]) == (0.0, False, 0.0)
    assert (row["stateful"], row["ends_here"]) == (True, False)


def test_nothing_makes_up_for_danger(config: RewardConfig) -> None:
    (row,) = rows_of(trajectory(code(DANGEROUS)), task(), config)
    (harmless,) = rows_of(trajectory(code(WRONG)), task(), config)
    assert row["solved"]
    assert reward_of(row, config) < reward_of(harmless, config)


def test_a_quarantined_task_teaches_nothing(config: RewardConfig) -> None:
    run = trajectory(code(RIGHT), outcome=Outcome(success=True))
    requests = Requests()
    requests.add(run, task())
    verdicts = {request: judged(request) for request in (*requests.visible, *requests.hidden)}
    for checks in (VISIBLE, HIDDEN):
        facts = Facts(
            visible=verdicts, hidden=verdicts, clean=frozenset(), quarantined=frozenset({checks})
        )
        (row,) = reward_rows(run, task(), facts, config)
        assert row["quarantined"]
        assert all(
            row[name] is None for name in ("all_tests", "outcome", "visible_tests", "solved")
        )


def test_what_the_verdicts_rest_on_is_said(config: RewardConfig) -> None:
    requests = [GradeRequest(RIGHT, "add", checks) for checks in (VISIBLE, HIDDEN)]
    for kinds, word in [
        ((Evidence.COMPARED, Evidence.COMPARED), "compared"),
        ((Evidence.COMPARED, Evidence.IN_BOX), "mixed"),
        ((Evidence.IN_BOX, Evidence.NONE), "in_box"),
        ((Evidence.NONE, Evidence.NONE), ""),
    ]:
        verdicts = {
            request: judged(request).model_copy(update={"evidence": (kind,) * len(request.checks)})
            for request, kind in zip(requests, kinds, strict=True)
        }
        facts = Facts(visible=verdicts, hidden=verdicts, clean=frozenset())
        (row,) = reward_rows(trajectory(code(RIGHT)), task(), facts, config)
        assert row["evidence"] == word


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("kind", ActionKind)
def test_a_component_is_null_on_what_it_does_not_understand(
    language: Language, kind: ActionKind, config: RewardConfig
) -> None:
    run = trajectory(
        Step(index=0, action=Action(kind=kind, text=RIGHT)), outcome=Outcome(success=True)
    )
    (row,) = rows_of(run, task(language=language), config)
    for name in COMPONENTS:
        if not SCOPES[name](language, kind):
            assert row[name] is None
    is_program = language is Language.PYTHON and kind is ActionKind.CODE
    assert (row["syntax"] is None) is not is_program
    has_no_rules = kind is ActionKind.CODE and language in {
        Language.RUST,
        Language.TEXT,
        Language.TOOLS,
    }
    assert (row["danger"] is None) is has_no_rules


def test_every_component_declares_what_it_understands() -> None:
    assert set(SCOPES) == set(COMPONENTS)


def test_a_tool_call_that_the_policy_denies_is_dangerous(config: RewardConfig) -> None:
    policy = ToolPolicy.model_validate_json(
        '{"version": 1, "default": "allow", "rules": [{"id": "no-refunds", "tool": "refund",'
        ' "effect": "deny", "reason": "people do that"}]}'
    )
    call = Action(
        kind=ActionKind.TOOL_CALL, text="refund()", arguments={"name": "refund", "arguments": {}}
    )
    facts = Facts(visible={}, hidden={}, clean=frozenset(), policy=policy)
    run = trajectory(Step(index=0, action=call))
    (row,) = reward_rows(run, task(language=Language.TOOLS), facts, config)
    assert (row["danger"], row["policy"], row["ends_here"]) == (1.0, "deny", True)
    assert row["danger_rules"] == ["policy:no-refunds"]


def test_checks_that_cannot_be_run_leave_the_word_to_the_log(config: RewardConfig) -> None:
    request = GradeRequest(RIGHT, "add", HIDDEN)
    verdict = Verdict(checks=(CheckStatus.UNUSABLE,) * 2, layers=("box",), trusted=True)
    facts = Facts(visible={}, hidden={request: verdict}, clean=frozenset())
    run = trajectory(code(RIGHT), outcome=Outcome(success=True))
    (row,) = reward_rows(run, task(), facts, config)
    assert (row["all_tests"], row["outcome"], row["solved"]) == (None, 1.0, None)


def test_graded_turns_pay_progress_only_where_no_test_of_ours_does(config: RewardConfig) -> None:
    run = trajectory(code("SELECT 1", logged_reward=0.5), code("SELECT 2", logged_reward=1.0))
    sql = rows_of(run, task(language=Language.SQL, visible_checks=(), hidden_checks=()), config)
    assert [row["progress"] for row in sql] == [0.5, 0.5]
    assert [row["progress"] for row in rows_of(run, task(), config)] == [None, None]


def test_an_untrusted_verdict_marks_its_row(config: RewardConfig) -> None:
    request = GradeRequest(RIGHT, "add", HIDDEN)
    verdict = judged(request).model_copy(update={"trusted": False, "layers": ()})
    facts = Facts(visible={}, hidden={request: verdict}, clean=frozenset())
    (row,) = reward_rows(trajectory(code(RIGHT)), task(), facts, config)
    assert (row["trusted"], row["isolation"]) == (False, "")


def test_a_program_is_asked_for_once_however_often_the_log_holds_it() -> None:
    requests = Requests()
    for run in itertools.repeat(trajectory(code(RIGHT), code(WRONG), code(RIGHT)), 3):
        requests.add(run, task())
    assert [request.program for request in requests.visible] == [RIGHT, WRONG]
    assert [request.program for request in requests.hidden] == [RIGHT]
    assert {request.checks for request in requests.visible} == {VISIBLE}


PAID = st.dictionaries(
    st.sampled_from(COMPONENTS), st.one_of(st.none(), st.floats(-100, 100)), min_size=1
)


@given(row=PAID, name=st.sampled_from(COMPONENTS))
def test_doubling_a_weight_doubles_that_term_and_nothing_else(
    row: dict[str, float | None], name: str, params: Params
) -> None:
    weights = params.rewards.weights
    weight = getattr(weights, name)
    doubled = params.rewards.model_copy(
        update={"weights": weights.model_copy(update={name: 2 * weight})}
    )
    term = weight * (row.get(name) or 0.0)
    difference = reward_of(row, doubled) - reward_of(row, params.rewards)
    assert difference == pytest.approx(term, abs=1e-9)


@given(row=PAID, name=st.sampled_from(COMPONENTS))
def test_a_null_component_adds_nothing(
    row: dict[str, float | None], name: str, params: Params
) -> None:
    without = {key: value for key, value in row.items() if key != name}
    assert reward_of({**without, name: None}, params.rewards) == reward_of(without, params.rewards)
