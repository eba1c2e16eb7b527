"""Patterns of a tool policy: what an argument of a call must look like for a rule to match.

A pattern is a *glob* (`*` any text, `?` one character, `[abc]` and `[!abc]` one of some), a
*regular expression* behind `regex:` (found anywhere in the text) or a *comparison* with a number
(`>1000`, `>=`, `<`, `<=`). Globs and expressions run on Rust's engine, whose time grows linearly
with the text, whatever pattern and text are; it knows neither look-around nor backreferences.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson
from pydantic_core import SchemaError, SchemaValidator, core_schema

REGEX: Final = "regex:"
_COMPARISON: Final = re.compile(r"^\s*(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)\s*$")
_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_SET: Final = re.compile(r"\[([!^]?)(\]?[^\]]*)\]")


class PatternError(ValueError):
    """A pattern that cannot be used; the message says why."""


def check_pattern(pattern: str) -> str:
    """The pattern itself, if it can be used.

    Raises:
        PatternError: a regular expression that the engine does not take.
    """
    if not _COMPARISON.match(pattern):
        _matcher(pattern)
    return pattern


def text_matches(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    """Whether a glob fits the whole text, or a regular expression any part of it."""
    # The engine takes no half of a surrogate pair, which JSON may hold.
    readable = text.encode("utf-8", "replace").decode()
    return _matcher(pattern, ignore_case=ignore_case).isinstance_python(readable)


def value_matches(pattern: str, value: Any, *, when_unsure: bool) -> bool:
    """Whether a value of an argument fits.

    Args:
        pattern: glob, regular expression or comparison.
        value: whatever JSON holds; objects and lists are compared by their JSON text.
        when_unsure: the answer of a comparison with something that is no finite number.
    """
    comparison = _COMPARISON.match(pattern)
    if comparison is None:
        return text_matches(pattern, text_of(value))
    number = _number(value)
    if number is None:
        return when_unsure
    return _COMPARE[comparison[1]](number, float(comparison[2]))


def text_of(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    # Integers of any size, which orjson refuses, may come from Python callers.
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        return str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@lru_cache(maxsize=1024)
def _matcher(pattern: str, *, ignore_case: bool = False) -> SchemaValidator:
    expression = pattern.removeprefix(REGEX) if pattern.startswith(REGEX) else _of_glob(pattern)
    expression = f"(?i){expression}" if ignore_case else expression
    schema = core_schema.str_schema(pattern=expression, regex_engine="rust-regex", strict=True)
    try:
        return SchemaValidator(schema)
    except SchemaError as error:
        reason = str(error).rpartition("error: ")[2].strip() or str(error)
        raise PatternError(f"{pattern!r} is no usable expression: {reason}") from error


def _of_glob(glob: str) -> str:
    parts = []
    place = 0
    while place < len(glob):
        chosen = _SET.match(glob, place)
        if chosen is not None:
            negation = "^" if chosen[1] else ""
            inside = re.sub(r"([\\\[\]&~^])", r"\\\1", chosen[2])
            parts.append(f"[{negation}{inside}]")
            place = chosen.end()
            continue
        parts.append({"*": ".*", "?": "."}.get(glob[place]) or re.escape(glob[place]))
        place += 1
    return f"(?s)^{''.join(parts)}$"
