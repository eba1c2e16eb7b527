"""Constant expressions of checks, evaluated without running any code: literals and a little more.

Beyond literals: `10**9`, `[1] * 3`, `1 / 3`, `float("inf")`, `set()`, `tuple([1, 2])`, `math.pi`.
Sizes are bounded before anything is computed, so that no check can exhaust the grader.
"""

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sized
from typing import Any, Final

MAX_SOURCE_CHARS: Final = 1 << 18
_MAX_ITEMS: Final = 1_000_000
_MAX_BITS: Final = 1 << 16
_MAX_NESTING: Final = 80
_MAX_RUN: Final = 200  # prefix operators in a row, each of which nests once more


class NotConstantError(Exception):
    """The expression needs more than constants, or too much memory."""


def parse(source: str) -> ast.Module | None:
    """Parse a check; None if it is not Python or could exhaust the parser."""
    if len(source) > MAX_SOURCE_CHARS or _is_deep(source):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes and the like
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def fold(node: ast.expr) -> Any:
    """The value of a constant expression.

    Raises:
        NotConstantError: it is not one.
    """
    try:
        value = _fold(node)
    except (ArithmeticError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise NotConstantError from error
    _check_size(value)
    return value


def _fold(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value) if value is not Ellipsis:
            return value
        case ast.List() | ast.Tuple() | ast.Set():
            return _DISPLAYS[type(node)]([_fold(item) for item in node.elts])
        case ast.Dict(keys=keys, values=values):
            return {
                _fold(_given(key)): _fold(value) for key, value in zip(keys, values, strict=True)
            }
    return _compute(node)


def _compute(node: ast.expr) -> Any:
    match node:
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _UNARY:
            return _UNARY[type(sign)](_fold(operand))
        case ast.BinOp(left=left, op=sign, right=right):
            return _binary(sign, _fold(left), _fold(right))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _CALLS:
            return _CALLS[name](*(_fold(argument) for argument in arguments))
        case ast.Attribute(value=ast.Name(id="math"), attr=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
    raise NotConstantError


def _given(key: ast.expr | None) -> ast.expr:
    if key is None:  # {**other}
        raise NotConstantError
    return key


def _binary(sign: ast.operator, left: Any, right: Any) -> Any:
    if type(sign) not in _BINARY:
        raise NotConstantError
    _check_size(left)
    _check_size(right)
    if isinstance(sign, ast.Pow):
        _check_power(left, right)
    elif isinstance(sign, ast.Mult):
        _check_product(left, right)
    elif isinstance(sign, ast.Mod) and isinstance(left, str | bytes):
        raise NotConstantError  # formatting can ask for any width
    elif isinstance(sign, ast.LShift) and not 0 <= right <= _MAX_BITS:
        raise NotConstantError
    return _BINARY[type(sign)](left, right)


def _check_power(base: Any, exponent: Any) -> None:
    if not isinstance(base, int) or not isinstance(exponent, int):
        return
    if base.bit_length() * abs(exponent) > _MAX_BITS:
        raise NotConstantError


def _check_product(left: Any, right: Any) -> None:
    for items, count in ((left, right), (right, left)):
        if isinstance(items, Sized) and isinstance(count, int) and len(items) * count > _MAX_ITEMS:
            raise NotConstantError


def _check_size(value: Any) -> None:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise NotConstantError
    if isinstance(value, Sized) and len(value) > _MAX_ITEMS:
        raise NotConstantError


def _is_deep(source: str) -> bool:
    """Whether brackets or prefix operators nest too deeply; brackets in strings count as well."""
    depth = run = 0
    for character in source:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth = max(depth - 1, 0)
        run = run + 1 if character in "-+~. \\" or (run and character == "\n") else 0
        if depth > _MAX_NESTING or run > _MAX_RUN:
            return True
    return False


_DISPLAYS: Final[Mapping[type[ast.expr], Callable[[list[Any]], Any]]] = {
    ast.List: list,
    ast.Tuple: tuple,
    ast.Set: set,
}
_UNARY: Final[Mapping[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_BINARY: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
}
_CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": abs,
    "bool": bool,
    "complex": complex,
    "dict": dict,
    "float": float,
    "frozenset": frozenset,
    "int": int,
    "len": len,
    "list": list,
    "round": round,
    "set": set,
    "sorted": sorted,
    "str": str,
    "sum": sum,
    "tuple": tuple,
}
_CONSTANTS: Final = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "tau": math.tau}
