"""Programs that answer the same call in two ways, and honest ones that only look like it."""

import pytest

from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.protocol import ProgramJob, Sandbox
from harness_core.sandbox.result import CallStatus, CheckStatus

CHECKS = ("assert f(1) == 2", "assert f(2) == 3")
COUNTERS = {
    "it counts its calls": "n = 1\ndef f(x):\n    global n\n    n += 1\n    return n",
    "it counts in a default": "def f(x, seen=[]):\n    seen.append(x)\n    return 1 + len(seen)",
    "it counts in a class": "class f:\n    n = 1\n"
    "    def __new__(cls, x): cls.n += 1; return cls.n",
    "it fails when asked again": "asked = set()\ndef f(x):\n    assert x not in asked\n"
    "    asked.add(x)\n    return x + 1",
    "it gives an object when asked again": "asked = set()\ndef f(x):\n"
    "    if x in asked: return object()\n    asked.add(x)\n    return x + 1",
    "it answers at random when asked again": "import os\nasked = set()\ndef f(x):\n"
    "    if x in asked: return os.urandom(8)\n    asked.add(x)\n    return x + 1",
}
HONEST = {
    "it remembers": "import functools\n@functools.cache\ndef f(x): return x + 1",
    "random numbers": "import random\ndef f(x): return random.random()",
    "random numbers of its own": "import random\nrandom.seed(5)\ndef f(x): return random.random()",
    "a clock": "import time\ndef f(x): return time.perf_counter()",
    "bytes of the system": "import os\ndef f(x): return os.urandom(4)",
    "not a number": "def f(x): return [float('nan')]",
    "an object": "class C: pass\ndef f(x): return C()",
    "a generator": "def f(x): yield x",
    "a set": "def f(x): return {'a', 'b', 'c'} | {str(i) for i in range(40)}",
    "an error": "def f(x): raise ValueError",
    "two orders of one dictionary": "flip = []\ndef f(x):\n    flip.append(1)\n"
    "    pairs = [(1, 2), (3, 4)]\n    return dict(pairs[:: 1 - 2 * (len(flip) % 2)])",
    "no memory is left": "kept = []\ndef f(x):\n    kept.append(bytearray(200 << 20))\n"
    "    return x + 1",
}


@pytest.mark.parametrize("program", COUNTERS.values(), ids=list(COUNTERS))
def test_a_program_that_counts_its_calls_is_noticed(program: str, grader: Grader) -> None:
    (verdict,) = grader.grade([GradeJob(program, "f", CHECKS)])
    assert verdict.all_passed
    assert verdict.stateful
    assert not verdict.is_honest


@pytest.mark.parametrize("program", HONEST.values(), ids=list(HONEST))
def test_an_honest_program_is_not_taken_for_one_that_counts(program: str, boxed: Sandbox) -> None:
    (run,) = boxed.run_programs([ProgramJob(program, ("f(1)", "f(2)"))])
    assert not run.stateful


def test_contradicting_checks_are_passed_by_no_honest_program(grader: Grader) -> None:
    program = "answers = iter((1, 2, 3))\ndef f(x): return next(answers)"
    (verdict,) = grader.grade([GradeJob(program, "f", ("assert f(5) == 1", "assert f(5) == 2"))])
    assert verdict.all_passed
    assert verdict.stateful


def test_a_call_between_two_others_counts_too(grader: Grader) -> None:
    program = "last = 0\ndef f(x):\n    global last\n    last, now = x, last\n    return now"
    checks = ("assert f(0) == 0", "assert f(3) == 0", "assert f(4) == 3", "assert f(3) == 4")
    (verdict,) = grader.grade([GradeJob(program, "f", checks)])
    assert verdict.stateful


def test_being_asked_once_more_costs_a_slow_program_nothing(grader: Grader) -> None:
    # It fits into its second of CPU time once, but not twice.
    program = (
        "import time\ndef f(x):\n    end = time.process_time() + 0.6\n"
        "    while time.process_time() < end: pass\n    return x + 1"
    )
    (verdict,) = grader.grade([GradeJob(program, "f", CHECKS[:1])])
    assert verdict.checks == (CheckStatus.PASSED,)
    assert verdict.is_honest


def test_being_asked_once_more_costs_a_wordy_program_nothing(boxed: Sandbox) -> None:
    program = f"def f(x): return 'x' * {boxed.config.value_bytes - 10}"
    n_calls = boxed.config.output_bytes // boxed.config.value_bytes
    (run,) = boxed.run_programs([ProgramJob(program, tuple(f"f({i})" for i in range(n_calls)))])
    assert {call.status for call in run.calls} == {CallStatus.VALUE}
    assert not run.stateful
    assert not run.tampered
