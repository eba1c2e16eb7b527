"""Which tests a test source holds: the methods of `unittest` classes, or one program of asserts.

Each test becomes one script, see `scripts`. A source of which any part cannot be written so stays
whole and runs in a box of its own, see `inside.testing`.
"""

import ast
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from harness_core.sandbox.folding import name_of, parse
from harness_core.sandbox.names import UnsplittableError
from harness_core.sandbox.scripts import ScriptWriter, SplitScript
from harness_core.sandbox.splitting import ALIAS, CHECK

_CASES: Final = frozenset({"TestCase", "unittest.TestCase"})
_SET_UP, _TEAR_DOWN = "setUp", "tearDown"
_MAX_TESTS: Final = 200


def split_source(source: str, entry_point: str | None) -> tuple[SplitScript, ...] | None:
    """The scripts of a test source; None if some part of it does more than a script can."""
    module = parse(source)
    if module is None:
        return None
    try:
        tests = list(itertools.islice(_tests(module.body, entry_point), _MAX_TESTS + 1))
        if len(tests) > _MAX_TESTS:
            return None
        scripts = tuple(test.script for test in tests)
    except (UnsplittableError, RecursionError):
        return None
    # A source that claims nothing tests nothing; what comes of it is for the other box to say.
    has_claims = any(script.claims for script in scripts)
    return scripts if has_claims and all(test.asks for test in tests) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    script: SplitScript
    asks: bool


def _tests(body: list[ast.stmt], entry_point: str | None) -> Iterator[_Test]:
    names = () if entry_point is None else (entry_point,)
    if entry_point is not None and ALIAS not in _bound_names(body):
        body = _renamed(body, ALIAS, entry_point)
    cases = [statement for statement in body if isinstance(statement, ast.ClassDef)]
    shared = [item for item in body if not isinstance(item, ast.ClassDef) and not _is_frame(item)]
    if not cases:
        yield _written(_asserted(shared, entry_point), names, owner=None)
    for case in map(_case, cases):
        for test in case.tests():
            yield _written([*shared, *test], names, owner=case.owner)


def _written(body: Iterable[ast.stmt], names: Iterable[str], *, owner: str | None) -> _Test:
    writer = ScriptWriter(names, owner)
    writer.add(body)
    return _Test(script=writer.finish(), asks=writer.asks)


def _asserted(body: list[ast.stmt], entry_point: str | None) -> Iterator[ast.stmt]:
    """The statements of an assert program, with those of `check(candidate)` in its place."""
    check: ast.FunctionDef | None = None
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name, args=ast.arguments(args=[_]), decorator_list=[]) if (
                name == CHECK and entry_point and check is None
            ):
                check = statement
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[ast.Name(id=argument)])) if (
                name == CHECK and argument == entry_point
            ):
                pass
            case _:
                yield statement
    if check is not None and entry_point is not None:
        parameter = check.args.args[0].arg
        if parameter in _bound_names(check.body):
            raise UnsplittableError("another candidate")
        yield from _renamed(check.body, parameter, entry_point)


@dataclass(slots=True)
class _Case:
    """A class of tests."""

    owner: str | None = None
    """What its methods call the test itself."""
    methods: dict[str, list[ast.stmt]] = field(default_factory=dict)
    constants: list[ast.stmt] = field(default_factory=list)

    def add(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.FunctionDef(name=name, decorator_list=[], args=arguments) if _is_test(
                name
            ) or name in {_SET_UP, _TEAR_DOWN}:
                owner = _only_parameter(arguments)
                if self.owner not in {None, owner}:
                    raise UnsplittableError("two names for the test itself")
                self.owner = owner
                self.methods[name] = statement.body
            case _:
                raise UnsplittableError("a member of a test class that is no test")

    def tests(self) -> Iterator[list[ast.stmt]]:
        """What each test runs, in the order of unittest."""
        before, after = self.methods.get(_SET_UP, []), self.methods.get(_TEAR_DOWN, [])
        for name in sorted(filter(_is_test, self.methods)):
            yield [*before, *self.methods[name], *after]


def _case(node: ast.ClassDef) -> _Case:
    bases = [name_of(base) for base in node.bases]
    if len(bases) != 1 or bases[0] not in _CASES or node.keywords or node.decorator_list:
        raise UnsplittableError("a class that is no plain test case")
    case = _Case()
    for statement in node.body:
        case.add(statement)
    return case


def _is_test(name: str) -> bool:
    return name.startswith("test")


def _is_frame(statement: ast.stmt) -> bool:
    """Whether a statement only makes a test source runnable: it says nothing of the program."""
    match statement:
        case ast.Import(names=[ast.alias(name="unittest", asname=None)]):
            return True
        case ast.ImportFrom(module="unittest", names=[ast.alias(name="TestCase", asname=None)]):
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Assign(targets=[ast.Name(id="METADATA")]):
            return True
        case ast.Expr(value=ast.Call(func=function)):
            return name_of(function) == "unittest.main"
    return False


def _only_parameter(arguments: ast.arguments) -> str:
    if len(arguments.args) != 1 or arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        raise UnsplittableError("a test with parameters")
    return arguments.args[0].arg


def _bound_names(body: Iterable[ast.stmt]) -> set[str]:
    nodes = [node for statement in body for node in ast.walk(statement)]
    return {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }


class _Rename(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new

    def visit_Name(self, node: ast.Name) -> ast.Name:  # the name ast calls
        return ast.Name(id=self._new, ctx=node.ctx) if node.id == self._old else node


def _renamed(body: Iterable[ast.stmt], old: str, new: str) -> list[ast.stmt]:
    rename = _Rename(old, new)
    renamed = [rename.visit(statement) for statement in body]
    assert all(isinstance(statement, ast.stmt) for statement in renamed)
    return renamed
