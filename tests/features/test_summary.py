import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.features.contents import ActionContent, StepContent, TaskContent
from harness_core.features.execution import UNKNOWN, ExecutionSignals
from harness_core.features.history import NUMERIC, History
from harness_core.features.summary import SUMMARY, summarise
from harness_core.trajectories.vocabulary import ActionKind, Language


def summary(
    text: str,
    *,
    kind: ActionKind = ActionKind.CODE,
    language: Language = Language.PYTHON,
    arguments: str = "{}",
    seen: str = "",
    checks: tuple[str, ...] = (),
) -> dict[str, float]:
    task = TaskContent(
        task_id="t",
        source="s",
        description="d",
        language=language,
        entry_point="f",
        visible_checks=checks,
    )
    row = summarise(ActionContent(kind=kind, text=text, arguments=arguments), task, seen=seen)
    return dict(zip(SUMMARY, row.tolist(), strict=True))


def test_names_are_distinct():
    assert len(set(SUMMARY)) == len(SUMMARY)
    assert len(set(NUMERIC)) == len(NUMERIC)


@given(
    st.text(),
    st.sampled_from(ActionKind),
    st.sampled_from(Language),
    st.sampled_from(["{}", "[]", "null", "no json", '{"name": 3, "arguments": "x"}']),
)
def test_any_action_has_a_finite_summary(text, kind, language, arguments):
    values = summary(text, kind=kind, language=language, arguments=arguments)
    assert np.isfinite(list(values.values())).all()


@pytest.mark.parametrize(
    "program",
    ["(" * 5000, "x = " + "-" * 50_000 + "1", "\x00", "def f(:", "f" * 60_000, "'\\d'", "\ud800"],
)
def test_hostile_programs_are_summarised_too(program):
    assert np.isfinite(list(summary(program).values())).all()


def test_structure_of_a_program_is_counted():
    text = (
        'def f(a, b):\n    "Doc."\n    for x in a:\n        if x:\n            return f(a, 1)\n'
        "    return None\n"
    )
    found = summary(text)
    assert found["program_parses"] == 1.0
    assert found["program_n_loops"] == pytest.approx(np.log(2))
    assert found["program_entry_is_recursive"] == 1.0
    assert found["program_has_docstring"] == 1.0
    assert found["program_has_entry_point"] == 1.0
    assert found["program_unused_arguments"] == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    ("program", "is_stub"),
    [
        ("def f(a):\n    pass", True),
        ("def f(a):\n    ...", True),
        ('def f(a):\n    "Doc."', True),
        ("def f(a):\n    raise NotImplementedError", True),
        ("def f(a):\n    return a", False),
    ],
)
def test_a_body_that_does_nothing_is_a_stub(program, is_stub):
    assert summary(program)["program_entry_is_stub"] == float(is_stub)


def test_answers_copied_from_the_visible_checks_are_noticed():
    checks = ("assert f(17) == 1234",)
    assert summary("def f(a): return 1234", checks=checks)["program_literals_of_checks"] > 0
    assert summary("def f(a): return 2 * a", checks=checks)["program_literals_of_checks"] == 0


def test_a_program_that_does_not_parse_says_so():
    assert summary("def f(a) return a")["program_parses"] == 0.0


def test_keywords_of_a_query_are_counted():
    text = (
        "SELECT a, b FROM t JOIN u ON t.x = u.x "
        "WHERE t.y IN (SELECT y FROM v) ORDER BY a DESC LIMIT 3"
    )
    found = summary(text, language=Language.SQL)
    assert found["sql_n_tables"] == pytest.approx(np.log(4))
    assert found["sql_is_nested"] == 1.0
    assert found["sql_order_by"] > 0
    assert found["sql_group_by"] == 0
    assert found["sql_n_columns"] == pytest.approx(np.log(3))


def test_a_pipeline_of_commands_is_counted():
    found = summary("find . -name '*.py' | xargs grep x > out", language=Language.SHELL)
    assert found["shell_n_pipes"] == pytest.approx(np.log(2))
    assert found["shell_n_redirects"] > 0
    assert found["shell_searches"] > 0


def test_arguments_that_were_never_shown_are_counted():
    call = '{"name": "cancel", "arguments": {"order_id": "W12345", "reason": ["made up"]}}'
    found = summary(
        "cancel(...)", kind=ActionKind.TOOL_CALL, arguments=call, seen="cancel W12345 please"
    )
    assert found["tool_n_arguments"] == pytest.approx(np.log(3))
    assert found["tool_seen_share"] == 0.5
    assert found["tool_unseen_values"] == pytest.approx(np.log(2))
    assert sum(found[f"tool_bucket_{bucket}"] for bucket in range(8)) == 1.0


def test_deep_arguments_do_no_harm():
    deep = "[" * 900 + "]" * 900
    arguments = f'{{"name": "x", "arguments": {deep}}}'
    found = summary("x", kind=ActionKind.TOOL_CALL, arguments=arguments)
    assert found["tool_n_values"] == 0


def test_a_message_is_no_program():
    found = summary("Shall I go on?", kind=ActionKind.MESSAGE)
    assert found["asks"] == 1.0
    assert not any(value for name, value in found.items() if name.startswith("program_"))


def numbers(*steps: StepContent, execution: ExecutionSignals = UNKNOWN) -> dict[str, float]:
    history = History()
    for step in steps:
        history.add(step, execution)
    return dict(zip(NUMERIC, history.numbers(), strict=True))


def step(text: str, *, result: str = "", is_error: bool | None = None) -> StepContent:
    action = ActionContent(kind=ActionKind.CODE, text=text)
    return StepContent(actions=(action,), result=result, is_error=is_error)


def test_nothing_has_happened_at_the_start():
    found = numbers()
    assert found.pop("is_start") == 1.0
    assert not any(found.values())


def test_errors_and_repeats_are_counted():
    found = numbers(step("a", is_error=True), step("b", is_error=False), step("a", is_error=None))
    assert found["step_index"] == 3.0
    assert found["error_rate"] == pytest.approx(1 / 3)
    assert found["last_is_repeat"] == 1.0
    assert found["last_error_known"] == 0.0


@pytest.mark.parametrize(
    ("result", "is_empty", "is_nothing"),
    [("", 1.0, 1.0), ("[]", 0.0, 1.0), ("[('a', 1)]", 0.0, 0.0)],
)
def test_an_empty_result_is_told_from_a_full_one(result, is_empty, is_nothing):
    found = numbers(step("a", result=result))
    assert (found["result_is_empty"], found["result_is_nothing"]) == (is_empty, is_nothing)


def test_the_best_visible_rate_is_kept():
    history = History()
    for rate in (0.5, 1.0, 0.25):
        history.add(step("a"), ExecutionSignals(visible_rate=rate))
    found = dict(zip(NUMERIC, history.numbers(), strict=True))
    assert (found["visible_last"], found["visible_best"]) == (0.25, 1.0)
    assert found["visible_gain"] == -0.75
