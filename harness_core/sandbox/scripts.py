"""Tests with set-up statements, written anew as scripts that observe instead of asserting.

    account = Account(10)                      account = Account(10)
    account.add(4)                      ->     account.add(4)
    assert account.balance == 14               _observe_(account.balance)      claim: `#0 == 14`

A script is a function that runs beside the program, in its process. Each observed value is written
down at that moment, so that nothing that happens later changes it. What the test expects never
enters the box: constants that only claims use are left out, and whatever would judge the program
in there is refused.
"""

import ast
import itertools
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from harness_core.sandbox.admission import BANNED, admit
from harness_core.sandbox.claims import UnknownAssertionError, claim_of, observation, raising
from harness_core.sandbox.folding import NotConstantError, fold, name_of
from harness_core.sandbox.inside.scripting import OBSERVE, PRESENCE, RAISED, SCRIPT, SIZE
from harness_core.sandbox.names import Line, Names, Origin, UnsplittableError
from harness_core.sandbox.observing import ClaimReader

_MAX_STATEMENTS: Final = 2000
_MAX_OBSERVED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitScript:
    """One test: a script for the box, and claims on what it observes for the grader."""

    source: str
    claims: tuple[ast.expr, ...]
    idle: tuple[Any, ...]
    """What would be observed if the program did nothing and returned nothing."""


class ScriptWriter:
    """Writes one script, statement by statement in the order of the test."""

    def __init__(self, program_names: Iterable[str], owner: str | None = None) -> None:
        self._names = Names(program_names, owner)
        self._owner = owner
        self._lines: list[Line] = []
        self._claims: list[ast.expr] = []
        self._idle: list[Any] = []
        self._n_statements = 0
        self.asks = False
        """Whether the script uses the program at all."""

    def add(self, body: Iterable[ast.stmt]) -> None:
        """Add statements of a test.

        Raises:
            UnsplittableError: one of them cannot be written in a script.
        """
        for statement in body:
            self._n_statements += 1
            if self._n_statements > _MAX_STATEMENTS:
                raise UnsplittableError("too long")
            if _asserts(statement, self._owner):
                self._add_assertion(statement)
            else:
                self._add_set_up(statement)

    def finish(self) -> SplitScript:
        """The script."""
        parameters = (self._owner or "self", OBSERVE, PRESENCE, SIZE, RAISED)
        function = ast.parse(f"def {SCRIPT}({', '.join(parameters)}): pass")
        assert isinstance(function.body[0], ast.FunctionDef)
        function.body[0].body = _rendered(self._lines) or [ast.Pass()]
        return SplitScript(
            source=ast.unparse(ast.fix_missing_locations(function)),
            claims=tuple(self._claims),
            idle=tuple(self._idle),
        )

    def _add_assertion(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assert(test=test):
                self._claim(test)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name)) as call):
                self._assertion(name, call)
            case ast.With():
                self._with(statement)
            case ast.For():
                self._unroll(statement)
            case ast.If():
                self._choose(statement)
            case _:
                raise UnsplittableError(f"assertions inside of {type(statement).__name__}")

    def _add_set_up(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Import() | ast.ImportFrom():
                self._import(statement)
            case ast.With():
                self._with(statement)
            case ast.Assign(targets=[target], value=value):
                self._assign(statement, target, value)
            case ast.AnnAssign(target=target, value=value, simple=1) if value is not None:
                self._assign(ast.Assign(targets=[target], value=value), target, value)
            case ast.AugAssign():
                self._change(statement)
            case _:
                self._emit(statement)

    # Set-up

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        line = Line(statement)
        self._lines.append(line)
        source = statement.module if isinstance(statement, ast.ImportFrom) else None
        for alias in statement.names:
            module = (source or alias.name).partition(".")[0]
            name = (alias.asname or alias.name).partition(".")[0]
            if module not in sys.stdlib_module_names or name == "*":
                raise UnsplittableError(f"module {module}")
            if module in BANNED and name not in BANNED:
                raise UnsplittableError(f"{name} for a part of {module}")
            self._names.bind_import(name, line)

    def _assign(self, statement: ast.Assign, target: ast.expr, value: ast.expr) -> None:
        key = self._names.key(target)
        try:
            known = fold(value, self._names.known())
        except NotConstantError:
            self._emit(statement)
            return
        if key is None:
            self._emit(statement)
            return
        line = Line(statement)
        self._lines.append(line)
        self._names.bind(key, known, line, value)

    def _change(self, statement: ast.AugAssign) -> None:
        target = statement.target
        key = self._names.key(target)
        if key is not None:
            # The old value is read as well, which the target alone does not show.
            before = ast.parse(key, mode="eval").body
            if self._names.is_constant(key):
                after = ast.BinOp(before, statement.op, statement.value)
                self._assign(ast.Assign(targets=[target], value=after), target, after)
                return
            admit(before, self._names)
        self._emit(statement)

    def _emit(self, statement: ast.stmt) -> None:
        self._names.store(statement, self._admit(statement))
        self._lines.append(Line(statement, is_used=True))

    def _admit(self, node: ast.stmt | ast.expr) -> Origin:
        origin = admit(node, self._names)
        self.asks = self.asks or origin is Origin.PROGRAM
        return origin

    # Blocks

    def _with(self, statement: ast.With) -> None:
        first = statement.items[0]
        if isinstance(first.context_expr, ast.Call) and len(statement.items) == 1:
            key = self._names.key(first.context_expr.func)
            if key == f"{self._owner}.subTest":
                self.add(statement.body)
                return
            if key == f"{self._owner}.assertRaises" and len(first.context_expr.args) == 1:
                self._raises(first.context_expr.args[0], statement.body, first.optional_vars)
                return
        for item in statement.items:
            origin = self._admit(item.context_expr)
            if item.optional_vars is not None:
                self._names.store(item.optional_vars, origin)
        self._nest(ast.With(items=statement.items, body=[]), statement.body)

    def _raises(
        self, kinds: ast.expr, body: Sequence[ast.stmt], name: ast.expr | None = None
    ) -> None:
        if any(_asserts(statement, self._owner) for statement in body):
            raise UnsplittableError("assertions that may not be reached")
        if name is not None:
            self._names.store(name, Origin.PROGRAM)
        item = ast.withitem(context_expr=_call(RAISED), optional_vars=name)
        self._nest(ast.With(items=[item], body=[]), body)
        seen = observation(self._number(None))
        self._claims.append(raising(_class_names(kinds), seen))

    def _nest(self, statement: ast.With, body: Sequence[ast.stmt]) -> None:
        outer, self._lines = self._lines, []
        self.add(body)
        inner, self._lines = self._lines, outer
        self._lines.append(Line(statement, is_used=True, body=inner))

    def _unroll(self, statement: ast.For) -> None:
        if statement.orelse or _leaves_loop(statement):
            raise UnsplittableError("a loop that may end early")
        for item in self._items(statement.iter):
            for target, value in _unpacked(statement.target, item):
                key = self._names.key(target)
                if key is None:
                    raise UnsplittableError("a loop variable that is no name")
                line = Line(ast.Assign(targets=[target], value=_literal(value)))
                self._lines.append(line)
                self._names.bind(key, value, line)
            self.add(statement.body)

    def _items(self, node: ast.expr) -> list[Any]:
        """What a loop runs over, if the test says so."""
        known = self._names.known()
        try:
            match node:
                case ast.Call(func=ast.Name(id="zip"), args=parts, keywords=[]):
                    items: Any = zip(*(fold(part, known) for part in parts), strict=False)
                case ast.Call(func=ast.Name(id="enumerate"), args=[part], keywords=[]):
                    items = enumerate(fold(part, known))
                case ast.Call(func=ast.Attribute(value=part, attr="items"), args=[], keywords=[]):
                    items = fold(part, known).items()
                case _:
                    items = fold(node, known)
            if isinstance(items, set | frozenset):
                raise UnsplittableError("a loop in no order")
            return list(itertools.islice(items, _MAX_STATEMENTS))
        except (NotConstantError, TypeError, AttributeError) as error:
            raise UnsplittableError("a loop over what is no constant") from error

    def _choose(self, statement: ast.If) -> None:
        try:
            is_true = bool(fold(statement.test, self._names.known()))
        except NotConstantError as error:
            raise UnsplittableError("a condition on what is no constant") from error
        self.add(statement.body if is_true else statement.orelse)

    # Claims

    def _assertion(self, name: str, call: ast.Call) -> None:
        if name == "assertRaises" and len(call.args) > 1:
            kinds, function, *arguments = call.args
            inner = ast.Call(func=function, args=arguments, keywords=call.keywords)
            self._raises(kinds, [ast.Expr(value=inner)])
            return
        try:
            self._claim(claim_of(name, call))
        except UnknownAssertionError as error:
            raise UnsplittableError(name) from error

    def _claim(self, test: ast.expr) -> None:
        parts = test.values if _is_conjunction(test) else [test]
        for part in parts:
            if _is_conjunction(part):
                self._claim(part)
                continue
            claim = ClaimReader(self._names, self._observe).read(part)
            if claim is not None:
                self._claims.append(claim)

    def _observe(self, mode: str, node: ast.expr) -> int:
        number = self._number(self._names.before(node))
        self._admit(node)
        self._lines.append(Line(ast.Expr(value=_call(mode, node)), is_used=True))
        return number

    def _number(self, idle: Any) -> int:
        if len(self._idle) >= _MAX_OBSERVED:
            raise UnsplittableError("too many observations")
        self._idle.append(idle)
        return len(self._idle) - 1


def _rendered(lines: Iterable[Line]) -> list[ast.stmt]:
    written: list[ast.stmt] = []
    for line in lines:
        if not line.is_used:
            continue
        if isinstance(line.statement, ast.With) and line.body is not None:
            line.statement.body = _rendered(line.body) or [ast.Pass()]
        written.append(line.statement)
    return written


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[*arguments], keywords=[])


def _is_conjunction(test: ast.expr) -> TypeGuard[ast.BoolOp]:
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)


def _asserts(statement: ast.stmt, owner: str | None) -> bool:
    return any(
        isinstance(node, ast.Assert) or _is_assertion(node, owner) for node in ast.walk(statement)
    )


def _is_assertion(node: ast.AST, owner: str | None) -> bool:
    if not isinstance(node, ast.Attribute) or not node.attr.startswith("assert"):
        return False
    return owner is not None and name_of(node) == f"{owner}.{node.attr}"


def _leaves_loop(statement: ast.For) -> bool:
    return any(isinstance(node, ast.Break | ast.Continue) for node in ast.walk(statement))


def _class_names(kinds: ast.expr) -> list[str]:
    match kinds:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name]
        case ast.Tuple(elts=several):
            return [name for kind in several for name in _class_names(kind)]
    raise UnsplittableError("a computed class of exceptions")


def _unpacked(target: ast.expr, value: Any) -> list[tuple[ast.expr, Any]]:
    if not isinstance(target, ast.Tuple | ast.List):
        return [(target, value)]
    if not isinstance(value, tuple | list | str) or len(value) != len(target.elts):
        raise UnsplittableError("a loop that does not unpack")
    pairs = zip(target.elts, value, strict=True)
    return [found for part, item in pairs for found in _unpacked(part, item)]


def _literal(value: Any) -> ast.expr:
    written = ast.parse(repr(value), mode="eval").body
    try:
        if fold(written) == value:
            return written
    except NotConstantError:
        pass
    raise UnsplittableError("a value that is not written like itself")
