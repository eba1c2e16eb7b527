"""Inputs for programs that nobody wrote down: made from what the task and its checks show.

Candidates are told apart by what they return, and a task often shows too few inputs for that. More
are made by crossing arguments of the calls at hand and changing them within their type; where a
task shows none, by the annotations of its entry point, else from values of every simple type. Some
lie outside the contract of the task; programs fail there in their own ways, so a decision group
looks only at inputs that most of its programs answer (`features.set_relative`).

No expected value is made: only what candidates return is compared. The same task always gets the
same inputs.
"""

import ast
import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from harness_core.sandbox.folding import parse

_MAX_CHARS: Final = 400
"""Longest call; a longer one costs more than it tells."""
_MAX_ITEMS: Final = 30
_MAX_WHOLE: Final = 10**9
"""Larger numbers are left as they are: doubling them only makes programs slow."""
_TRIES_PER_CALL: Final = 12
_ENOUGH_SEEN: Final = 4
"""With fewer values of an argument at hand, values of its type are added."""
_FROM_ONE_CALL: Final = 0.6
_KEPT: Final = 0.5
_CHANGED: Final = 0.5

_INTEGERS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 15, 20, 25, 100, 101, -1, -3)
_TEXTS: Final = (
    *("", "a", "abc", "aba", "Hello World", "aA", "12", "abc abc", "level", "AEIOU", "1 2 3"),
    *("The quick brown fox", "()", "(())", "a,b c", "xyzzy"),
)
_WHOLES: Final[tuple[list[int], ...]] = (
    *([], [1], [1, 2, 3], [3, 1, 2], [5, 5, 5], [1, 2, 2, 1], [-1, 0, 1], [10, -3, 7, 4, 4]),
    *([2, 4, 6, 8], [9, 8, 7, 6, 5, 4], [1, 3, 5, 7, 2], [100, 1, 50, -20, 3, 8, 8, 0]),
)
_WORDS: Final[tuple[list[str], ...]] = (
    *([], ["a"], ["abc", "b"], ["apple", "banana", "kiwi"], ["a", "a", "b"]),
    *(["Hello", "world", "x", ""], ["bb", "aaa", "c", "dddd"]),
)
_PALETTE: Final[Mapping[str, tuple[Any, ...]]] = MappingProxyType(
    {
        "bool": (True, False),
        "dict": ({}, {"a": "b"}, {"a": 1, "b": 2}, {"A": "x", "b": "y"}),
        "float": (0.0, 0.5, 1.0, 2.5, 3.14, 10.0, -1.5),
        "int": _INTEGERS,
        "list[float]": ([1.0, 2.0, 3.0], [0.5, -0.5], [1.1, 2.2, 5.0, 2.0], [3.0]),
        "list[int]": _WHOLES,
        "list[str]": _WORDS,
        "str": _TEXTS,
    }
)
_ANY: Final = (*_INTEGERS[:6], *_WHOLES[:7], *_TEXTS[:7], *_WORDS[:3])


def made_calls(source: str, entry_point: str, calls: Sequence[str], *, limit: int) -> list[str]:
    """Up to `limit` further call expressions of `entry_point`.

    Args:
        source: what the task shows of the program: a signature, or the whole statement.
        entry_point: the function that is called.
        calls: call expressions of the visible and generated checks; only those whose arguments are
            literals are learnt from.
        limit: how many to make; fewer come back where few different ones can be made.
    """
    parameters = _parameters(source, entry_point)
    shown = [arguments for call in calls if (arguments := _arguments(call)) is not None]
    n = len(parameters) if parameters is not None else len(shown[0]) if shown else 0
    shown = [arguments for arguments in shown if len(arguments) == n]
    if not n or limit <= 0:
        return []
    kinds = parameters or [None] * n
    pools = [_pool([row[place] for row in shown], kinds[place]) for place in range(n)]
    seed = hashlib.sha256("\n".join([entry_point, source, *calls]).encode()).digest()
    rng = random.Random(seed)
    known, made = set(calls), []
    for _ in range(limit * _TRIES_PER_CALL):
        arguments = _draw(shown, pools, rng)
        call = f"{entry_point}({', '.join(map(repr, arguments))})"
        if len(call) <= _MAX_CHARS and call not in known:
            known.add(call)
            made.append(call)
            if len(made) == limit:
                break
    return made


def _draw(shown: Sequence[Sequence[Any]], pools: Sequence[list[Any]], rng: random.Random) -> Any:
    """One value an argument: from one call that was shown, from any of them, or changed."""
    base = rng.choice(shown) if shown and rng.random() < _FROM_ONE_CALL else None
    values = []
    for place, pool in enumerate(pools):
        keeps = base is not None and rng.random() < _KEPT
        value = base[place] if base is not None and keeps else rng.choice(pool)
        values.append(_changed(value, rng) if rng.random() < _CHANGED else value)
    return values


def _parameters(source: str, entry_point: str) -> list[str | None] | None:
    """Kind of each positional parameter of the entry point; None if the source does not show it."""
    # A statement may end within the function, before any body.
    tree = parse(source) or parse(f"{source}\n    pass\n")
    if tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == entry_point:
            return [_annotated(argument.annotation) for argument in node.args.args]
    return None


def _annotated(annotation: ast.expr | None) -> str | None:
    if annotation is None:
        return None
    text = ast.unparse(annotation).lower()
    item = next((name for name in ("str", "float") if name in text), "int")
    if "list" in text or "tuple" in text or "sequence" in text:
        return f"list[{item}]"
    return next((name for name in ("int", "float", "str", "bool", "dict") if name in text), None)


def _arguments(call: str) -> list[Any] | None:
    """The arguments of a call, if all are positional literals."""
    tree = parse(call)
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        return None
    node = tree.body[0].value
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    try:
        return [ast.literal_eval(argument) for argument in node.args]
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None


def _pool(seen: list[Any], kind: str | None) -> list[Any]:
    if len(seen) >= _ENOUGH_SEEN:
        return seen
    return [*seen, *(_ANY if kind is None else _PALETTE[kind])]


def _changed(value: Any, rng: random.Random) -> Any:
    """Another value of the same type; a type without a way to change it keeps its value."""
    for kind, change in _CHANGES.items():
        if type(value) is kind:
            return change(value, rng)
    return value


def _changed_whole(value: int, rng: random.Random) -> int:
    if abs(value) > _MAX_WHOLE:
        return value
    others = (value + 1, value - 1, value * 2, value // 2, value + rng.randint(2, 9), abs(value))
    return rng.choice([*others, rng.choice(_INTEGERS)])


def _changed_real(value: float, rng: random.Random) -> float:
    return rng.choice([value + 1, value / 2, float(f"{value:.0f}"), value * 1.5])


def _changed_text(value: str, rng: random.Random) -> str:
    if not value:
        return rng.choice(_TEXTS)
    start = rng.randrange(len(value))
    end = rng.randrange(start, len(value)) + 1
    part = value[start:end]
    shuffled = "".join(rng.sample(value, len(value)))
    others = (value[::-1], part, value[:start] + value[end:], value + part, value.swapcase())
    return rng.choice([*others, shuffled])


def _changed_list(value: list[Any], rng: random.Random) -> list[Any]:
    if not value:
        return list(rng.choice(_WHOLES))
    start = rng.randrange(len(value))
    end = rng.randrange(start, len(value)) + 1
    part = value[start:end]
    one_changed = [*value[:start], _changed(value[start], rng), *value[start + 1 :]]
    others = (
        *(value[::-1], part, [*value[:start], *value[end:]], [*value, *part]),
        *(rng.sample(value, len(value)), one_changed),
    )
    return rng.choice(others)[:_MAX_ITEMS]


def _changed_tuple(value: tuple[Any, ...], rng: random.Random) -> tuple[Any, ...]:
    return tuple(_changed_list(list(value), rng))


_CHANGES: Final[Mapping[type, Callable[[Any, random.Random], Any]]] = MappingProxyType(
    {
        bool: lambda value, _: not value,
        int: _changed_whole,
        float: _changed_real,
        str: _changed_text,
        list: _changed_list,
        tuple: _changed_tuple,
        dict: lambda value, rng: dict(list(value.items())[: rng.randint(0, len(value))]),
    }
)
