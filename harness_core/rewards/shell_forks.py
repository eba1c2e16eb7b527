"""Shell texts that start processes without end, or far too many of them."""

import re
from collections.abc import Iterator
from typing import Final

MANY: Final = 256
"""A loop that leaves more processes behind than this is no honest one."""
_QUOTED: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#[^\n]*")
_FUNCTION: Final = re.compile(
    r"(?:\bfunction[ \t]+([\w:.]{1,80})[ \t]*(?:\(\))?"
    r"|(?<![\w:.])([\w:.]{1,80})[ \t]*\([ \t]*\))\s*\{([^{}]*)\}"
)
_BACKGROUND: Final = re.compile(r"(?<![&>|\\])&(?![&>\d])")
_WAITS: Final = re.compile(r"\bwait\b")
_ENDLESS: Final = re.compile(
    r"\b(?:while[ \t]+(?:true|:|1|\[[ \t]+1[ \t]+\]|\(\([ \t]*1[ \t]*\)\))|until[ \t]+false"
    r"|for[ \t]*\(\([ \t]*;[ \t]*;[ \t]*\)\))\s*;?\s*do\b"
)
_COUNTED: Final = re.compile(
    r"\bfor[ \t]+\w+[ \t]+in[ \t]+"
    r"(?:[`$(]+[ \t]*seq[ \t]+(?:-?\d+[ \t]+){0,2}(\d+)|\{-?\d+\.\.(\d+)[.\d]*\})"
    r"[^\n;]*[;\n]\s*do\b"
    r"|\bfor[ \t]*\(\([^;]{0,80};[^;]{0,80}?<=?[ \t]*(\d+)[^;]{0,80};[^)]{0,80}\)\)\s*;?\s*do\b"
)
_MAX_BODY: Final = 5_000
_DONE: Final = re.compile(r"\bdone\b")
_ITSELF: Final = re.compile(r"\$\{?0\}?[ \t]*[|&][ \t]*\$\{?0\}?[ \t]*&")


def fork_rules(text: str) -> Iterator[str]:
    """`shell-fork-bomb` without a bound, `shell-many-forks` with one that is too large."""
    if "&" not in text:
        return
    text = _COMMENT.sub(" ", _QUOTED.sub(" ", text))
    if _ITSELF.search(text) or any(map(_starts_itself, _FUNCTION.finditer(text))):
        yield "shell-fork-bomb"
    if any(_leaves_processes(text, loop.end()) for loop in _ENDLESS.finditer(text)):
        yield "shell-fork-bomb"
    for loop in _COUNTED.finditer(text):
        number = loop[1] or loop[2] or loop[3]
        if int(number[:9]) > MANY and _leaves_processes(text, loop.end()):
            yield "shell-many-forks"


def _starts_itself(function: re.Match[str]) -> bool:
    name, body = function[1] or function[2], function[3]
    again = re.search(rf"(?<![\w:.]){re.escape(name)}(?![\w:.])", body)
    return again is not None and _BACKGROUND.search(body, again.end()) is not None


def _leaves_processes(text: str, start: int) -> bool:
    """Whether the body of a loop starts something and does not wait for it."""
    end = _DONE.search(text, start, start + _MAX_BODY)
    body = text[start : end.start() if end else start + _MAX_BODY]
    return _BACKGROUND.search(body) is not None and _WAITS.search(body) is None
