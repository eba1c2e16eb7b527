"""Which values leave a box, and what is equal to what."""

import contextlib
import math
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.inside.codec import NotDataError, decode, encode
from harness_core.sandbox.result import CheckStatus

LIMITS: dict[str, Any] = {"limit_bytes": 1 << 16, "max_depth": 20}

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.datetimes(timezones=st.none() | st.just(UTC))
)
keys = st.integers() | st.text() | st.tuples(st.integers(), st.text())
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner, max_size=4)
        | st.sets(keys, max_size=4)
        | st.frozensets(keys, max_size=4)
        | st.binary().map(bytearray)
    ),
    max_leaves=12,
)


@given(values)
def test_data_comes_back_as_it_was(value: Any) -> None:
    # repr tells types, signs of zero and NaN apart; sets have no order to compare.
    back = decode(encode(value, **LIMITS), **LIMITS)
    assert type(back) is type(value)
    assert repr(back) == repr(value) or back == value


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_data_or_refused(payload: bytes) -> None:
    with contextlib.suppress(NotDataError):
        decode(payload, **LIMITS)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"nan",
        b"NaN",
        b"Infinity",
        b"1e999",
        b"9" * 5000,
        b"[" * 10_000,
        b'{"a":' * 10_000,
        b'{"t":[]}{"t":[]}',
        b'{"t":[1],"t":[2]}',
        b"{}",
        b'{"q":[1]}',
        b'{"t":1}',
        b'{"i":5}',
        b'{"f":"1"}',
        b'{"d":[[[1],2]]}',
        b'{"d":[[1]]}',
        b'{"s":[[1]]}',
        b'{"c":["1","2"]}',
        b'{"h":0}',
        b'{"D":"today"}',
        b'{"y":20260131}',
        b'{"x":[1]}',
        b'{"x":[1e300,0,0]}',
        b'{"x":["1",0,0]}',
        b'"\xff"',
        b"[" + b"1," * 40_000 + b"1]",
    ],
)
def test_a_hostile_payload_is_refused(payload: bytes) -> None:
    with pytest.raises(NotDataError):
        decode(payload, **LIMITS)


def test_depth_and_size_have_limits() -> None:
    deep: Any = 1
    for _ in range(21):
        deep = [deep]
    with pytest.raises(NotDataError, match="deep"):
        encode(deep, **LIMITS)
    with pytest.raises(NotDataError, match="large"):
        encode("x" * (1 << 16), **LIMITS)
    with pytest.raises(NotDataError, match="large"):
        encode(1 << (1 << 20), **LIMITS)


def test_the_bytes_of_a_set_do_not_depend_on_its_order() -> None:
    names = [f"name {number}" for number in range(40)]
    assert encode(set(names), **LIMITS) == encode({*names[::-1]}, **LIMITS)


HONEST = [
    # returned expression, check of it, is it passed?
    ("2", "f() == 2", True),
    ("2.0", "f() == 2", True),
    ("2", "f() == 2.0", True),
    ("True", "f() == 1", True),
    ("True", "f() is True", True),
    ("1", "f() is True", False),
    ("None", "f() is None", True),
    ("None", "f() == False", False),
    ("(1, 2)", "f() == (1, 2)", True),
    ("[1, 2]", "f() == (1, 2)", False),
    ("(1, 2)", "tuple(f()) == (1, 2)", True),
    ("[1, 2]", "tuple(f()) == (1, 2)", True),
    ("{1, 2}", "f() == {2, 1}", True),
    ("frozenset([1])", "f() == {1}", True),
    ("{'a': (1, [2])}", "f() == {'a': (1, [2])}", True),
    ("{(1, 2): 3, None: 4}", "f() == {(1, 2): 3, None: 4}", True),
    ("collections.Counter('aab')", "f() == {'a': 2, 'b': 1}", True),
    ("collections.OrderedDict(a=1)", "f() == {'a': 1}", True),
    ("collections.defaultdict(int, a=1)", "f() == {'a': 1}", True),
    ("10 ** 400", "f() == 10 ** 400", True),
    ("-(2 ** 70)", "f() == -(2 ** 70)", True),
    ("0.1 + 0.2", "abs(f() - 0.3) < 1e-9", True),
    ("0.1 + 0.2", "f() == 0.3", False),
    ("1.23456", "round(f(), 2) == 1.23", True),
    ("1.0000001", "math.isclose(f(), 1, rel_tol=1e-3)", True),
    ("float('inf')", "f() == float('inf')", True),
    ("-0.0", "f() == 0", True),
    ("1j", "f() == 1j", True),
    ("b'a'", "f() == b'a'", True),
    ("bytearray(b'a')", "f() == b'a'", True),
    ("'é\\u2028'", "f() == 'é\\u2028'", True),
    ("'\\ud800'", "f() == '\\ud800'", True),
    ("[3, 1, 2]", "sorted(f()) == [1, 2, 3]", True),
    ("(i for i in range(3))", "list(f()) == [0, 1, 2]", True),
    ("map(str, range(2))", "list(f()) == ['0', '1']", True),
    ("{1: 2}.keys()", "set(f()) == {1}", True),
    ("(i for i in range(3))", "f() == [0, 1, 2]", False),
    ("range(3)", "f() == [0, 1, 2]", False),
    ("[1, 2, 3]", "len(f()) == 3", True),
    ("[1, 2, 3]", "2 in f()", True),
    ("2", "f() in (1, 2)", True),
    ("2", "1 <= f()", True),
    ("[5]", "f()[0] == 5", True),
    ("[]", "not f()", True),
    ("[0]", "f()", True),
    ("object()", "f()", False),
    ("fractions.Fraction(1, 2)", "f() == 0.5", False),
    ("datetime.date(2026, 1, 31)", "f() == datetime.date(2026, 1, 31)", True),
    ("datetime.datetime(2026, 1, 31)", "f() == datetime(2026, 1, 31)", True),
    ("datetime.timedelta(hours=1)", "f() == datetime.timedelta(minutes=60)", True),
    ("type('D', (datetime.date,), {})(2026, 1, 31)", "f() == datetime.date(2026, 1, 31)", False),
]


@pytest.fixture(scope="module")
def honest(boxed) -> list[CheckStatus]:
    head = "import collections, datetime, fractions\n"
    jobs = [
        GradeJob(f"{head}def f(): return {returned}", "f", (f"assert {check}",))
        for returned, check, _ in HONEST
    ]
    return [verdict.checks[0] for verdict in Grader(boxed).grade(jobs)]


@pytest.mark.parametrize("number", range(len(HONEST)), ids=lambda n: " : ".join(HONEST[n][:2]))
def test_honest_values_compare_as_in_python(number: int, honest: list[CheckStatus]) -> None:
    assert honest[number] is (CheckStatus.PASSED if HONEST[number][2] else CheckStatus.FAILED)


def test_nan_is_nothing_even_inside_of_data() -> None:
    expected = [math.nan]
    assert decode(encode(expected, **LIMITS), **LIMITS) != expected
