"""Constant expressions of checks, evaluated without running any code: literals and a little more.

Beyond literals: `10**9`, `[1] * 3`, `1 / 3`, `float("inf")`, `set()`, `tuple([1, 2])`, `math.pi`,
comparisons, items and slices, and names whose values are given, such as those of observations.
Sizes are bounded before anything is computed, so that no check can exhaust the grader.
"""

import ast
import datetime as dt
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sized
from typing import Any, Final

MAX_SOURCE_CHARS: Final = 1 << 18
_MAX_ITEMS: Final = 1_000_000
_MAX_BITS: Final = 1 << 16
_MAX_NESTING: Final = 80
_MAX_RUN: Final = 200  # prefix operators in a row, each of which nests once more
_RUN: Final = re.compile(r"[-+~. \\][-+~. \\\n]*")
NO_NAMES: Final[Mapping[str, Any]] = {}
UNKNOWN: Final = object()
"""The value of a name that is no constant, although a builtin may have the same name."""


class NotConstantError(Exception):
    """The expression needs more than constants, or too much memory."""


def parse(source: str) -> ast.Module | None:
    """Parse a check; None if it is not Python or could exhaust the parser."""
    if len(source) > MAX_SOURCE_CHARS or is_deep(source):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes and the like
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def fold(node: ast.expr, names: Mapping[str, Any] = NO_NAMES) -> Any:
    """The value of a constant expression; `names` are constants too, `self.x` by that name.

    Raises:
        NotConstantError: it is not one.
    """
    try:
        value = _fold(node, names)
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
        ValueError,
    ) as error:  # fmt: skip
        raise NotConstantError from error
    _check_size(value)
    return value


def _fold(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value) if value is not Ellipsis:
            return value
        case ast.List() | ast.Tuple() | ast.Set():
            return _DISPLAYS[type(node)]([_fold(item, names) for item in node.elts])
        case ast.Dict(keys=keys, values=values):
            return {
                _fold(_given(key), names): _fold(value, names)
                for key, value in zip(keys, values, strict=True)
            }
        case ast.Name() | ast.Attribute():
            return _look_up(node, names)
    return _compute(node, names)


def _look_up(node: ast.Name | ast.Attribute, names: Mapping[str, Any]) -> Any:
    key = name_of(node) or ""
    return _known(names.get(key, _CONSTANTS.get(key, UNKNOWN)))


def name_of(node: ast.expr) -> str | None:
    """A name with dots, such as `x` and `self.x`; None for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            owner = name_of(value)
            return None if owner is None else f"{owner}.{name}"
    return None


def _compute(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.UnaryOp(op=sign, operand=operand):
            return _UNARY[type(sign)](_fold(operand, names))
        case ast.BinOp(left=left, op=sign, right=right):
            return _binary(sign, _fold(left, names), _fold(right, names))
        case ast.Compare():
            return _chain(node, names)
        case ast.Subscript(value=value, slice=index):
            return _fold(value, names)[_index(index, names)]
        case ast.Call(func=function, args=arguments, keywords=options):
            found = _function(function, names)
            return found(
                *(_fold(argument, names) for argument in arguments),
                **{_named(option): _fold(option.value, names) for option in options},
            )
    raise NotConstantError


def _chain(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    left, holds = _fold(node.left, names), True
    for sign, comparator in zip(node.ops, node.comparators, strict=True):
        right = _fold(comparator, names)
        if isinstance(sign, ast.Is | ast.IsNot) and not _is_single(left, right):
            raise NotConstantError  # identity of anything else is an accident
        holds = holds and bool(_COMPARISONS[type(sign)](left, right))
        left = right
    return holds


def _is_single(*values: Any) -> bool:
    return any(value is None or isinstance(value, bool) for value in values)


def _index(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if not isinstance(node, ast.Slice):
        return _fold(node, names)
    bounds = (node.lower, node.upper, node.step)
    return slice(*(None if bound is None else _fold(bound, names) for bound in bounds))


def _function(node: ast.expr, names: Mapping[str, Any]) -> Callable[..., Any]:
    name = name_of(node) or ""
    found: Callable[..., Any] = _known(names.get(name, _CALLS.get(name, UNKNOWN)))
    return found


def _known(value: Any) -> Any:
    if value is UNKNOWN:
        raise NotConstantError
    return value


def _named(option: ast.keyword) -> str:
    if option.arg is None:  # f(**options)
        raise NotConstantError
    return option.arg


def _given(key: ast.expr | None) -> ast.expr:
    if key is None:  # {**other}
        raise NotConstantError
    return key


def _binary(sign: ast.operator, left: Any, right: Any) -> Any:
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


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    _check_size(numbers)
    return numbers


def is_deep(source: str) -> bool:
    """Whether brackets or prefix operators nest too deeply; brackets in strings count as well."""
    if max(map(len, _RUN.findall(source)), default=0) > _MAX_RUN:
        return True
    if sum(map(source.count, "([{")) <= _MAX_NESTING:
        return False
    depth = 0
    for character in source:
        if character in "([{":
            depth += 1
            if depth > _MAX_NESTING:
                return True
        elif character in ")]}":
            depth = max(depth - 1, 0)
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
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": abs,
    "all": all,
    "any": any,
    "bool": bool,
    "complex": complex,
    "date": dt.date,
    "datetime": dt.datetime,
    "datetime.date": dt.date,
    "datetime.datetime": dt.datetime,
    "datetime.datetime.strptime": dt.datetime.strptime,
    "datetime.strptime": dt.datetime.strptime,
    "datetime.time": dt.time,
    "datetime.timedelta": dt.timedelta,
    "dict": dict,
    "float": float,
    "frozenset": frozenset,
    "int": int,
    "len": len,
    "list": list,
    "math.ceil": math.ceil,
    "math.cos": math.cos,
    "math.exp": math.exp,
    "math.floor": math.floor,
    "math.isclose": math.isclose,
    "math.log": math.log,
    "math.sin": math.sin,
    "math.sqrt": math.sqrt,
    "max": max,
    "min": min,
    "range": _range,
    "round": round,
    "set": set,
    "sorted": sorted,
    "str": str,
    "sum": sum,
    "timedelta": dt.timedelta,
    "tuple": tuple,
}
"""`datetime` is the module or its class, as the source has imported it."""
_CONSTANTS: Final = {
    f"math.{name}": getattr(math, name) for name in ("e", "inf", "nan", "pi", "tau")
}
FUNCTION_NAMES: Final = frozenset(_CALLS)
"""The functions that are evaluated here."""
