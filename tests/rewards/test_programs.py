"""What the form of a program earns, and that no layout earns more."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.rewards.programs import (
    ProcessTerms,
    excess_lines,
    gate_is_open,
    gated,
    has_valid_syntax,
    logical_lines,
    visible_tests,
)
from harness_core.sandbox.result import CheckStatus, Verdict

PASSED, FAILED, UNUSABLE = CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.UNUSABLE


def verdict(*checks: CheckStatus) -> Verdict:
    return Verdict(checks=checks, layers=("box",), trusted=True)


@pytest.mark.parametrize(
    "program",
    [
        "x = 1",
        "",
        "def f():\n    return '\\d'",
        "x = 1 if 2 is 3 else 4",
        "async def f(): await g()",
    ],
)
def test_a_program_that_parses_has_valid_syntax(program: str) -> None:
    assert has_valid_syntax(program)


@pytest.mark.parametrize(
    "program",
    [
        "def f(",
        "x = 1\0",
        "x = '\ud800'",
        "(" * 100_000,
        "-" * 100_000 + "1",
        "x = 1\n" * 100_000,
        "print 'x'",
    ],
)
def test_a_program_that_cannot_be_read_has_no_syntax_and_no_lines(program: str) -> None:
    assert not has_valid_syntax(program)
    assert logical_lines(program) is None


LONG = textwrap.dedent(
    '''
    """What this is."""

    # A remark.
    def f(x):
        """What f does."""
        y = x + 1
        z = (
            y
            * 2
        )
        return z
    '''
)


def test_lines_are_statements_and_neither_remarks_nor_layout() -> None:
    assert logical_lines(LONG) == 4


@pytest.mark.parametrize(
    "packed",
    [
        "def f(x):\n    y = x + 1; z = y * 2; return z",
        "def f(x): y = x + 1; z = y * 2; return z",
        "def f(x):\n    return [y := x + 1, z := y * 2][-1]",
        "exec('def f(x):\\n    y = x + 1\\n    z = y * 2\\n    return z')",
    ],
)
def test_packing_lines_gains_nothing(packed: str) -> None:
    packed_lines = logical_lines(packed)
    assert packed_lines is not None
    assert packed_lines >= 4


@given(st.lists(st.sampled_from(["x = 1", "print(x)", "x += 2", "del x"]), min_size=1))
def test_a_semicolon_counts_as_a_new_line(statements: list[str]) -> None:
    assert logical_lines("; ".join(statements)) == logical_lines("\n".join(statements))


def test_length_is_free_up_to_the_slack_and_counted_above_it() -> None:
    reference = "\n".join(["x = 1"] * 10)
    assert excess_lines("x = 1\n" * 15, reference, length_slack=1.5) == 0
    assert excess_lines("x = 1\n" * 18, reference, length_slack=1.5) == 3
    assert excess_lines("", reference, length_slack=1.5) == 0
    assert excess_lines("x = 1\n" * 99, reference, length_slack=1.5, limit=20.0) == 20


@pytest.mark.parametrize(
    ("program", "reference"), [("x = 1", None), ("x = (", "x"), ("x", "x = (")]
)
def test_length_means_nothing_without_two_programs(program: str, reference: str | None) -> None:
    assert excess_lines(program, reference, length_slack=1.5) is None


def test_visible_tests_are_counted_where_there_are_any() -> None:
    assert visible_tests(verdict(PASSED, FAILED, PASSED, UNUSABLE), is_foul=False) == 2
    assert visible_tests(verdict(FAILED), is_foul=False) == 0
    assert visible_tests(verdict(UNUSABLE), is_foul=False) is None
    assert visible_tests(None, is_foul=False) is None


def test_a_test_that_nothing_passes_too_counts_nothing() -> None:
    telling = verdict(PASSED, PASSED).model_copy(update={"vacuous": (True, False)})
    assert visible_tests(telling, is_foul=False) == 1
    vacuous = verdict(PASSED).model_copy(update={"vacuous": (True,)})
    assert visible_tests(vacuous, is_foul=False) is None


def test_foul_play_earns_nothing_and_is_no_unknown() -> None:
    assert visible_tests(verdict(PASSED, PASSED), is_foul=True) == 0
    assert visible_tests(None, is_foul=True) is None


@pytest.mark.parametrize(
    ("visible", "solved", "is_open"),
    [
        (1.0, False, True),
        (0.0, True, False),
        (None, True, True),
        (None, False, False),
        (None, None, None),
    ],
)
def test_the_gate_asks_visible_tests_first_and_hidden_ones_without_any(
    visible: float | None, *, solved: bool | None, is_open: bool | None
) -> None:
    assert gate_is_open(visible, solved=solved) is is_open


def test_a_shut_gate_pays_nothing_and_an_unknown_one_says_nothing() -> None:
    terms = ProcessTerms(syntax=1.0, excess_lines=3.0, style=None)
    assert gated(terms, is_open=True) == terms
    assert gated(terms, is_open=False) == ProcessTerms(0.0, 0.0, None)
    assert gated(terms, is_open=None) == ProcessTerms(None, None, None)
