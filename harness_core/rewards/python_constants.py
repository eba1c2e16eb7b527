"""Constants that a Python program computes from constants: joined, reversed, decoded."""

import ast
import base64
import binascii
import operator
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

MAX_ALTERNATIVES: Final = 24
_MAX_LENGTH: Final = 2_000
_METHODS: Final = frozenset(
    {"replace", "lower", "upper", "strip", "lstrip", "rstrip", "decode", "encode", "swapcase"}
    | {"format", "title", "casefold", "removeprefix", "removesuffix"}
)
_DECODERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "base64.b64decode": base64.b64decode,
    "base64.urlsafe_b64decode": base64.urlsafe_b64decode,
    "base64.b32decode": base64.b32decode,
    "base64.b16decode": base64.b16decode,
    "base64.b85decode": base64.b85decode,
    "binascii.unhexlify": binascii.unhexlify,
    "binascii.a2b_base64": binascii.a2b_base64,
    "bytes.fromhex": bytes.fromhex,
    "chr": chr,
    "str": str,
    "os.fspath": str,
    **dict.fromkeys(
        ("os.path.expanduser", "os.path.abspath", "os.path.normpath", "os.path.realpath"), str
    ),
    "os.path.expandvars": str,
}
_WIDTH: Final = re.compile(r"\d{3}|[:%][^%{}]*\*")


@dataclass(frozen=True, slots=True)
class Constant:
    """A value written in the program."""

    value: str | bytes | int


def decoded(path: str, argument: Constant) -> Iterator[Constant]:
    """What a well-known decoder makes of a constant."""
    if path in _DECODERS:
        yield from _computed(_DECODERS[path], argument.value)


def added(one: Constant, two: Constant) -> Iterator[Constant]:
    """The sum or concatenation of two constants."""
    yield from _computed(operator.add, one.value, two.value)


def joined(separator: Constant, parts: Sequence[Sequence[Constant]]) -> Iterator[Constant]:
    """`separator.join(parts)`, for each way to choose among the alternatives of each part."""
    if isinstance(separator.value, int):
        return
    for chosen in _choices(parts):
        yield from _computed(separator.value.join, chosen)


def formatted(template: Constant, parts: Sequence[Sequence[Constant]]) -> Iterator[Constant]:
    """`template % parts`, for each way to choose among the alternatives of each part."""
    if isinstance(template.value, int) or _is_wide(template.value):
        return
    for chosen in _choices(parts):
        yield from _computed(operator.mod, template.value, tuple(chosen))


def path_joined(parts: Sequence[Sequence[Constant]]) -> Iterator[Constant]:
    """`os.path.join(*parts)`, for each way to choose among the alternatives of each part."""
    for chosen in _choices(parts):
        yield from _computed(posixpath.join, *chosen)


def method_result(
    owner: Constant, name: str, arguments: Sequence[Sequence[Constant]]
) -> Iterator[Constant]:
    """What a harmless method of a constant returns, for each choice of arguments."""
    if name not in _METHODS or isinstance(owner.value, int):
        return
    if name == "format" and _is_wide(owner.value):
        return
    for chosen in _choices(arguments):
        yield from _computed(getattr(owner.value, name, None), *chosen)


def sliced(value: Constant, index: ast.expr) -> Iterator[Constant]:
    """A constant read backwards or at a place; whole where the index says nothing."""
    if isinstance(value.value, int):
        return
    text = value.value
    match index:
        case ast.Slice(lower=None, upper=None, step=ast.UnaryOp(op=ast.USub())):
            yield Constant(text[::-1])
        case ast.Constant(value=int(place)):
            yield from _computed(operator.getitem, text, place)
        case _:
            yield value


def _is_wide(template: str | bytes) -> bool:
    """Whether it asks for more blanks than any name has; then it is not worth the memory."""
    text = template if isinstance(template, str) else template.decode("latin-1")
    return _WIDTH.search(text) is not None


def _choices(parts: Sequence[Sequence[Constant]]) -> Iterator[list[str | bytes | int]]:
    number = 1
    for part in parts:
        number *= len(part)
    if number <= MAX_ALTERNATIVES:
        for chosen in product(*parts):
            yield [item.value for item in chosen]


def _computed(compute: Callable[..., object] | None, *arguments: object) -> Iterator[Constant]:
    if compute is None:
        return
    try:
        value = compute(*arguments)
    except (TypeError, ValueError, LookupError, OverflowError):
        return
    if isinstance(value, int) or (isinstance(value, str | bytes) and len(value) <= _MAX_LENGTH):
        yield Constant(value)
