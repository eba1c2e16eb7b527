"""Checks taken apart: the call that runs in the box, and the comparison that never enters it.

    assert sorted(f([3, 1])) == [1, 3]   ->   call `[*f([3, 1])]`, wrapper `sorted`, `== [1, 3]`

A check that cannot be taken apart runs as a whole in a test process, see `inside.testing`.
"""

import ast
import builtins
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from harness_core.sandbox.comparison import WRAPPERS, Comparison, Wrapper
from harness_core.sandbox.folding import NotConstantError, fold, parse

ALIAS: Final = "candidate"
"""What checks call the entry point by tradition."""
CHECK: Final = "check"
"""A function of this name is called with the entry point."""

_BUILTINS: Final = frozenset(dir(builtins))
_FOREIGN_ROOTS: Final = _BUILTINS | {"math", "np", "numpy", "random", "re"}
_CONSUMERS: Final = frozenset(
    {"list", "tuple", "set", "frozenset", "sorted", "sum", "min", "max", "any", "all"}
)
"""Wrappers that take any iterable, also one that is not data: the box then sends a list."""
_OPERATORS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Eq: ("==", "=="),
    ast.NotEq: ("!=", "!="),
    ast.Lt: ("<", ">"),
    ast.LtE: ("<=", ">="),
    ast.Gt: (">", "<"),
    ast.GtE: (">=", "<="),
    ast.Is: ("is", "is"),
    ast.IsNot: ("is not", "is not"),
    ast.In: ("in", "contains"),
    ast.NotIn: ("not in", "not contains"),
}
"""Operator with the call on the left, and with the call on the right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCheck:
    """One check: a call expression for the box, a comparison for the grader."""

    call: str
    comparison: Comparison

    @property
    def expected(self) -> Any:
        """The expected value, pure data."""
        return self.comparison.expected

    @property
    def holds_for_echo(self) -> bool:
        """Whether a program passes that hands its first argument back."""
        call = ast.parse(self.call, mode="eval").body
        first = call.args[:1] if isinstance(call, ast.Call) else []
        try:
            return any(self.comparison.holds(fold(argument)) for argument in first)
        except NotConstantError:
            return False


class _Unsplittable(Exception):
    """This form is not known here."""


@functools.lru_cache(maxsize=1 << 15)
def split_check(source: str, entry_point: str | None) -> SplitCheck | None:
    """Take one assert statement apart; None if it is not one or has another form."""
    module = parse(source)
    if module is None or len(module.body) != 1 or not isinstance(module.body[0], ast.Assert):
        return None
    names = _names(entry_point)
    return _split(module.body[0].test, names, entry_point)


@functools.lru_cache(maxsize=1 << 12)
def split_program(source: str, entry_point: str | None) -> tuple[SplitCheck, ...] | None:
    """Take a whole check program apart: several asserts, or a `check(candidate)` of asserts.

    None if any statement of it does more; an empty tuple if it asserts nothing of the program.
    """
    module = parse(source)
    if module is None:
        return None
    try:
        return tuple(_split_body(module.body, _names(entry_point), entry_point, is_top=True))
    except _Unsplittable:
        return None


def split_calls(source: str, entry_point: str | None) -> tuple[SplitCheck, ...]:
    """All calls of a check that the grader compares itself; empty if the check does more."""
    single = split_check(source, entry_point)
    return (single,) if single is not None else split_program(source, entry_point) or ()


def is_usable(source: str, entry_point: str | None) -> bool:
    """Whether a check is Python and names the program at all."""
    module = parse(source)
    if module is None:
        return False
    names = _names(entry_point)
    if names and any(
        isinstance(node, ast.FunctionDef) and node.name == CHECK for node in module.body
    ):
        return True  # it is handed the program
    used = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(module) if isinstance(node, ast.Attribute)}
    return bool(used & names) if names else bool(used - _BUILTINS)


def _names(entry_point: str | None) -> frozenset[str]:
    return frozenset({entry_point, ALIAS}) if entry_point else frozenset()


def _split_body(
    body: Iterable[ast.stmt],
    names: frozenset[str],
    entry_point: str | None,
    *,
    is_top: bool,
) -> Iterable[SplitCheck]:
    for statement in body:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Assign(targets=[ast.Name(id="METADATA")]):
                pass
            case ast.Import() | ast.ImportFrom():
                pass  # a call that needs it names it, and is refused below
            case ast.Assert(test=test):
                yield from _split_assert(test, names, entry_point)
            case ast.FunctionDef(name="check", decorator_list=[]) if is_top and entry_point:
                parameter = _only_parameter(statement)
                yield from _split_body(
                    statement.body, names | {parameter}, entry_point, is_top=False
                )
            case ast.Expr(value=ast.Call(func=ast.Name(id="check"), args=[ast.Name(id=name)])) if (
                is_top and name == entry_point
            ):
                pass
            case _:
                raise _Unsplittable


def _split_assert(
    test: ast.expr, names: frozenset[str], entry_point: str | None
) -> Iterable[SplitCheck]:
    try:
        if fold(test):
            return  # `assert True`: says nothing
        raise _Unsplittable
    except NotConstantError:
        pass
    split = _split(test, names, entry_point)
    if split is None or _free_names(split.call) - _BUILTINS - names:
        # The name may be bound by the check program, which the box does not see.
        raise _Unsplittable
    yield split


def _only_parameter(function: ast.FunctionDef) -> str:
    arguments = function.args
    if len(arguments.args) != 1 or arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        raise _Unsplittable
    return arguments.args[0].arg


def _free_names(call: str) -> set[str]:
    nodes = [node for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Name)]
    bound = {node.id for node in nodes if not isinstance(node.ctx, ast.Load)}
    return {node.id for node in nodes} - bound


def _split(test: ast.expr, names: frozenset[str], entry_point: str | None) -> SplitCheck | None:
    try:
        call, comparison = _compare(test, names)
        return SplitCheck(call=_source(call, names, entry_point), comparison=comparison)
    except (_Unsplittable, NotConstantError, RecursionError):
        return None


def _compare(test: ast.expr, names: frozenset[str]) -> tuple[ast.expr, Comparison]:
    match test:
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            return _compare_two(left, sign, right, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            call, wrappers = _peel(operand, names)
            return call, Comparison(operator="false", wrappers=wrappers)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="math"), attr="isclose") | ast.Name(id="isclose"),
            args=[left, right],
            keywords=options,
        ):
            return _compare_close(left, right, options, names)
    call, wrappers = _peel(test, names)
    return call, Comparison(operator="true", wrappers=wrappers)


def _compare_two(
    left: ast.expr, sign: ast.cmpop, right: ast.expr, names: frozenset[str]
) -> tuple[ast.expr, Comparison]:
    forward, backward = _OPERATORS[type(sign)]
    try:
        expected, side, name = fold(right), left, forward
    except NotConstantError:
        expected, side, name = fold(left), right, backward
    if name in {"is", "is not"} and not (expected is None or isinstance(expected, bool)):
        raise _Unsplittable  # identity of anything else is an accident
    call, wrappers = _peel(side, names)
    return call, Comparison(operator=name, expected=expected, wrappers=wrappers)


def _compare_close(
    left: ast.expr, right: ast.expr, options: list[ast.keyword], names: frozenset[str]
) -> tuple[ast.expr, Comparison]:
    tolerances = {option.arg: fold(option.value) for option in options}
    if not set(tolerances) <= {"rel_tol", "abs_tol"}:
        raise _Unsplittable
    try:
        expected, side = fold(right), left
    except NotConstantError:
        expected, side = fold(left), right
    call, wrappers = _peel(side, names)
    return call, Comparison(
        operator="close",
        expected=expected,
        wrappers=wrappers,
        rel_tol=tolerances.get("rel_tol", 1e-9),
        abs_tol=tolerances.get("abs_tol", 0.0),
    )


def _peel(node: ast.expr, names: frozenset[str]) -> tuple[ast.expr, tuple[Wrapper, ...]]:
    """Separate the call of the program from the functions around it."""
    if _is_program_call(node, names):
        return node, ()
    inner, wrapper = _outer_wrapper(node)
    call, wrappers = _peel(inner, names)
    if not wrappers and wrapper.name in _CONSUMERS:
        call = ast.List(elts=[ast.Starred(value=call, ctx=ast.Load())], ctx=ast.Load())
    return call, (*wrappers, wrapper)


def _outer_wrapper(node: ast.expr) -> tuple[ast.expr, Wrapper]:
    match node:
        case ast.Call(func=ast.Name(id="round"), args=[inner, digits], keywords=[]):
            return inner, Wrapper("round", fold(digits))
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if (
            name in WRAPPERS and name in _BUILTINS
        ):
            return inner, Wrapper(name)
        case ast.Subscript(value=inner, slice=index) if not isinstance(index, ast.Slice):
            return inner, Wrapper("item", fold(index))
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return inner, Wrapper("not")
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            try:
                return left, Wrapper("minus", fold(right))
            except NotConstantError:
                return right, Wrapper("subtracted from", fold(left))
    raise _Unsplittable


def _is_program_call(node: ast.expr, names: frozenset[str]) -> bool:
    """Whether it is a call of the program: `f(…)`, `Class(…).f(…)`, `f.g(…)`."""
    if not isinstance(node, ast.Call):
        return False
    root = node.func
    chain: set[str] = set()
    while isinstance(root, ast.Attribute | ast.Call):
        if isinstance(root, ast.Attribute):
            chain.add(root.attr)
            root = root.value
        else:
            root = root.func
    if not isinstance(root, ast.Name) or root.id in _FOREIGN_ROOTS - names:
        return False
    return not names or bool(names & {root.id, *chain})


class _Rename(ast.NodeTransformer):
    def __init__(self, old: frozenset[str], new: str) -> None:
        self._old = old
        self._new = new

    def visit_Name(self, node: ast.Name) -> ast.Name:  # the name ast calls
        return ast.Name(id=self._new, ctx=node.ctx) if node.id in self._old else node


def _source(call: ast.expr, names: frozenset[str], entry_point: str | None) -> str:
    renamed = call if entry_point is None else _Rename(names, entry_point).visit(call)
    return ast.unparse(renamed)
