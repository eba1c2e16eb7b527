"""Pure data as tagged JSON: which Python values may leave a box, and how they are written.

Exact builtin types and those of `datetime` only. JSON's own words stand for None, bool, str, list,
small integers and finite floats; everything else is an object with one key, its tag:

    {"t": [...]} tuple        {"s": [...]} set         {"z": [...]} frozenset
    {"d": [[k, v], ...]} dict {"i": "-ff"} large int   {"f": "nan"} not finite
    {"b": "00ff"} bytes       {"c": [re, im]} complex  {"h": 3} handle of a remote object
    {"D": "..."} datetime     {"y": "..."} date        {"T": "..."} time, all as ISO writes them
    {"x": [days, seconds, microseconds]} timedelta

Free of dependencies: encoding runs inside the box, decoding outside (or in the box of a test).
A subclass of a builtin type may lie about equality, so it is not data; the three dictionaries of
`collections` compare like the dict they hold and are written as one.
"""

import collections
import datetime as dt
import json
import math
from collections.abc import Callable
from typing import Any, Final

_PLAIN_INTEGERS: Final = range(-(2**53), 2**53 + 1)
_DICTIONARIES: Final = frozenset(
    {dict, collections.OrderedDict, collections.defaultdict, collections.Counter}
)
_SEQUENCE_TAGS: Final[dict[type, str]] = {tuple: "t", set: "s", frozenset: "z"}
_BINARY_TAGS: Final[dict[type, str]] = {bytes: "b", bytearray: "B"}
_TIME_TAGS: Final[dict[type, str]] = {dt.datetime: "D", dt.date: "y", dt.time: "T"}
_TIME_ZONES: Final = frozenset({type(None), dt.timezone})
"""Another time zone is an object of its own, that may answer anything."""
_TIMES: Final[dict[str, Callable[[str], Any]]] = {
    "D": dt.datetime.fromisoformat,
    "y": dt.date.fromisoformat,
    "T": dt.time.fromisoformat,
}


class NotDataError(Exception):
    """The value is not pure data, or is too large or too deep; the message says which."""

    def __init__(self, message: str, *, culprit: Any = None) -> None:
        super().__init__(message)
        self.culprit = culprit
        """The part of the value that is not data, where there is one."""


Hook = Callable[[Any], int | None]
"""Gives an object that is not data a handle, or None to refuse it."""


class _Encoder:
    """One walk over one value; counts nodes so that shared references cannot blow it up."""

    def __init__(self, *, limit_bytes: int, max_depth: int, handle_of: Hook | None) -> None:
        self._nodes_left = limit_bytes
        self._max_depth = max_depth
        self._handle_of = handle_of

    def tree(self, value: Any, depth: int = 0) -> Any:
        self._nodes_left -= 1
        if depth > self._max_depth:
            raise NotDataError("too deep")
        if self._nodes_left < 0:
            raise NotDataError("too large")
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            self._nodes_left -= len(value)
            return value
        if kind is int:
            return self._integer(value)
        if kind is float:
            return value if math.isfinite(value) else {"f": repr(value)}
        if kind is list:
            return [self.tree(item, depth + 1) for item in value]
        return self._tagged(value, kind, depth)

    def _tagged(self, value: Any, kind: type, depth: int) -> Any:
        if kind in _SEQUENCE_TAGS:
            items = [self.tree(item, depth + 1) for item in value]
            if kind is not tuple:
                items.sort(key=json.dumps)  # a set has no order, so neither have its bytes
            return {_SEQUENCE_TAGS[kind]: items}
        if kind in _DICTIONARIES:
            pairs = [
                [self.tree(key, depth + 1), self.tree(item, depth + 1)]
                for key, item in dict.items(value)
            ]
            return {"d": pairs}
        if kind in _BINARY_TAGS:
            self._nodes_left -= 2 * len(value)
            return {_BINARY_TAGS[kind]: value.hex()}
        return self._rare(value, kind, depth)

    def _rare(self, value: Any, kind: type, depth: int) -> Any:
        if kind is complex:
            return {"c": [self.tree(value.real, depth + 1), self.tree(value.imag, depth + 1)]}
        if kind is dt.timedelta:
            return {"x": [value.days, value.seconds, value.microseconds]}
        if kind in _TIME_TAGS and type(getattr(value, "tzinfo", None)) in _TIME_ZONES:
            return {_TIME_TAGS[kind]: value.isoformat()}
        handle = None if self._handle_of is None else self._handle_of(value)
        if handle is None:
            raise NotDataError(f"type {kind.__name__}"[:100], culprit=value)
        return {"h": handle}

    def _integer(self, value: int) -> Any:
        if value in _PLAIN_INTEGERS:
            return value
        self._nodes_left -= value.bit_length() // 4
        if self._nodes_left < 0:
            raise NotDataError("too large")
        return {"i": f"{value:x}"}


def encode(value: Any, *, limit_bytes: int, max_depth: int, handle_of: Hook | None = None) -> bytes:
    """Write a value as tagged JSON in ASCII.

    Raises:
        NotDataError: some part is not of an exact builtin type, or the whole is too large or deep.
    """
    encoder = _Encoder(limit_bytes=limit_bytes, max_depth=max_depth, handle_of=handle_of)
    text = _WRITER.encode(encoder.tree(value))
    if len(text) > limit_bytes:
        raise NotDataError("too large")
    return text.encode("ascii")


def decode(
    payload: bytes,
    *,
    limit_bytes: int,
    max_depth: int,
    object_of: Callable[[int], Any] | None = None,
) -> Any:
    """Read tagged JSON back; never trusts that an honest encoder wrote it.

    Raises:
        NotDataError: it is not tagged JSON, or too large or too deep.
    """
    if len(payload) > limit_bytes:
        raise NotDataError("too large")
    try:
        tree = _READER.decode(payload.decode("ascii"))
        return _Decoder(max_depth=max_depth, object_of=object_of).value(tree)
    except (ValueError, TypeError, RecursionError, OverflowError, MemoryError) as error:
        raise NotDataError("not tagged JSON") from error


class _Tag:
    """A JSON object as its one pair; built by the parser."""

    __slots__ = ("content", "name")

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        ((self.name, self.content),) = pairs


def _refuse(word: str) -> Any:
    raise ValueError(word)


_WRITER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
_READER: Final = json.JSONDecoder(object_pairs_hook=_Tag, parse_constant=_refuse)


class _Decoder:
    def __init__(self, *, max_depth: int, object_of: Callable[[int], Any] | None) -> None:
        self._max_depth = max_depth
        self._object_of = object_of

    def value(self, tree: Any, depth: int = 0) -> Any:
        # Encoded depth is at most the value's depth: tags add no level of their own here.
        if depth > self._max_depth:
            raise NotDataError("too deep")
        if type(tree) is list:
            return [self.value(item, depth + 1) for item in tree]
        if type(tree) is _Tag:
            return self._tagged(tree.name, tree.content, depth + 1)
        if type(tree) is float and not math.isfinite(tree):
            raise NotDataError("not tagged JSON")
        return tree

    def _tagged(self, name: str, content: Any, depth: int) -> Any:
        if name in {"t", "s", "z"}:
            items = [self.value(item, depth) for item in _list(content)]
            return {"t": tuple, "s": set, "z": frozenset}[name](items)
        if name == "d":
            return dict(self._pair(pair, depth) for pair in _list(content))
        if name == "c":
            real, imaginary = (self.value(part, depth) for part in _list(content))
            return complex(_number(real), _number(imaginary))
        if name == "x":
            days, seconds, microseconds = (self.value(part, depth) for part in _list(content))
            return dt.timedelta(days, seconds, microseconds)
        if name == "h" and self._object_of is not None and type(content) is int:
            return self._object_of(content)
        return _scalar(name, content)

    def _pair(self, pair: Any, depth: int) -> tuple[Any, Any]:
        key, item = _list(pair)
        return self.value(key, depth), self.value(item, depth)


def _scalar(name: str, content: Any) -> Any:
    if type(content) is not str:
        raise NotDataError("not tagged JSON")
    if name == "i":
        return int(content, 16)
    if name == "f" and content in {"nan", "inf", "-inf"}:
        return float(content)
    if name == "b":
        return bytes.fromhex(content)
    if name == "B":
        return bytearray.fromhex(content)
    if name in _TIMES:
        return _TIMES[name](content)
    raise NotDataError("not tagged JSON")


def _list(content: Any) -> list[Any]:
    if type(content) is not list:
        raise NotDataError("not tagged JSON")
    return content


def _number(value: Any) -> float:
    if type(value) is not float:
        raise NotDataError("not tagged JSON")
    return value
