"""Bugs of a simulated programmer: small edits of a right program that still parse.

Loops of the form `while` are left alone: to break one mostly makes a program that never ends, and
grading those costs seconds each.
"""

import ast
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from harness_core.simulation.source_edits import Edit, Source, walk_outside

Mutator = Callable[[Source, ast.AST], Iterator[Edit]]

_COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
}
_ARITHMETIC: Final[Mapping[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "%"),
    ast.Mod: ("%", "//"),
}
# Python 3.11 gives nodes inside an f-string wrong places.
_UNTOUCHED: Final = (ast.While, ast.JoinedStr)


def mutants(program: str, *, rng: random.Random, n: int) -> list[str]:
    """Up to `n` distinct programs, each one bug away from `program`.

    All kinds of bugs are equally likely, however many places a kind has.
    """
    source = Source(program)
    edits = {name: list(_edits(source, mutator)) for name, mutator in MUTATORS.items()}
    for places in edits.values():
        rng.shuffle(places)
    found: dict[str, None] = {}
    while len(found) < n and any(edits.values()):
        name = rng.choice([name for name, places in edits.items() if places])
        mutant = source.edited([edits[name].pop()])
        if _is_different(mutant, source.tree):
            found[mutant] = None
    return list(found)


def _edits(source: Source, mutator: Mutator) -> Iterator[Edit]:
    for function in source.functions():
        for node in walk_outside(function.body, _UNTOUCHED):
            yield from mutator(source, node)


def _is_different(mutant: str, original: ast.Module) -> bool:
    try:
        return ast.dump(ast.parse(mutant)) != ast.dump(original)
    except SyntaxError:
        return False


def _flip_comparison(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Compare):
        lefts = [node.left, *node.comparators]
        for left, operator, right in zip(lefts, node.ops, node.comparators, strict=False):
            if type(operator) in _COMPARISONS:
                yield from _swap(source, left, right, *_COMPARISONS[type(operator)])


def _swap_arithmetic(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield from _swap(source, node.left, node.right, *_ARITHMETIC[type(node.op)])


def _swap_boolean(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield from _swap(source, node.values[0], node.values[1], old, new)


def _swap(source: Source, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Edit]:
    span = source.between(left, right)
    yield Edit(*span, source.text(span).replace(old, new, 1))


def _shift_constant(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        for value in (node.value + 1, node.value - 1):
            if value >= 0:
                yield Edit(*source.span(node), str(value))


def _drop_statement(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.AugAssign | ast.Expr | ast.If):
        yield Edit(*source.span(node), "pass")


def _return_less(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Return a part of what should be returned."""
    if isinstance(node, ast.Return) and node.value is not None:
        for part in _parts(node.value):
            if not isinstance(part, ast.Starred | ast.GeneratorExp):
                yield Edit(*source.span(node.value), source.text(source.span(part)))


def _parts(value: ast.expr) -> list[ast.expr]:
    match value:
        case ast.Call():
            return value.args[:1]
        case ast.BinOp():
            return [value.left, value.right]
        case ast.IfExp():
            return [value.body, value.orelse]
        case ast.Subscript():
            return [value.value]
        case _:
            return []


def _start_wrong(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Give a variable another first value."""
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        wrong = {"True": "False", "False": "True", '""': '" "', "[]": "[0]", "0": "-1", "1": "0"}
        span = source.span(node.value)
        if source.text(span) in wrong:
            yield Edit(*span, wrong[source.text(span)])


def _swap_arguments(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Call) and len(node.args) > 1:
        first, second = node.args[:2]
        if isinstance(first, ast.Starred) or isinstance(second, ast.Starred):
            return
        left, middle, right = source.span(first), source.between(first, second), source.span(second)
        swapped = source.text(right) + source.text(middle) + source.text(left)
        yield Edit(left.start, right.end, swapped)


MUTATORS: Final[Mapping[str, Mutator]] = {
    "flip_comparison": _flip_comparison,
    "shift_constant": _shift_constant,
    "swap_arithmetic": _swap_arithmetic,
    "swap_boolean": _swap_boolean,
    "drop_statement": _drop_statement,
    "return_less": _return_less,
    "start_wrong": _start_wrong,
    "swap_arguments": _swap_arguments,
}
