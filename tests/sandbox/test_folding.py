"""Which sources are too deep for a parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.sandbox.folding import is_deep

PIECES = st.sampled_from(
    [
        "(",
        "[" * 30,
        "(" * 81,
        ")",
        "]" * 40,
        "-",
        "~ " * 60,
        "\n",
        "\\\n" * 70,
        ". ",
        "x",
        "x = 1\n",
    ]
)


def is_deep_character_by_character(source: str) -> bool:
    depth = run = 0
    for character in source:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth = max(depth - 1, 0)
        run = run + 1 if character in "-+~. \\" or (run and character == "\n") else 0
        if depth > 80 or run > 200:
            return True
    return False


@given(st.lists(PIECES, max_size=12).map("".join))
def test_depth_is_found_as_if_every_character_were_looked_at(source: str) -> None:
    assert is_deep(source) == is_deep_character_by_character(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("(" * 80 + ")" * 80, False),
        ("(" * 81, True),
        ("()" * 500, False),
        ("-" * 200 + "1", False),
        ("-" * 201 + "1", True),
        ("\n" * 500, False),
        ("- \n" * 67, True),
    ],
)
def test_brackets_and_prefix_operators_nest_as_deep_as_they_say(
    source: str, expected: object
) -> None:
    assert is_deep(source) is expected
