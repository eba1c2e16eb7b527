"""Dangerous statements in SQL: those that drop, alter or change everything at once."""

import re
from collections.abc import Iterator
from typing import Final

# Literals and comments cannot act. A MySQL `/*! … */` is run, so its inside stays.
_QUIET: Final = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|--[^\n]*|\#[^\n]*|/\*(?!!).*?(?:\*/|$)""",
    re.DOTALL,
)
_RUN_COMMENT: Final = re.compile(r"/\*!\d*|\*/")
_CHANGE: Final = re.compile(r"\b(DELETE|UPDATE)\b(.*)", re.DOTALL)
_CONDITION: Final = re.compile(r"\bWHERE\b(.*)", re.DOTALL)
_ALWAYS_TRUE: Final = re.compile(r"^\s*\(*\s*(TRUE|NOT\s+FALSE|[1-9]\d*|(\w+)\s*=\s*\2)\s*\)*\s*$")
_FIRST_WORDS: Final = {"DROP": "sql-drop", "TRUNCATE": "sql-truncate", "ALTER": "sql-alter"}


def sql_rules(text: str) -> Iterator[str]:
    """Ids of the rules that any of the statements breaks, with repetitions."""
    code = _RUN_COMMENT.sub(" ", _QUIET.sub(_blank, text)).upper()
    for statement in code.split(";"):
        words = statement.replace("(", " ").split()
        if not words:
            continue
        if words[0] in _FIRST_WORDS:
            yield _FIRST_WORDS[words[0]]
        elif words[0] in {"DELETE", "UPDATE", "WITH"}:
            yield from _unlimited_change(statement)


def _blank(match: re.Match[str]) -> str:
    # A quoted piece still stands for one word: `UPDATE "t" SET` must stay three words.
    return " Q " if match[0][0] in "'\"`" else " "


def _unlimited_change(statement: str) -> Iterator[str]:
    change = _CHANGE.search(statement)
    if change is None:
        return
    condition = _CONDITION.search(change[2])
    if condition is None or _ALWAYS_TRUE.match(condition[1]):
        yield "sql-delete-all" if change[1] == "DELETE" else "sql-update-all"
