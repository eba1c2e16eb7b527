"""Tests written anew as scripts: what enters the box, what stays with the grader."""

import ast
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.sandbox.claims import holds
from harness_core.sandbox.protocol import CheckJob, ProgramJob, Sandbox
from harness_core.sandbox.result import CallStatus, CheckStatus
from harness_core.sandbox.scripts import SplitScript
from harness_core.sandbox.sources import split_source

UNITTEST = """
import unittest
import json
import os

class FirstTest(unittest.TestCase):
    def setUp(self):
        self.account = f("me")
        self.limit = 99

    def test_b(self):
        self.account.add(4)
        self.assertEqual(self.account.total, 4, "a message")
        self.assertLess(self.account.total, self.limit)

    def test_a(self):
        with self.assertRaises((ValueError, KeyError)) as caught:
            self.account.add(-1)
        self.assertEqual(str(caught.exception), "negative")
        self.assertRaises(ValueError, self.account.add, -2)

    def tearDown(self):
        self.account.close()

class SecondTest(unittest.TestCase):
    def test_them(self):
        for amount, expected in [(1, "one"), (2, "two")]:
            with self.subTest(amount=amount):
                self.assertEqual(f("me").name(amount), expected)

if __name__ == "__main__":
    unittest.main()
"""
ACCOUNT = """
class f:
    def __init__(self, owner): self.total = 0
    def add(self, amount):
        if amount < 0: raise ValueError("negative")
        self.total += amount
    def name(self, amount): return ["zero", "one", "two"][amount]
    def close(self): pass
"""


def only(source: str, entry_point: str | None = "f") -> SplitScript:
    scripts = split_source(source, entry_point)
    assert scripts is not None
    (script,) = scripts
    return script


def body(script: SplitScript) -> str:
    return "\n".join(line[4:] for line in script.source.splitlines()[1:])


@pytest.mark.parametrize(
    ("source", "written", "n_claims"),
    [
        ("c = f(1)\nc.add(2)\nassert c.n == 3", "c = f(1)\nc.add(2)\n_observe_(c.n)", 1),
        ("xs = [3, 1]\nf(xs)\nassert xs == [1, 3]", "xs = [3, 1]\nf(xs)\n_observe_(xs)", 1),
        ("want = [1, 2]\nassert f(1) == want", "_observe_(f(1))", 1),
        ("n = 7\nassert f(n) == n + 1", "n = 7\n_observe_(f(n))", 1),
        ("a = 2\nf(a)\na = 9\nassert f(1) == a", "a = 2\nf(a)\n_observe_(f(1))", 1),
        ("n = 1\nn += 2\nassert f(n) == 5", "n = 1\nn = n + 2\n_observe_(f(n))", 1),
        ("assert f(1) == 1 and f(2) == 2", "_observe_(f(1))\n_observe_(f(2))", 2),
        ("assert f(1) == f(2)", "_observe_(f(1))\n_observe_(f(2))", 1),
        ("assert [f(1), f(2)] == [3, 4]", "_observe_(f(1))\n_observe_(f(2))", 1),
        ("assert 1 < f(1) < 3", "_observe_(f(1))", 1),
        ("assert f(1)[1:] == [2]", "_observe_(f(1)[1:])", 1),
        ("assert sorted(f(1)) == [2]", "_observe_([*f(1)])", 1),
        ("c = f(1)\nassert len(c.items) == 2", "c = f(1)\n_observe_size_(c.items)", 1),
        ("c = f(1)\nassert c.link is not None", "c = f(1)\n_observe_presence_(c.link)", 1),
        ("c = f(1)\nassert isinstance(c.n, int)", "c = f(1)\n_observe_(c.n)", 1),
        ("for x in (1, 2): assert f(x) == x",
         "x = 1\n_observe_(f(x))\nx = 2\n_observe_(f(x))", 2),
        ("for i, x in enumerate('ab'): assert f(x) == i",
         "x = 'a'\n_observe_(f(x))\nx = 'b'\n_observe_(f(x))", 2),
        ("import math\nassert f(math.pi) == 3", "import math\n_observe_(f(math.pi))", 1),
        ("import math\nassert f(1) == math.pi", "_observe_(f(1))", 1),
        ("with open('a', 'w') as a:\n    a.write('x')\nassert f('a') == 'x'",
         "with open('a', 'w') as a:\n    a.write('x')\n_observe_(f('a'))", 1),
        ("def check(c):\n    x = 1\n    assert c(x) == 2", "x = 1\n_observe_(f(x))", 1),
        ("item = {'a': 1}\nc = f()\nc.add(item)\nassert c.items == [item]",
         "item = {'a': 1}\nc = f()\nc.add(item)\n_observe_(c.items)", 1),
    ],
)  # fmt: skip
def test_a_test_with_set_up_is_taken_apart(source: str, written: str, n_claims: int) -> None:
    script = only(source)
    assert body(script) == written
    assert len(script.claims) == n_claims


@pytest.mark.parametrize(
    "source",
    [
        "for x in f(1): assert x == 1",
        "for x in (1, 2):\n    if f(x): break\n    assert f(x) == x",
        "ok = f(1) == 2\nassert ok",
        "assert [x for x in f(1) if x == 2]",
        "assert all(x == 2 for x in f(1))",
        "import operator\nok = operator.eq(f(1), 2)\nassert ok",
        "def close(a, b): return abs(a - b) < 1\nassert close(f(1), 2)",
        "xs = [3, 1]\nassert f(1) == [x for x in xs]",
        "import datetime\nassert f(1) == datetime.date.today()",
        "import random\nxs = [random.random()]\nassert f(xs) == sorted(xs)",
        "try:\n    f(1)\n    assert False\nexcept ValueError: pass",
        "assert False",
        "x = 1\nassert x == 1",
        "x = f(1)",
        "from unittest.mock import patch\nwith patch('f'): assert f(1) == 1",
        "import numpy\nassert f(numpy.pi) == 3",
        "raise AssertionError(f(1))",
        UNITTEST.replace("def test_them(self)", "def test_them(self, x)"),
        UNITTEST.replace("def tearDown", "@staticmethod\n    def tearDown"),
        UNITTEST.replace("self.account.close()", "self.helper()"),
        UNITTEST.replace("SecondTest(unittest.TestCase)", "SecondTest(Base)"),
        UNITTEST.replace("self.account.close()", "self.account.mock.assert_called_with(1)"),
    ],
)
def test_a_test_that_would_judge_inside_the_box_stays_whole(source: str) -> None:
    assert split_source(source, "f") is None


def test_each_test_method_is_one_script_with_its_fixtures() -> None:
    scripts = split_source(UNITTEST, "f")
    assert scripts is not None
    first, second, third = map(body, scripts)
    assert first == (
        "self.account = f('me')\n"
        "with _observe_raised_() as caught:\n    self.account.add(-1)\n"
        "_observe_(str(caught.exception))\n"
        "with _observe_raised_():\n    self.account.add(-2)\n"
        "self.account.close()"
    )
    assert second == (
        "self.account = f('me')\nself.account.add(4)\n"
        "_observe_(self.account.total)\n_observe_(self.account.total)\nself.account.close()"
    )
    assert third == (
        "amount = 1\n_observe_(f('me').name(amount))\namount = 2\n_observe_(f('me').name(amount))"
    )
    raised = ["ValueError", "Exception", "BaseException", "object"]
    assert all(holds(claim, [raised, "negative", raised]) for claim in scripts[0].claims)
    assert not any(holds(claim, [None, None, None]) for claim in scripts[0].claims)


@pytest.mark.parametrize(
    ("assertion", "right", "wrong"),
    [
        ("Equal(f(), 3)", 3, 4),
        ("NotEqual(f(), 3)", 4, 3),
        ("True(f())", [0], []),
        ("False(f())", 0, 1),
        ("Is(f(), True)", True, 1),
        ("IsNone(f())", None, True),
        ("IsNotNone(f())", True, None),
        ("In(f(), (1, 2))", 2, 3),
        ("NotIn(3, f())", [1], [3]),
        ("Greater(f(), 1)", 2, 1),
        ("LessEqual(f(), 1)", 1, 2),
        ("AlmostEqual(f(), 0.1)", 0.1 + 1e-9, 0.1 + 1e-3),
        ("AlmostEqual(f(), 0.1, 2)", 0.101, 0.2),
        ("AlmostEqual(f(), 5, delta=1)", 6, 7),
        ("AlmostEqual(f(), 1)", 1, float("nan")),
        ("NotAlmostEqual(f(), 1)", 2, 1),
        ("CountEqual(f(), [1, 2, 2])", [2, 1, 2], [1, 1, 2]),
        ("ListEqual(f(), [1])", [1], (1,)),
        ("IsInstance(f(), str)", "a", 1),
    ],
)
def test_an_assertion_of_unittest_claims_what_it_says(assertion, right, wrong) -> None:
    script = only(
        f"import unittest\nclass A(unittest.TestCase):\n    def test(self): self.assert{assertion}"
    )
    (claim,) = script.claims
    assert holds(claim, [right])
    assert not holds(claim, [wrong])


data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(data, data)
def test_what_is_expected_never_enters_the_box(given_value: Any, expected: Any) -> None:
    source = (
        f"x = {given_value!r}\ny = {expected!r}\nz = [y]\nc = f(x)\n"
        f"assert c.g() == y\nassert [c.h()] == z\nassert c.k(1) != {expected!r}"
    )
    script = only(source)
    inputs = ast.parse(f"x = {given_value!r}\nc = f(x)\n_o(c.g())\n_o(c.h())\n_o(c.k(1))")
    assert body(script) == ast.unparse(inputs).replace("_o(", "_observe_(")
    assert all(holds(claim, [expected, expected, object()]) for claim in script.claims)


PROGRAMS = {
    "right": ACCOUNT,
    "wrong": ACCOUNT.replace("+=", "-="),
    "silent": ACCOUNT.replace('raise ValueError("negative")', "return"),
    "of another kind": ACCOUNT.replace("ValueError", "IndexError"),
    "broken": ACCOUNT + "1 / 0",
    "an equal object": ACCOUNT.replace("self.total = 0", "self.total = Yes()")
    + "\nclass Yes:\n    def __eq__(self, other): return True\n"
    "    def __lt__(self, n): return True\n    def __iadd__(self, n): return self",
}
SOURCES = (
    # An exception's own words do not reach another box.
    UNITTEST.replace('self.assertEqual(str(caught.exception), "negative")', "pass"),
    "c = f('me')\nc.add(3)\nassert c.total == 3\nassert not c.total < 3",
    "xs = [1, 2]\nc = f(xs)\nfor x in xs: c.add(x)\nassert c.total == sum(xs)",
)


def test_scripts_and_whole_sources_agree(boxed: Sandbox) -> None:
    for source in SOURCES:
        scripts = split_source(source, "f")
        assert scripts is not None
        texts = tuple(script.source for script in scripts)
        runs = boxed.run_programs([ProgramJob(text, (), texts) for text in PROGRAMS.values()])
        by_scripts = [
            len(run.scripts) == len(scripts)
            and all(
                result.status is CallStatus.VALUE
                and all(holds(claim, result.value) for claim in script.claims)
                for script, result in zip(scripts, run.scripts, strict=True)
            )
            for run in runs
        ]
        checks = boxed.run_checks([CheckJob(text, source, "f") for text in PROGRAMS.values()])
        assert by_scripts == [check.status is CheckStatus.PASSED for check in checks]
        assert by_scripts[0]
        assert not by_scripts[-1]


def test_a_script_that_swallows_everything_swallows_no_lie(boxed: Sandbox) -> None:
    source = "import contextlib\nc = f('me')\nwith contextlib.suppress(BaseException):\n"
    script = only(f"{source}    c.add(1)\n    assert c.total == 1")
    (run,) = boxed.run_programs([ProgramJob(PROGRAMS["an equal object"], (), (script.source,))])
    assert run.scripts[0].status is CallStatus.NOT_DATA
    assert run.tampered


def test_most_tests_of_real_classes_are_taken_apart(data_packs: Path) -> None:
    with tarfile.open(data_packs / "classeval" / "classeval.tar.xz") as archive:
        member = archive.extractfile("data/ClassEval_data.json")
        assert member is not None
        tasks = json.load(member)
    split = [split_source(task["test"], task["class_name"]) for task in tasks]
    assert len(split) == 74
    assert sum(scripts is not None for scripts in split) >= 64
