"""What every backend of the sandbox promises."""

import pytest

from harness_core.errors import SandboxError
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.protocol import CheckJob, ProgramJob, Sandbox
from harness_core.sandbox.result import CallResult, CallStatus, CheckStatus

both = pytest.mark.usefixtures("sandbox")  # each backend of conftest


def run(sandbox: Sandbox, program: str, *calls: str) -> tuple[CallResult, ...]:
    (result,) = sandbox.run_programs([ProgramJob(program, calls)])
    return result.calls


@both
def test_calls_are_answered_in_order(sandbox: Sandbox) -> None:
    results = run(sandbox, "def f(x): return x * 2", "f(1)", "f('a')", "f([1])")
    assert [result.value for result in results] == [2, "aa", [1, 1]]


@both
def test_programs_are_answered_in_order(sandbox: Sandbox) -> None:
    jobs = [ProgramJob(f"def f(): return {number}", ("f()",)) for number in range(30)]
    runs = sandbox.run_programs(jobs)
    assert [item.calls[0].value for item in runs] == list(range(30))


@both
def test_no_jobs_give_no_results(sandbox: Sandbox) -> None:
    assert sandbox.run_programs([]) == []
    assert sandbox.run_checks([]) == []


@both
def test_a_program_without_calls_gives_no_call_results(sandbox: Sandbox) -> None:
    assert run(sandbox, "x = 1") == ()


@both
@pytest.mark.parametrize(
    ("program", "call", "status", "detail"),
    [
        ("def f(): return 1 / 0", "f()", CallStatus.RAISED, "ZeroDivisionError"),
        ("def f(): return f()", "f()", CallStatus.RAISED, "RecursionError"),
        ("def f(): return 1", "g()", CallStatus.RAISED, "NameError"),
        ("def f(): return 1", "f(", CallStatus.RAISED, "SyntaxError"),
        ("def f(): return input()", "f()", CallStatus.RAISED, "EOFError"),
        ("def f(: pass", "f()", CallStatus.NOT_LOADED, "SyntaxError"),
        ("x = 1\0", "x", CallStatus.NOT_LOADED, "SyntaxError"),
        ("import numpy", "1", CallStatus.NOT_LOADED, "ModuleNotFoundError"),
        ("raise ValueError", "1", CallStatus.NOT_LOADED, "ValueError"),
        ("def f(): yield 1", "f()", CallStatus.NOT_DATA, "type generator"),
        ("def f(): return f", "f()", CallStatus.NOT_DATA, "type function"),
        ("import os\nos._exit(3)", "1", CallStatus.DIED, ""),
        ("import os\ndef f(): os._exit(0)", "f()", CallStatus.DIED, ""),
    ],
)
def test_a_failing_candidate_is_data(sandbox, program, call, status, detail) -> None:
    (result,) = run(sandbox, program, call)
    assert (result.status, result.detail) == (status, detail)


@both
def test_a_call_that_hangs_ends_the_program(sandbox: Sandbox) -> None:
    program = "def f(x):\n    while x: pass\n    return x"
    statuses = [result.status for result in run(sandbox, program, "f(0)", "f(1)", "f(0)")]
    assert statuses == [CallStatus.VALUE, CallStatus.TIMEOUT, CallStatus.TIMEOUT]


def test_a_program_that_sleeps_is_ended_by_the_wall_limit(boxed: Sandbox) -> None:
    (result,) = run(boxed, "import time\ntime.sleep(60)", "1")
    assert (result.status, result.detail) == (CallStatus.TIMEOUT, "wall")


@both
def test_arguments_are_made_afresh_for_each_call(sandbox: Sandbox) -> None:
    program = "def f(items=[]):\n    items.append(1)\n    return len(items)"
    assert [result.value for result in run(sandbox, program, "f([])", "f([])")] == [1, 1]


@both
def test_programs_share_nothing(sandbox: Sandbox) -> None:
    leave = "import builtins, math, random\nbuiltins.left = math.left = 1\nopen('left', 'w')"
    look = "import builtins, math, os\nfound = [hasattr(builtins, 'left'), hasattr(math, 'left')]"
    runs = sandbox.run_programs(
        [ProgramJob(leave, ("1",)), ProgramJob(look, ("found", "os.listdir()"))] * 4
    )
    for item in runs[1::2]:
        assert [result.value for result in item.calls] == [[False, False], []]


@both
def test_the_same_program_answers_the_same(sandbox: Sandbox) -> None:
    program = "import random\ndef f(): return [random.random(), hash('a'), list({'a', 'b', 'c'})]"
    runs = sandbox.run_programs([ProgramJob(program, ("f()",))] * 6)
    assert len({repr(item.calls[0].value) for item in runs}) == 1


@both
def test_classes_and_annotations_find_their_module(sandbox: Sandbox) -> None:
    program = """
from __future__ import annotations
import dataclasses, typing
@dataclasses.dataclass
class Point:
    x: int
    y: int = 2
    def total(self) -> int: return self.x + self.y
def f(): return [Point(1).total(), str(typing.get_type_hints(Point)["x"])]
"""
    assert run(sandbox, program, "f()")[0].value == [3, "<class 'int'>"]


@both
def test_a_script_part_is_not_run(sandbox: Sandbox) -> None:
    program = "def f(): return 1\nif __name__ == '__main__':\n    raise SystemExit"
    assert run(sandbox, program, "f()")[0].value == 1


@both
def test_an_odd_text_is_no_program(sandbox: Sandbox) -> None:
    assert run(sandbox, "x = '\ud800'", "1")[0].status in {CallStatus.VALUE, CallStatus.NOT_LOADED}


@both
def test_scripts_observe_values_as_they_are_at_that_moment(sandbox: Sandbox) -> None:
    script = """def script(self, see, _, __, raised):
    items = f(1)
    see(items)
    items.append(2)
    see(items)
    with raised():
        f(0)
    with raised():
        f(1)
"""
    program = "def f(x):\n    if not x: raise KeyError(x)\n    return [x]"
    (run,) = sandbox.run_programs([ProgramJob(program, (), (script,))])
    names = ["KeyError", "LookupError", "Exception", "BaseException", "object"]
    assert run.scripts[0].value == [[1], [1, 2], names, None]


@both
def test_each_script_has_a_process_of_its_own(sandbox: Sandbox) -> None:
    program = "n = 0\ndef f():\n    global n\n    n += 1\n    return n"
    script = "def script(self, see, *_):\n    n = 7\n    see(f())\n    see([n for _ in range(2)])"
    (run,) = sandbox.run_programs([ProgramJob(program, ("f()", "f()"), (script, script))])
    assert [call.value for call in run.calls] == [1, 2]
    assert [result.value for result in run.scripts] == [[1, [7, 7]]] * 2


@both
@pytest.mark.parametrize(
    ("program", "status", "detail"),
    [
        ("def f(): return 1 / 0", CallStatus.RAISED, "ZeroDivisionError"),
        ("def f(): return object()", CallStatus.NOT_DATA, "type object"),
        ("def f(): return 'x' * (1 << 20)", CallStatus.NOT_DATA, "too large"),
        ("import os\ndef f(): os._exit(0)", CallStatus.DIED, ""),
        ("def f(", CallStatus.NOT_LOADED, "SyntaxError"),
    ],
)
def test_scripts_end_with_one_that_gives_no_values(sandbox, program, status, detail) -> None:
    scripts = ("def script(self, see, *_):\n    try: see(f())\n    except ValueError: pass",) * 3
    (run,) = sandbox.run_programs([ProgramJob(program, (), scripts)])
    assert [(result.status, result.detail) for result in run.scripts] == [(status, detail)]
    assert not run.tampered


@both
def test_a_test_and_its_program_meet_only_through_data(sandbox: Sandbox) -> None:
    test = "def check(candidate):\n    for i in range(9):\n        assert candidate(i) == i + 1"
    jobs = [
        CheckJob("def f(x): return x + 1", test, "f"),
        CheckJob("def f(x): return x", test, "f"),
        CheckJob("def f(x): return 1 1", test, "f"),
    ]
    statuses = [item.status for item in sandbox.run_checks(jobs)]
    assert statuses == [CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.FAILED]


def test_layers_and_trust_tell_the_backends_apart(boxed: Sandbox, unboxed: Sandbox) -> None:
    assert boxed.trusted
    assert boxed.layers == ("bubblewrap", "capabilities", "landlock", "rlimits", "seccomp")
    assert not unboxed.trusted
    assert unboxed.layers == ()


def test_a_closed_sandbox_refuses(config) -> None:
    sandbox = open_sandbox(config.model_copy(update={"backend": "unsafe_local", "n_workers": 1}))
    sandbox.close()
    sandbox.close()
    with pytest.raises(SandboxError, match="closed"):
        sandbox.run_programs([ProgramJob("", ("1",))])
