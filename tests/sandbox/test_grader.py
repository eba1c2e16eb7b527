import pytest

from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.result import CheckStatus, Evidence

PASSED, FAILED, UNUSABLE = CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.UNUSABLE


def statuses(grader: Grader, program: str, *checks: str, entry_point: str | None = "f"):
    (verdict,) = grader.grade([GradeJob(program, entry_point, checks)])
    return verdict.checks


def test_each_check_has_its_own_verdict(grader: Grader) -> None:
    checks = ("assert f(1) == 2", "assert f(1) == 3", "assert f(", "assert True", "assert f(2)")
    found = statuses(grader, "def f(x): return x + 1", *checks)
    assert found == (PASSED, FAILED, UNUSABLE, UNUSABLE, PASSED)


def test_a_program_that_does_not_load_fails_what_is_usable(grader: Grader) -> None:
    assert statuses(grader, "def f(", "assert f(1) == 2", "assert f(") == (FAILED, UNUSABLE)


def test_nothing_to_check_is_not_passed(grader: Grader) -> None:
    (verdict,) = grader.grade([GradeJob("def f(): return 1", "f", ())])
    assert not verdict.all_passed


def test_a_check_program_has_one_verdict(grader: Grader) -> None:
    check = "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(2) == 3\n"
    assert statuses(grader, "def f(x): return x + 1", check) == (PASSED,)
    assert statuses(grader, "def f(x): return 2", check) == (FAILED,)


RANDOM_LOOP = """
def check(candidate):
    import random
    for _ in range(20):
        items = [random.randint(0, 9) for _ in range(5)]
        assert candidate(list(items)) == sorted(items)
"""
HELPER = """
def close(a, b): return abs(a - b) < 1e-3
def check(candidate):
    for x in (1.0, 2.0): assert close(candidate(x), x ** 2)
"""
INVERSE = """
def check(candidate):
    for word in ("abc", "xyz"): assert candidate(encode(word)) == word
"""
IN_PLACE = "items = [3, 1]\nf(items)\nassert items == [1, 3]"
RAISES = """
try:
    f(-1)
except ValueError:
    pass
else:
    raise AssertionError
"""
UNITTEST = """
import unittest
class Cases(unittest.TestCase):
    def test_one(self): self.assertEqual(f(1), 2)
    def test_two(self): self.assertIn(f(2), [3, 4])
"""
CLASS = """
import unittest
class Cases(unittest.TestCase):
    def test(self):
        account = f("me", balance=1)
        account.add(4)
        account.owner = "you"
        self.assertEqual((account.balance, account.owner, account.history()), (5, "you", [4]))
"""
ACCOUNT = """
class f:
    def __init__(self, owner, balance):
        self.owner, self.balance, self.items = owner, balance, []
    def add(self, amount):
        self.balance += amount
        self.items.append(amount)
    def history(self): return self.items
"""


@pytest.mark.parametrize(
    ("program", "check", "expected"),
    [
        ("f = sorted", RANDOM_LOOP, PASSED),
        ("def f(x): return x", RANDOM_LOOP, FAILED),
        ("def f(x): return x * x + 1e-6", HELPER, PASSED),
        ("def f(x): return x", HELPER, FAILED),
        ("def encode(w): return w[::-1]\nf = encode", INVERSE, PASSED),
        ("def encode(w): return w[::-1]\ndef f(w): return w", INVERSE, FAILED),
        ("def f(w): return w", INVERSE, FAILED),
        ("def f(items): items.sort()", IN_PLACE, PASSED),
        ("def f(items): sorted(items)", IN_PLACE, FAILED),
        ("def f(x): raise ValueError", RAISES, PASSED),
        ("def f(x): raise KeyError", RAISES, FAILED),
        ("def f(x): return x", RAISES, FAILED),
        ("def f(x): return x + 1", UNITTEST, PASSED),
        ("def f(x): return 2", UNITTEST, FAILED),
        ("def f(x):\n import unittest\n raise unittest.SkipTest", UNITTEST, FAILED),
        (ACCOUNT, CLASS, PASSED),
        (ACCOUNT.replace("+=", "-="), CLASS, FAILED),
        ("def f(x): return 1", "import numpy\nassert f(1) == numpy.int64(1)", UNUSABLE),
        ("def f(x): raise ImportError", "x = 1\nassert f(x) == 1", FAILED),
        ("def f(x): return 1", "assert f(1) == 1 and f(2) == 1", PASSED),
        ("def f(x): return 1", "assert f(1) == f(2)", PASSED),
        ("def f(x): return 1", "if False: assert f(1) == 1", UNUSABLE),
        ("def f(x): return 1", "assert f(1)\nfor x in broken: assert f(x)", FAILED),
        ("def f(x): return 1", "for x in broken: assert f(x) == 1", UNUSABLE),
        ("def f(x): return 1", "assert f(lambda: 1) and f(1) == 1", PASSED),
        ("def f(x): return x", "for y in [f(1)]: assert f(lambda: y) and f(1) == 1", UNUSABLE),
        ("def f(x):\n while True: pass", "x = 1\nassert f(x) == 1", FAILED),
        ("import os\ndef f(x): os._exit(0)", "x = 1\nassert f(x) == 1", FAILED),
    ],
)
def test_a_check_of_any_form_has_a_verdict(grader, program, check, expected) -> None:
    assert statuses(grader, program, check) == (expected,)


WHOLE = "for x in [f(0)]: assert f(x) == 1"
FORMS = {
    "assert f(1) == 1": (Evidence.COMPARED, True),
    "assert f([]) == []": (Evidence.COMPARED, True),
    "assert f(1) == 2": (Evidence.COMPARED, False),
    "assert f(1) is None": (Evidence.COMPARED, True),
    "assert f(1) != 3": (Evidence.COMPARED, True),
    "assert len(f(1)) == 0": (Evidence.COMPARED, False),
    "def check(c):\n    assert c(1) is None\n    assert c(2) == 2": (Evidence.COMPARED, False),
    "x = 1\nassert f(x) == 1": (Evidence.COMPARED, False),
    "x = 1\nassert f(x) == f(x)": (Evidence.COMPARED, True),
    "xs = [1]\nf(xs)\nassert xs == [1]": (Evidence.COMPARED, True),
    "xs = [1]\nf(xs)\nassert xs == [2]": (Evidence.COMPARED, False),
    UNITTEST: (Evidence.COMPARED, False),
    UNITTEST.replace("assertIn", "assertNotIn")
    .replace("Equal(f(1)", "IsNone(f(1)")
    .replace(", 2)", ")"): (
        Evidence.COMPARED,
        True,
    ),
    WHOLE: (Evidence.IN_BOX, False),
    "assert f(": (Evidence.NONE, False),
    "assert True": (Evidence.NONE, False),
    "for x in broken: assert f(x) == 1": (Evidence.NONE, False),
}


def test_a_verdict_says_what_it_rests_on(grader: Grader) -> None:
    (verdict,) = grader.grade([GradeJob("def f(x): return 1", "f", tuple(FORMS))])
    assert list(zip(verdict.evidence, verdict.vacuous, strict=True)) == list(FORMS.values())


def test_a_program_that_does_nothing_passes_vacuous_checks_only(grader: Grader) -> None:
    (verdict,) = grader.grade([GradeJob("def f(x): pass", "f", tuple(FORMS))])
    assert verdict.n_passed > 0
    assert verdict.n_telling_passed == 0


def test_a_program_that_hands_its_input_back_passes_vacuous_checks_only(grader: Grader) -> None:
    checks = tuple(check for check, (kind, _) in FORMS.items() if kind is Evidence.COMPARED)
    calls = tuple(check for check in checks if check.startswith("assert f("))
    (verdict,) = grader.grade([GradeJob("def f(x): return x", "f", calls)])
    assert verdict.n_passed > 0
    assert verdict.n_telling_passed == 0


def test_what_another_box_said_can_be_left_out(grader: Grader) -> None:
    (verdict,) = grader.grade([GradeJob("def f(x): return 1", "f", ("assert f(1) == 1", WHOLE))])
    assert verdict.checks == (PASSED, PASSED)
    assert verdict.without_in_box().checks == (PASSED, UNUSABLE)


LIAR = """
class Yes:
    def __eq__(self, other): return True
    def __bool__(self): return True
    def __len__(self): return 1
    def __iter__(self): return iter([Yes()])
    def __getattr__(self, name): return Yes()
    def __call__(self, *a, **k): return Yes()
def f(x): return Yes()
"""


@pytest.mark.parametrize(
    "check",
    [
        "x = 1\nassert f(x)",
        "x = 1\nassert f(x) == 2",
        "x = 1\nassert not f(x) != 2",
        "x = 1\nassert f(x).g(3).h == 2",
        "x = 1\nassert 2 in f(x)",
        "x = 1\nassert 2 in list(f(x))",
        "x = 1\nassert len(f(x)) == 1",
        "x = 1\nassert all(item == 2 for item in f(x))",
        "x = 1\nassert sorted(f(x)) == [2]",
        "x = 1\nassert str(f(x)) == '2'",
        "x = 1\ntry:\n    assert f(x)\nexcept:\n    pass",
        "x = 1\nassert isinstance(f(x), int)",
        "x = 1\nassert hash(f(x)) == 2",
        "x = 1\nassert f(x) < 3",
        "x = 1\nassert f(x) + 1 == 2",
    ],
)
def test_an_object_proves_nothing_in_a_test(grader: Grader, check: str) -> None:
    assert statuses(grader, LIAR, check) == (FAILED,)


def test_a_program_cannot_speak_for_its_test(grader: Grader) -> None:
    program = """
import os, struct
def say(kind): os.write(4, struct.pack("!IBI", 0, ord(kind), 0))
def f(x):
    say("P")
    raise SystemExit
"""
    (verdict,) = grader.grade([GradeJob(program, "f", ("x = 1\nassert f(x) == 2",))])
    assert verdict.checks == (FAILED,)
    assert verdict.tampered


def test_contradicting_tests_are_never_passed(grader: Grader) -> None:
    for program in ("def f(x): return 1", "def f(x): return 2", "def f(x): return None"):
        assert PASSED not in {
            *statuses(grader, program, "def check(c):\n    assert c(1) == 1\n    assert c(1) == 2")
        }


def test_the_same_program_in_another_order_has_the_same_verdict(grader: Grader) -> None:
    programs = [f"def f(x): return x + {number % 3}" for number in range(12)]
    jobs = [GradeJob(program, "f", ("assert f(1) == 2", RANDOM_LOOP)) for program in programs]
    assert grader.grade(jobs) == grader.grade(jobs[::-1])[::-1]


def test_class_tasks_work_without_an_entry_point(grader: Grader) -> None:
    program = "class Adder:\n    def add(self, a, b): return a + b"
    found = statuses(grader, program, "assert Adder().add(1, 2) == 3", entry_point=None)
    assert found == (PASSED,)
