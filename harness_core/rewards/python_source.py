"""The syntax tree of a candidate's program, whatever the candidate wrote."""

import ast
import warnings
from typing import Final

from harness_core.rewards.text_cache import TextCache

MAX_PROGRAM_CHARS: Final = 200_000
"""A longer program is not read: it counts as one that does not parse."""


def parse_program(program: str) -> ast.Module | None:
    """The syntax tree of a program, None when it is not Python or too large or deep to be read."""
    return _PARSED(program) if len(program) <= MAX_PROGRAM_CHARS else None


def _parse(program: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            # Candidates warn about their own escapes; that is no error of theirs or ours.
            warnings.simplefilter("ignore")
            return ast.parse(program)
    # ValueError: NUL or a lone surrogate; MemoryError and RecursionError: nested too deeply.
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


# A tree takes a hundred times the room of its text.
_PARSED: Final = TextCache(_parse, max_texts=64, max_characters=MAX_PROGRAM_CHARS)
