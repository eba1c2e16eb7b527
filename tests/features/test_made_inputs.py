"""Inputs made from what a task shows."""

import ast

from hypothesis import given
from hypothesis import strategies as st

from harness_core.features.made_inputs import made_calls

SIGNATURE = "def total(xs: list[int], start: int):\n    '''Sum of xs, from start on.'''\n"
CALLS = ["total([1, 2], 0)", "total([], 5)", "total([3, 3, 3], 1)", "total([9], -1)"]


def arguments(call: str) -> list[object]:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    return [ast.literal_eval(item) for item in node.args]


def test_the_same_task_always_gets_the_same_inputs() -> None:
    made = made_calls(SIGNATURE, "total", CALLS, limit=20)
    assert made == made_calls(SIGNATURE, "total", CALLS, limit=20)
    assert made != made_calls(SIGNATURE, "total", CALLS[:3], limit=20)


def test_made_calls_are_new_and_differ() -> None:
    made = made_calls(SIGNATURE, "total", CALLS, limit=40)
    assert len(made) == len(set(made)) == 40
    assert not set(made) & set(CALLS)


def test_arguments_keep_the_types_that_the_checks_show() -> None:
    for call in made_calls(SIGNATURE, "total", CALLS, limit=40):
        xs, start = arguments(call)
        assert isinstance(xs, list)
        assert all(type(x) is int for x in xs)
        assert type(start) is int


def test_annotations_stand_in_where_no_check_is_shown() -> None:
    made = made_calls("def shout(word: str) -> str:\n    '''Louder.'''", "shout", [], limit=12)
    assert len(made) == 12
    assert all(isinstance(value, str) for call in made for value in arguments(call))


def test_nothing_is_made_of_a_function_that_nothing_is_known_of() -> None:
    assert made_calls("Write a function that adds.", "add", [], limit=9) == []
    assert made_calls("", "add", ["add(x, y)", "add(a=1)"], limit=9) == []
    assert made_calls("def now():\n    '''The time.'''", "now", [], limit=9) == []


@given(st.lists(st.tuples(st.integers(), st.text(max_size=8)), max_size=5), st.integers(0, 9))
def test_whatever_checks_show_calls_can_be_parsed_and_are_bounded(rows, limit):
    calls = [f"f({number!r}, {text!r})" for number, text in rows]
    made = made_calls("def f(a, b):\n    pass\n", "f", calls, limit=limit)
    assert len(made) <= limit
    for call in made:
        assert len(call) <= 400
        assert len(arguments(call)) == 2
