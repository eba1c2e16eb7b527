"""What a test claims of the values it observed, as an expression that the grader evaluates.

    self.assertAlmostEqual(account.rate, 0.5)   ->   observed `account.rate`, almost equal to 0.5

An observation stands in a claim as a name that no source can hold, `#0`, `#1` and so on. Claims
are evaluated outside every box on pure builtin data, as `folding` evaluates constants.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness_core.sandbox.folding import NotConstantError, fold

_ALMOST_EQUAL: Final = "#almost equal"
_SAME_ITEMS: Final = "#same items"
_PLACES: Final = 7
_MAX_UNSORTED: Final = 2000
TYPES: Final[Mapping[str, type]] = {
    kind.__name__: kind
    for kind in (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
}
"""Types that data can have."""

_COMPARED: Final[dict[str, type[ast.cmpop]]] = {
    "assertDictEqual": ast.Eq,
    "assertEqual": ast.Eq,
    "assertGreater": ast.Gt,
    "assertGreaterEqual": ast.GtE,
    "assertIn": ast.In,
    "assertIs": ast.Is,
    "assertIsNot": ast.IsNot,
    "assertLess": ast.Lt,
    "assertLessEqual": ast.LtE,
    "assertListEqual": ast.Eq,
    "assertMultiLineEqual": ast.Eq,
    "assertNotEqual": ast.NotEq,
    "assertNotIn": ast.NotIn,
    "assertSequenceEqual": ast.Eq,
    "assertSetEqual": ast.Eq,
    "assertTupleEqual": ast.Eq,
}
"""Assertions of two values."""


class UnknownAssertionError(Exception):
    """An assertion that is not known here, or has other arguments."""


def observation(number: int) -> ast.Name:
    """What stands in a claim for a value that was observed."""
    return ast.Name(id=f"#{number}", ctx=ast.Load())


def holds(claim: ast.expr, observed: Sequence[Any]) -> bool:
    """Whether a claim is true of the observed values; one that cannot be evaluated is not."""
    names = {f"#{number}": value for number, value in enumerate(observed)}
    try:
        return bool(fold(claim, {**_FUNCTIONS, **names}))
    except NotConstantError:
        return False


def claim_of(name: str, call: ast.Call) -> ast.expr:
    """The claim of a call such as `self.assertEqual(first, second)`.

    Raises:
        UnknownAssertionError: it makes no claim that is known here.
    """
    options = {option.arg: option.value for option in call.keywords if option.arg != "msg"}
    claim = _claim_of_one(name, call.args) if not options else None
    if claim is None and not options:
        claim = _claim_of_two(name, call.args)
    if claim is None and name in {"assertAlmostEqual", "assertNotAlmostEqual"}:
        claim = _almost(name, call.args, options)
    if claim is None:
        raise UnknownAssertionError(name)
    return claim


def raising(kinds: Sequence[str], raised: ast.expr) -> ast.expr:
    """The claim that an observed exception is of one of some classes, by their names.

    What is observed is the list of the names of its classes, or None if nothing was raised.
    """
    named: list[ast.expr] = [_compare(ast.Constant(kind), ast.In, raised) for kind in kinds]
    return _call("any", ast.List(elts=named, ctx=ast.Load()))


def _claim_of_one(name: str, arguments: Sequence[ast.expr]) -> ast.expr | None:
    match name, arguments:
        case (("assertTrue" | "assert_"), [value, *_]):
            return value
        case "assertFalse", [value, *_]:
            return ast.UnaryOp(op=ast.Not(), operand=value)
        case "assertIsNone", [value, *_]:
            return _compare(value, ast.Is, ast.Constant(None))
        case "assertIsNotNone", [value, *_]:
            return _compare(value, ast.IsNot, ast.Constant(None))
    return None


def _claim_of_two(name: str, arguments: Sequence[ast.expr]) -> ast.expr | None:
    if len(arguments) not in {2, 3}:  # the third is a message
        return None
    first, second = arguments[:2]
    if name in _COMPARED:
        return _compare(first, _COMPARED[name], second)
    if name == "assertCountEqual":
        return _call(_SAME_ITEMS, first, second)
    if name in {"assertIsInstance", "assertNotIsInstance"}:
        claim = _call("isinstance", first, second)
        return claim if name == "assertIsInstance" else ast.UnaryOp(ast.Not(), claim)
    return None


def _almost(
    name: str, arguments: Sequence[ast.expr], options: Mapping[str | None, ast.expr]
) -> ast.expr | None:
    if len(arguments) not in {2, 3} or not set(options) <= {"places", "delta"}:
        return None
    places = arguments[2] if len(arguments) > 2 else options.get("places", ast.Constant(None))  # noqa: PLR2004  # the third argument
    delta = options.get("delta", ast.Constant(None))
    claim = _call(_ALMOST_EQUAL, *arguments[:2], places, delta)
    return claim if name == "assertAlmostEqual" else ast.UnaryOp(ast.Not(), claim)


def _compare(left: ast.expr, sign: type[ast.cmpop], right: ast.expr) -> ast.Compare:
    return ast.Compare(left=left, ops=[sign()], comparators=[right])


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[*arguments], keywords=[])


def _almost_equal(first: Any, second: Any, places: Any, delta: Any) -> bool:
    # In the order of unittest: equal values need no difference.
    if first == second:
        return True
    difference = abs(first - second)
    if delta is not None:
        return bool(difference <= delta)
    return bool(round(difference, _PLACES if places is None else places) == 0)


def _same_items(first: Any, second: Any) -> bool:
    left = list(second)
    if len(first) != len(left):
        return False
    if len(left) > _MAX_UNSORTED:
        raise ValueError("too many items to compare one by one")
    for item in first:
        if item not in left:
            return False
        left.remove(item)
    return not left


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    _ALMOST_EQUAL: _almost_equal,
    _SAME_ITEMS: _same_items,
    "isinstance": isinstance,
    **TYPES,
}
FUNCTIONS: Final = frozenset({_ALMOST_EQUAL, _SAME_ITEMS})
"""Names of the functions that only claims hold."""
