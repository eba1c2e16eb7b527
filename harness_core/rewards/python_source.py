"""The syntax tree of a candidate's program, whatever the candidate wrote."""

import ast
import warnings
from functools import lru_cache
from typing import Final

MAX_PROGRAM_CHARS: Final = 200_000
"""A longer program is not read: it counts as one that does not parse."""


@lru_cache(maxsize=64)
def parse_program(program: str) -> ast.Module | None:
    """The syntax tree of a program, None when it is not Python or too large or deep to be read."""
    if len(program) > MAX_PROGRAM_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            # Candidates warn about their own escapes; that is no error of theirs or ours.
            warnings.simplefilter("ignore")
            return ast.parse(program)
    # ValueError: NUL or a lone surrogate; MemoryError and RecursionError: nested too deeply.
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
