"""An assertion taken apart: what to observe in the box, and the claim that is left to the grader.

assert sorted(stack.items) == [1, 2]   ->   observe `[*stack.items]`, claim `sorted(#0) == [1, 2]`
"""

import ast
from collections.abc import Callable, Iterable
from typing import Final

from harness_core.sandbox.claims import FUNCTIONS, TYPES, observation
from harness_core.sandbox.folding import FUNCTION_NAMES, NotConstantError, fold, name_of
from harness_core.sandbox.inside.scripting import OBSERVE, PRESENCE, SIZE
from harness_core.sandbox.names import Names, Origin, UnsplittableError

_CONSUMERS: Final = frozenset(
    {"all", "any", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple"}
)
"""These take any iterable, also one that is not data: the box then observes a list."""
_IN_BOX: Final = frozenset({"str", "repr"})
"""Objects say these themselves; what they say is data."""
_OURS: Final = FUNCTION_NAMES | FUNCTIONS | {"isinstance"}

Observe = Callable[[str, ast.expr], int]
"""Writes an observation of an expression into the script and gives its number."""


class ClaimReader:
    """Reads one assertion; `origins` tells where each observed value comes from."""

    def __init__(self, names: Names, observe: Observe) -> None:
        self._names = names
        self._observe = observe
        self._are_given = False
        self.origins: list[Origin] = []

    def read(self, test: ast.expr) -> ast.expr | None:
        """The claim, None for one that always holds.

        Raises:
            UnsplittableError: the program's process would have a say in what is expected.
        """
        # What the program was given counts as what it was, unless the claim is about just that.
        self._are_given = not self._names.is_about_arguments(test)
        claim = self._read(test)
        if not self.origins:
            if isinstance(claim, ast.Constant) and claim.value:
                return None
            raise UnsplittableError("an assertion that always fails")
        # With more than one observation, one of them stands for what is expected, and only a
        # comparison of the program with itself may take that from the program's process.
        if len(self.origins) > 1 and min(self.origins) < Origin.PROGRAM:
            raise UnsplittableError("an expectation made in the box")
        return claim

    def _read(self, node: ast.expr) -> ast.expr:
        try:
            return ast.Constant(fold(node, self._names.known(with_arguments=self._are_given)))
        except NotConstantError:
            pass
        match node:
            case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
                return self._identity(node)
            case ast.Call(func=function) if self._is_ours(function):
                return self._call(node, name_of(function) or "")
        return self._operation(node) or self._seen(OBSERVE, node)

    def _operation(self, node: ast.expr) -> ast.expr | None:
        """An operator or a display, applied by the grader to what is observed of its parts."""
        match node:
            case ast.Compare(left=left, ops=signs, comparators=others):
                first, *rest = (self._read(part) for part in (left, *others))
                return ast.Compare(left=first, ops=signs, comparators=rest)
            case ast.UnaryOp(op=sign, operand=operand):
                return ast.UnaryOp(op=sign, operand=self._read(operand))
            case ast.BinOp(left=left, op=sign, right=right):
                return ast.BinOp(left=self._read(left), op=sign, right=self._read(right))
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return type(node)(elts=[self._read(item) for item in items], ctx=ast.Load())
            case ast.Dict(keys=keys, values=values) if None not in keys:
                return ast.Dict(
                    keys=[self._read(key) for key in keys if key is not None],
                    values=[self._read(value) for value in values],
                )
        return None

    def _identity(self, node: ast.Compare) -> ast.expr:
        """Objects are no data, but whether something is None may be asked of them."""
        match node.left, node.comparators[0]:
            case (value, ast.Constant(value=None)) | (ast.Constant(value=None), value):
                seen = self._seen(PRESENCE, value)
                return ast.Compare(left=seen, ops=node.ops, comparators=[ast.Constant(None)])
        first, second = self._read(node.left), self._read(node.comparators[0])
        return ast.Compare(left=first, ops=node.ops, comparators=[second])

    def _call(self, node: ast.Call, name: str) -> ast.expr:
        """A function that the grader applies itself, to what is observed of its arguments."""
        if name == "isinstance":
            return self._type(node)
        if name in _IN_BOX or not node.args or not self._are_constant(node.keywords):
            return self._seen(OBSERVE, node)
        first, *rest = node.args
        is_raw = not rest and not (isinstance(first, ast.Call) and self._is_ours(first.func))
        if name == "len" and is_raw:
            return self._seen(SIZE, first)
        if name in _CONSUMERS and is_raw:
            items = ast.List(elts=[ast.Starred(value=first, ctx=ast.Load())], ctx=ast.Load())
            seen = self._seen(OBSERVE, items)
        else:
            seen = self._read(first)
        others = [self._read(item) for item in rest]
        return ast.Call(func=node.func, args=[seen, *others], keywords=node.keywords)

    def _type(self, node: ast.Call) -> ast.expr:
        match node.args:
            case [value, ast.Name(id=kind) as name] if kind in TYPES:
                return ast.Call(func=node.func, args=[self._read(value), name], keywords=[])
        return self._seen(OBSERVE, node)

    def _are_constant(self, options: Iterable[ast.keyword]) -> bool:
        try:
            for option in options:
                fold(option.value)
        except NotConstantError:
            return False
        return True

    def _is_ours(self, function: ast.expr) -> bool:
        """Whether a function is one of the grader's, and not the test's or the program's."""
        name = name_of(function)
        return name in _OURS and name not in self._names.known()

    def _seen(self, mode: str, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Lambda | ast.GeneratorExp | ast.Starred):
            raise UnsplittableError("an expectation that is no value")
        self.origins.append(self._names.origin(node))
        return observation(self._observe(mode, node))
