import ast
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.sandbox.folding import NotConstantError, fold, parse
from harness_core.sandbox.sources import split_source
from harness_core.sandbox.splitting import is_usable, split_check, split_program

SPLIT = [
    # check, call, operator, expected
    ("assert f(1, 2) == 3", "f(1, 2)", "==", 3),
    ("assert 3 == f(1, 2), 'a message'", "f(1, 2)", "==", 3),
    ("assert (f(1)) == (2)", "f(1)", "==", 2),
    ("assert candidate([1]) == [2]", "f([1])", "==", [2]),
    ("assert f(candidate(1)) == 2", "f(f(1))", "==", 2),
    ("assert f(x=1, *[2], **{}) == 3", "f(*[2], x=1, **{})", "==", 3),
    ("assert f(1) != 2", "f(1)", "!=", 2),
    ("assert 1 < f(1)", "f(1)", ">", 1),
    ("assert f(1) is None", "f(1)", "is", None),
    ("assert f(1) is not True", "f(1)", "is not", True),
    ("assert f(1) in [1, 2]", "f(1)", "in", [1, 2]),
    ("assert 'a' in f(1)", "f(1)", "contains", "a"),
    ("assert f(1)", "f(1)", "true", None),
    ("assert not f(1)", "f(1)", "false", None),
    ("assert abs(f(1) - 2.5) < 1e-6", "f(1)", "<", 1e-6),
    ("assert abs(2.5 - f(1)) <= 1e-6", "f(1)", "<=", 1e-6),
    ("assert math.isclose(f(1), 2.5)", "f(1)", "close", 2.5),
    ("assert round(f(1), 3) == 2.5", "f(1)", "==", 2.5),
    ("assert sorted(f([1])) == [1]", "[*f([1])]", "==", [1]),
    ("assert set(f(1)) == set((4, 5))", "[*f(1)]", "==", {4, 5}),
    ("assert len(set(f(1))) == 2", "[*f(1)]", "==", 2),
    ("assert f(1)[0] == 2", "f(1)", "==", 2),
    ("assert f(1) == [1] * 3", "f(1)", "==", [1, 1, 1]),
    ("assert f(1) == 10 ** 9 + 7", "f(1)", "==", 10**9 + 7),
    ("assert f(1) == float('inf')", "f(1)", "==", float("inf")),
    ("assert f(1) == -1.5", "f(1)", "==", -1.5),
    ("assert f(1) == 1 / 4", "f(1)", "==", 0.25),
    ("assert f(1) == ((1, 'a'), {2: None})", "f(1)", "==", ((1, "a"), {2: None})),
    ("assert f(1) == math.sqrt(4)", "f(1)", "==", 2.0),
    ("assert f(1) in range(3)", "f(1)", "in", range(3)),
    ("assert f(1) == 'abc'[1:]", "f(1)", "==", "bc"),
    ("assert f(1) == sorted([2, 1], reverse=True)", "f(1)", "==", [2, 1]),
    ("assert f(1) == datetime.date(2026, 1, 31)", "f(1)", "==", date(2026, 1, 31)),
    ("assert f(1) == math.pi", "f(1)", "==", 3.141592653589793),
    ("assert f([i for i in range(3)]) == 3", "f([i for i in range(3)])", "==", 3),
    ("assert f().g(2) == 3", "f().g(2)", "==", 3),
    ("assert f(2) - 9 == 0", "f(2)", "==", 0),
    ("assert Solution().f([1]) == 2", "Solution().f([1])", "==", 2),
]

WHOLE = [
    "assert f(1) == f(2)",
    "assert f(1) == g(1)",
    "assert 1 < f(1) < 3",
    "assert f(1) == 1 and f(2) == 2",
    "assert f(1) == [i for i in range(3)]",
    "assert f(1) + 1 == 2",
    "assert f(1)[1:] == [2]",
    "assert g(1) == 1",
    "assert f(1) == 10 ** 10 ** 10",
    "assert f(1) == 'x' * 10 ** 10",
    "assert f(1) == '%999999999d' % 1",
    "assert f(1) == 1 << 10 ** 9",
    "assert f(1) is 5",
    "assert f(1) == x",
    "f(1)",
    "assert f(1) == 1\nassert f(2) == 2",
]


@pytest.mark.parametrize(("check", "call", "operator", "expected"), SPLIT)
def test_a_check_is_taken_apart(check: str, call: str, operator: str, expected: Any) -> None:
    split = split_check(check, "f")
    assert split is not None
    assert (split.call, split.comparison.operator, split.expected) == (call, operator, expected)


@pytest.mark.parametrize("check", WHOLE)
def test_what_is_not_one_comparison_with_data_stays_whole(check: str) -> None:
    assert split_check(check, "f") is None


@pytest.mark.parametrize(
    ("check", "call"),
    [
        ("assert Solver().solve([1]) == 2", "Solver().solve([1])"),
        ("assert solve(1) == 2", "solve(1)"),
        ("assert len(solve(1)) == 2", "solve(1)"),
    ],
)
def test_without_an_entry_point_the_call_is_what_is_not_builtin(check: str, call: str) -> None:
    split = split_check(check, None)
    assert split is not None
    assert split.call == call


literals = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(literals, literals)
def test_any_literal_is_found_again(argument: Any, expected: Any) -> None:
    call = f"f({argument!r})"
    for check in (f"assert {call} == {expected!r}", f"assert {expected!r} == {call}, 'm'"):
        split = split_check(check, "f")
        assert split is not None
        assert split.expected == expected
        assert split.comparison.holds(expected)
        # Only the call goes into the box, and nothing of what is expected goes with it.
        assert ast.dump(ast.parse(split.call)) == ast.dump(ast.parse(call))


@given(st.text(max_size=60))
def test_any_text_is_split_or_refused(text: str) -> None:
    split_check(text, "f")
    split_program(text, "f")
    split_source(text, "f")
    is_usable(text, "f")


@pytest.mark.parametrize(
    "source",
    [
        "(" * 5000,
        "-" * 100_000 + "1",
        "not " * 100_000 + "1",
        "f" + "(1)" * 100_000,
        "x" + ".x" * 100_000,
        "+".join(["1"] * 100_000),
        "lambda: " * 10_000 + "1",
        "1 if 1 else " * 10_000 + "1",
        "assert f(1) == " + "[" * 200 + "]" * 200,
        "x" * (1 << 19),
    ],
)
def test_a_text_that_would_exhaust_the_parser_is_refused(source: str) -> None:
    module = parse(source)
    assert module is None or split_check(source, "f") is None


def test_a_function_of_asserts_is_taken_apart() -> None:
    source = '''
METADATA = {"author": "somebody"}

def check(candidate):
    """Look at a few values."""
    assert candidate(1) == 2, "first"
    assert abs(candidate(2) - 3) < 0.1
    assert True, "always"

check(f)
'''
    parts = split_program(source, "f")
    assert parts is not None
    assert [part.call for part in parts] == ["f(1)", "f(2)"]


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(3): assert candidate(i) == i",
        "x = 1\n    assert candidate(x) == 1",
        "assert candidate(helper(1)) == 1",
        "assert candidate(1) == helper(1)",
        "print(candidate(1))\n    assert candidate(1) == 1",
        "with open('x'): pass",
    ],
)
def test_a_function_that_does_more_stays_whole(body: str) -> None:
    assert split_program(f"def check(candidate):\n    {body}\n", "f") is None


def test_a_call_that_needs_a_name_of_the_check_program_stays_whole() -> None:
    assert split_program("import math\nassert f(math.pi) == 3", "f") is None
    assert split_program("n = 3\nassert f(n) == 3", "f") is None


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("assert f(1) == 1", True),
        ("assert candidate(1)", True),
        ("assert f(1) ==", False),
        ("assert True", False),
        ("assert 1 + 1 == 2", False),
        ("assert g(1) == 1", False),
        ("assert Solution().f(1) == 1", True),
        ("def check(candidate): assert candidate(1)", True),
    ],
)
def test_a_usable_check_is_python_and_names_the_program(check: str, *, expected: bool) -> None:
    assert is_usable(check, "f") is expected


@pytest.mark.parametrize("text", ["f(1)", "x", "[*[1]]", "{**{}}", "lambda: 1", "...", "'a' % 1"])
def test_only_constants_are_folded(text: str) -> None:
    module = parse(text)
    assert module is not None
    statement: Any = module.body[0]
    with pytest.raises(NotConstantError):
        fold(statement.value)
