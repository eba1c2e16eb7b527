"""Where the names of a test get their values: from constants, from the test, or from the program.

Followed statement by statement, in the order of the test. A constant counts as one until something
in the box uses it and could change it; whatever the program had a hand in counts as the program's.
"""

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from harness_core.sandbox.folding import UNKNOWN

_BUILTINS: Final = frozenset(dir(builtins))
_MODULES: Final = sys.stdlib_module_names | {"date", "np", "numpy", "pd", "pandas", "timedelta"}


class UnsplittableError(Exception):
    """This test does more than can be written as a script."""


class Origin(IntEnum):
    """Where the value of an expression comes from; the larger one wins."""

    CONSTANT = 0
    INERT = 1
    """The test made it inside the box, without the program."""
    ARGUMENT = 2
    """A constant of the test that the program may have changed since."""
    PROGRAM = 3


@dataclass(slots=True)
class Line:
    """A statement of a script; constants are written only if something in the box uses them."""

    statement: ast.stmt
    is_used: bool = False
    body: "list[Line] | None" = None


@dataclass(slots=True, eq=False)
class Constant:
    """A name that the test bound to a constant."""

    value: Any
    line: Line
    needs: "list[Constant]" = field(default_factory=list)
    """The constants that it was made of."""
    names: set[str] = field(default_factory=set)
    """Of all constants that may share parts with this one."""


class Names:
    """The names of one test, at the statement that was reached."""

    def __init__(self, program_names: Iterable[str], owner: str | None) -> None:
        self.owner = owner
        """What the test calls itself: `self` in a method."""
        self._program_names = frozenset(program_names)
        """These are the program's, even where a builtin has the same name."""
        self._constants: dict[str, Constant] = {}
        self._changed: dict[str, Constant] = {}
        self._origins: dict[str, Origin] = {}
        self._imported: set[str] = set()
        """Modules and parts of them, under names that no builtin has."""

    def key(self, node: ast.AST) -> str | None:
        """The name that a node is: `x`, or `self.x`."""
        match node:
            case ast.Name(id=name):
                return name
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == self.owner:
                return f"{owner}.{name}"
        return None

    def known(self, *, with_arguments: bool = False) -> dict[str, Any]:
        """Values of the constants; arguments of the program count as what they were, if asked."""
        hidden = (key for key in self._origins if key not in self._imported)
        known = dict.fromkeys((*self._program_names, *hidden), UNKNOWN)
        known |= {key: constant.value for key, constant in self._constants.items()}
        if with_arguments:
            known |= {
                key: constant.value
                for key, constant in self._changed.items()
                if self._origins.get(key) is Origin.ARGUMENT
            }
        return known

    def is_about_arguments(self, node: ast.expr) -> bool:
        """Whether nothing else than arguments of the program is in an expression."""
        origins = {self._origin_of(key) for key in self.loads(node) if key not in _BUILTINS}
        return origins <= {Origin.CONSTANT, Origin.ARGUMENT}

    def is_constant(self, key: str) -> bool:
        """Whether a name stands for an unchanging constant."""
        constant = self._constants.get(key)
        return constant is not None and not _is_mutable(constant.value)

    def before(self, node: ast.expr) -> Any:
        """What an argument of the program was when it was given; None for anything else."""
        constant = self._changed.get(self.key(node) or "")
        return None if constant is None else constant.value

    def bind(self, key: str, value: Any, line: Line, source: ast.expr | None = None) -> None:
        """A name becomes a constant, that `source` was the expression of."""
        loads = () if source is None else self.loads(source)
        needs = [self._constants[name] for name in loads if name in self._constants]
        constant = Constant(value, line, needs, {key})
        if _is_mutable(value):
            shared = (need.names for need in needs if _is_mutable(need.value))
            constant.names = constant.names.union(*shared)
        self.forget(key)
        for name in constant.names & self._constants.keys():
            self._constants[name].names |= constant.names
        self._constants[key] = constant

    def bind_import(self, key: str, line: Line) -> None:
        """A name becomes a module or a part of one, needed in the box only if it is used there."""
        self.forget(key)
        self._changed[key] = Constant(None, line)
        self._origins[key] = Origin.INERT
        if key not in _BUILTINS:
            self._imported.add(key)

    def store(self, target: ast.AST, origin: Origin) -> None:
        """Names that code in the box binds or deletes."""
        for node in ast.walk(target):
            key = self.key(node)
            if key is not None and isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
                self.forget(key)
                self._origins[key] = max(origin, Origin.INERT)

    def forget(self, key: str) -> None:
        """A name loses its value."""
        for table in (self._constants, self._changed, self._origins):
            table.pop(key, None)
        self._imported.discard(key)

    def use(self, node: ast.AST) -> None:
        """Code enters the box: the constants it uses do too, and may change from now on."""
        for key in set(self.loads(node)):
            constant = self._constants.get(key) or self._changed.get(key)
            if constant is not None:
                self._use(constant)

    def origin(self, *nodes: ast.AST) -> Origin:
        """Where the value of some code comes from."""
        found = [self._origin_of(key) for node in nodes for key in self.loads(node)]
        return max(found, default=Origin.CONSTANT)

    def inside(self, node: ast.AST) -> "Names":
        """The names as code inside of some code sees them, with those of its loops and lambdas."""
        inner = Names(self._program_names, self.owner)
        inner._constants, inner._changed = self._constants, self._changed
        inner._origins = {**self._origins, **dict(self._bound_inside(node))}
        return inner

    def loads(self, node: ast.AST) -> Iterator[str]:
        """Names that code uses, without those that an expression binds itself."""
        bound = _bound_names(node) if isinstance(node, ast.expr) else set()
        owners = set()
        for part in ast.walk(node):
            key = self.key(part)
            if isinstance(part, ast.Attribute) and key is not None:
                owners.add(id(part.value))
                if not isinstance(part.ctx, ast.Store):
                    if key not in self._constants and key not in self._origins:
                        raise UnsplittableError("something else of the test")
                    yield key
            elif isinstance(part, ast.Name) and id(part) not in owners:
                if part.id == self.owner:
                    raise UnsplittableError("the test itself as a value")
                if not isinstance(part.ctx, ast.Store) and part.id not in bound:
                    yield part.id

    def _origin_of(self, key: str) -> Origin:
        if key in self._constants:
            return Origin.CONSTANT
        if key in self._origins:
            return self._origins[key]
        is_foreign = key in _BUILTINS or key in _MODULES
        return Origin.INERT if is_foreign and key not in self._program_names else Origin.PROGRAM

    def _use(self, constant: Constant) -> None:
        constant.line.is_used = True
        for need in constant.needs:
            self._use(need)
        if not _is_mutable(constant.value):
            return
        for name in constant.names:
            shared = self._constants.pop(name, None)
            if shared is not None:
                self._changed[name] = shared
                self._origins[name] = Origin.ARGUMENT

    def _bound_inside(self, node: ast.AST) -> Iterator[tuple[str, Origin]]:
        for part in ast.walk(node):
            if isinstance(part, ast.Lambda):
                yield from ((name.arg, Origin.INERT) for name in part.args.args)
            elif isinstance(part, ast.comprehension | ast.For):
                origin = max(self.origin(part.iter), Origin.INERT)
                for target in ast.walk(part.target):
                    if isinstance(target, ast.Name):
                        yield target.id, origin


def _is_mutable(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return any(map(_is_mutable, value))
    return isinstance(value, list | dict | set | bytearray)


def _bound_names(node: ast.AST) -> set[str]:
    bound = set()
    for part in ast.walk(node):
        if isinstance(part, ast.arg):
            bound.add(part.arg)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            bound.add(part.id)
    return bound
