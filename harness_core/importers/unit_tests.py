"""The single tests of a unittest source, and the examples of docstrings, as checks.

Texts are parsed, never run. Each check stands for itself: it brings the imports and fixtures that
it needs, so that one verdict a test can be given.
"""

import ast
import builtins
import doctest
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeGuard

from harness_core.importers.assertions import parse

_TEST: Final = "test"
"""What names of test methods begin with, as unittest finds them."""
_MAX_CHARS: Final = 4000
_BUILTINS: Final = frozenset(dir(builtins))


def single_tests(source: str, imports: Sequence[str]) -> tuple[str, ...]:
    """One unittest source a test method, with the fixtures of its class.

    `imports` are statements of the program under test; those that bind a name which the test uses
    and nobody else binds come along. A source that is not made of test cases is one check.
    """
    tree = parse(source)
    if tree is None or not any(map(_is_case, tree.body)):
        return (source,)
    shared = [node for node in tree.body if not _is_case(node) and not _is_script(node)]
    return tuple(
        _unparsed([*_needed(imports, [*shared, case]), *shared, case])
        for whole in tree.body
        if isinstance(whole, ast.ClassDef) and _is_case(whole)
        for case in _single(whole)
    )


def doctest_checks(
    source: str, class_name: str, imports: Sequence[str], *, limit: int
) -> tuple[str, ...]:
    """Examples of docstrings whose outcome is a literal, as asserts behind what precedes them.

    Examples that print, raise or lead to an object assert nothing and are set-up only. Examples
    that use a name which nobody binds, as many prompts do, are left out.
    """
    tree = parse(source)
    found: dict[str, None] = {}
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for body in _examples(ast.get_docstring(node) or ""):
                whole = [*_needed(imports, body), *body]
                if class_name in (free := _free_names(whole)) and free <= {class_name, *_BUILTINS}:
                    found[_unparsed(whole)] = None
    return tuple(check for check in found if len(check) <= _MAX_CHARS)[:limit]


def imported_modules(statements: Iterable[str]) -> frozenset[str]:
    """Top-level modules that some statements import."""
    nodes = [node for text in statements for node in ast.walk(parse(text) or ast.Module([], []))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return frozenset(name.partition(".")[0] for name in names)


def _is_case(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        ast.unparse(base) in {"TestCase", "unittest.TestCase"} for base in node.bases
    )


def _is_script(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _single(case: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """The class once a test method, with that method only; a later one of a name replaces."""
    methods = {node.name: node for node in case.body if _is_test(node)}
    fixtures = [node for node in case.body if not _is_test(node)]
    for method in methods.values():
        yield ast.ClassDef(**dict(ast.iter_fields(case)) | {"body": [*fixtures, method]})


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and node.name.startswith(_TEST)


def _needed(imports: Sequence[str], body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Import statements that bind a name which the body uses and does not bind itself."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    missing = used - {_bound_by(node) for node in nodes if isinstance(node, ast.alias)}
    return [
        statement
        for text in imports
        for statement in (parse(text) or ast.Module([], [])).body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        and missing.intersection(map(_bound_by, statement.names))
    ]


def _bound_by(alias: ast.alias) -> str:
    return (alias.asname or alias.name).partition(".")[0]


def _examples(docstring: str) -> Iterator[list[ast.stmt]]:
    """For each example with a literal outcome: the statements before it, and the assert."""
    try:
        examples = doctest.DocTestParser().get_examples(docstring)
    except ValueError:  # prompts that are not aligned
        return
    before: list[ast.stmt] = []
    for example in examples:
        tree = parse(example.source)
        if tree is None:
            return
        check = _as_assert(tree, example.want)
        if check is not None:
            yield [*before, check]
        before += tree.body


def _free_names(body: Sequence[ast.stmt]) -> set[str]:
    nodes = [node for statement in body for node in ast.walk(statement)]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound |= {_bound_by(node) for node in nodes if isinstance(node, ast.alias)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return {node.id for node in names} - bound


def _unparsed(body: Sequence[ast.stmt]) -> str:
    return ast.unparse(ast.Module([*body], []))


def _as_assert(tree: ast.Module, want: str) -> ast.Assert | None:
    match tree.body:
        case [ast.Expr(value=ast.Call(func=ast.Name(id="print")))]:
            return None  # what it prints looks like a literal
        case [ast.Expr(value=value)] if (wanted := _literal(want)) is not None:
            sign = ast.Is() if _is_singleton(wanted) else ast.Eq()
            return ast.Assert(test=ast.Compare(left=value, ops=[sign], comparators=[wanted]))
    return None


def _literal(text: str) -> ast.expr | None:
    tree = parse(text.strip())
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        return None
    try:
        ast.literal_eval(tree.body[0].value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return tree.body[0].value


def _is_singleton(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))
