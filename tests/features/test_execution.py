import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.features.contents import ActionContent, TaskContent
from harness_core.features.execution import (
    EXECUTION,
    UNKNOWN,
    ExecutionSignals,
    ProgramKey,
    is_program,
    plan_checks,
    run_all,
)
from harness_core.features.keys import answer_key, text_key, value_key
from harness_core.trajectories.vocabulary import ActionKind, Language
from tests.features.world import InProcessRunner

VISIBLE = ("assert add(1, 2) == 3",)
GENERATED = ("assert add(2, 2) == 4", "assert add(2, 2) == 5", "assert add(0, 0) == 0")


def task(**changes: object) -> TaskContent:
    fields = {
        "task_id": "t/1",
        "source": "s",
        "description": "Add.",
        "language": Language.PYTHON,
        "entry_point": "add",
        "visible_checks": VISIBLE,
        "generated_checks": GENERATED,
        **changes,
    }
    return TaskContent(**fields)  # type: ignore[arg-type]  # of mixed types


def run(*programs: str, spec: TaskContent | None = None, max_inputs: int = 10):
    spec = spec or task()
    keys = {ProgramKey(spec.source, spec.task_id, text): spec for text in programs}
    signals = run_all(keys, InProcessRunner(), max_inputs=max_inputs)
    return [signals[key] for key in keys]


def named(signals: ExecutionSignals) -> dict[str, float]:
    return dict(zip(EXECUTION, signals.columns, strict=True))


def test_one_run_answers_every_check_of_a_task():
    plan = plan_checks(task(), max_inputs=10)
    assert plan.calls == ("add(1, 2)", "add(2, 2)", "add(0, 0)")
    runner = InProcessRunner()
    spec = task()
    run_all({ProgramKey("s", "t/1", "def add(a, b): return a + b"): spec}, runner, max_inputs=10)
    assert len(runner.programs) == 1


def test_expected_values_stay_outside():
    assert not any("==" in call for call in plan_checks(task(), max_inputs=10).calls)


def test_every_visible_check_is_run_however_few_inputs_are_allowed():
    plan = plan_checks(task(), max_inputs=0)
    assert plan.calls == ("add(1, 2)",)
    assert plan.n_inputs == 0
    assert not plan.generated


def test_the_most_frequent_generated_calls_come_first():
    plan = plan_checks(task(), max_inputs=2)
    assert plan.calls == ("add(1, 2)", "add(2, 2)")
    assert len(plan.generated) == 2


def test_signals_of_right_wrong_and_broken_programs():
    right, wrong, constant, broken = run(
        "def add(a, b): return a + b",
        "def add(a, b): return a - b",
        "def add(a, b): return 3",
        "def add(a, b) return",
    )
    assert [item.visible_rate for item in (right, wrong, constant, broken)] == [1.0, 0.0, 1.0, 0.0]
    assert right.generated_passed == (True, False, True)
    assert named(right)["generated_share"] == pytest.approx(2 / 3)
    assert named(right)["distinct_share"] == 1.0
    assert named(constant)["distinct_share"] == 0.0
    assert named(broken)["not_loaded"] == 1.0
    assert not any(broken.outputs)


def test_programs_that_return_the_same_have_the_same_outputs():
    first, second = run("def add(a, b): return a + b", "def add(a, b): return sum([b, a])")
    assert first.outputs == second.outputs


def test_a_program_that_raises_says_so():
    (raising,) = run("def add(a, b): return a // 0")
    assert named(raising)["raised_share"] == 1.0
    assert raising.outputs == (0, 0, 0)


def test_a_task_without_checks_runs_nothing():
    runner = InProcessRunner()
    spec = task(visible_checks=(), generated_checks=())
    (signals,) = run("def add(a, b): return 1", spec=spec)
    assert signals == UNKNOWN
    assert not runner.programs


def test_a_visible_check_that_is_no_plain_call_goes_to_the_grader():
    spec = task(visible_checks=("x = add(1, 2)\nassert x == 3",), generated_checks=())
    (signals,) = run("def add(a, b): return a + b", spec=spec)
    assert signals.visible_rate == 1.0


@pytest.mark.parametrize(
    ("kind", "language", "text", "expected"),
    [
        (ActionKind.CODE, Language.PYTHON, "x = 1", True),
        (ActionKind.CODE, Language.SQL, "SELECT 1", False),
        (ActionKind.MESSAGE, Language.PYTHON, "x = 1", False),
        (ActionKind.CODE, Language.PYTHON, "  ", False),
    ],
)
def test_only_python_code_is_a_program(kind, language, text, expected):
    assert is_program(ActionContent(kind=kind, text=text), task(language=language)) is expected


def test_nothing_known_is_not_a_bad_result():
    assert math.isnan(UNKNOWN.visible_rate)
    assert not any(UNKNOWN.columns)


data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(data)
def test_a_key_of_a_value_is_positive_and_fits_a_column(value):
    assert 0 < value_key(value) < 1 << 63


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 1.0),
        (True, 1),
        (0.1 + 0.2, 0.3),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({3, 1, 2}, {1, 2, 3}),
        (-0.0, 0),
    ],
)
def test_values_that_are_equal_have_one_key(first, second):
    assert value_key(first) == value_key(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [([1], (1,)), ("1", 1), (None, False), ([], {}), ([1, 2], [2, 1]), ("a", ["a"]), (1, 2)],
)
def test_values_that_differ_have_two_keys(first, second):
    assert value_key(first) != value_key(second)


def test_white_space_does_not_make_another_text():
    assert text_key("a  b\n") == text_key("a b")
    assert text_key("  ") == 0


def test_the_answer_of_a_message_is_what_it_says_it_is():
    assert answer_key("So we add. The answer is 42.") == answer_key("Hence\n#### 42")
    assert answer_key("The answer is 42.") != answer_key("The answer is 43.")
    assert answer_key("") == 0
