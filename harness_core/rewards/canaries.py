"""Tasks that nobody can solve, mixed into every batch: whoever passes one has fooled the grader.

A canary asks for a value and for its contrary (`assert f(1) == 2` and `assert f(1) != 2`), of
programs of the log itself and of known cheats. One that passes means that verdicts of this batch
are worth nothing, so that none is used. A control, an honest program with true checks, must pass:
a grader that fails everything is broken too.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from harness_core.errors import CanaryPassed, SandboxError
from harness_core.rewards.grading import GradeRequest, Judge
from harness_core.sandbox.result import Verdict
from harness_core.sandbox.splitting import split_calls

CONTROL: Final = GradeRequest(
    "def successor(x):\n    return x + 1\n",
    "successor",
    ("assert successor(1) == 2", "assert successor(-1) == 0"),
)

_ALWAYS_EQUAL: Final = """
class Anything:
    def __eq__(self, other): return True
    def __ne__(self, other): return True
    def __bool__(self): return True
def {name}(*arguments, **keywords): return Anything()
"""
_LEAVES: Final = "import os\ndef {name}(*arguments, **keywords): os._exit(0)\n"
_CHANGES_ITS_MIND: Final = """
answers = iter([{expected}])
def {name}(*arguments, **keywords): return next(answers, None)
"""
_CHEATS: Final = (_ALWAYS_EQUAL, _LEAVES, _CHANGES_ITS_MIND)


class _Assertion(NamedTuple):
    """An assertion that the grader compares itself, as source."""

    call: str
    expected: str

    def contradiction(self) -> tuple[str, str]:
        return (f"assert {self.call} == {self.expected}", f"assert {self.call} != {self.expected}")


def canaries(requests: Sequence[GradeRequest], *, n_canaries: int) -> list[GradeRequest]:
    """At most `n_canaries` impossible requests: programs of the batch and cheats, in turns."""
    made: list[GradeRequest] = []
    for request in sorted(requests, key=lambda request: request.draw("canary")):
        if len(made) >= n_canaries:
            break
        asked = next(_assertions(request), None)
        if asked is None:
            continue
        program = request.program
        if len(made) % 2 and request.entry_point:
            cheat = _CHEATS[len(made) // 2 % len(_CHEATS)]
            program = cheat.format(name=request.entry_point, expected=asked.expected)
        made.append(GradeRequest(program, request.entry_point, asked.contradiction()))
    return made


def refuse_if_fooled(wanted: Sequence[GradeRequest], judge: Judge) -> None:
    """Judge canaries, and the control with them.

    Raises:
        CanaryPassed: one of them was said to pass.
        SandboxError: an honest program was said to fail.
    """
    if not wanted:
        return
    control, *verdicts = judge.judge_anew([CONTROL, *wanted])
    if not _is_solved(control):
        raise SandboxError(
            "the grader fails a program that is right, so its verdicts are not used; "
            "`harness doctor` shows what of the sandbox does not work"
        )
    for request, verdict in zip(wanted, verdicts, strict=True):
        if _is_solved(verdict):
            raise CanaryPassed(
                f"a program passed `{request.checks[0]}` and its contrary, so that no verdict of "
                f"this batch is used. It begins: {request.program[:200]!r}. Look at it, and at "
                "the sandbox that graded it, before the stage `rewards` is run again"
            )


def _is_solved(verdict: Verdict) -> bool:
    return verdict.all_passed and verdict.is_honest


def _assertions(request: GradeRequest) -> Iterator[_Assertion]:
    for check in request.checks:
        for part in split_calls(check, request.entry_point):
            yield _Assertion(part.call, _literal(part.expected))


def _literal(value: object) -> str:
    """The expected value as source; any other value contradicts itself just as well."""
    text = repr(value)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return "0"
    return text
