"""Programs that surely do not parse: they get their result without a box.

Only the parser of this interpreter is asked. It runs nothing of the program, and texts that are
long or nest deeply, which could exhaust it, are left to the box. So are programs with a mistake
that only the compiler finds. What is found here is what a box of the same Python would find.
"""

import ast
import threading
import warnings
from typing import Final

from harness_core.sandbox.folding import is_deep
from harness_core.sandbox.protocol import ProgramJob
from harness_core.sandbox.result import CallResult, CallStatus, ProgramRun

_MAX_CHARS: Final = 1 << 16
_filters: Final = threading.Lock()
"""Warning filters belong to the whole process."""


def unloadable(job: ProgramJob, layers: tuple[str, ...]) -> ProgramRun | None:
    """The run of a program that does not parse, or None if that is for a box to say."""
    error = _syntax_error(job.program)
    if error is None:
        return None
    result = CallResult(status=CallStatus.NOT_LOADED, detail=error)
    return ProgramRun(
        calls=(result,) * len(job.calls),
        scripts=(result,) if job.scripts else (),  # none is run after one that gave no values
        layers=layers,
    )


def _syntax_error(program: str) -> str | None:
    """The name of the exception."""
    if len(program) > _MAX_CHARS or is_deep(program):
        return None
    # As bytes, like in the box: a coding line counts only there.
    source = program.encode("utf-8", "replace")
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning that is an error would be a SyntaxError
        try:
            compile(source, "<candidate>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        except SyntaxError as error:
            return type(error).__name__
        except (ValueError, MemoryError, RecursionError):
            return None
    return None
