"""Python assert statements in the text of logs: those a model wrote, those of a test program.

Texts are parsed, never run. A text that Python cannot parse holds no assertion.
"""

import ast
import builtins
import re
import warnings
from collections import Counter
from collections.abc import Container, Iterable
from typing import Final, TypeGuard

_ASSERT: Final = re.compile(r"^[ \t]*assert\b", re.MULTILINE)
_MAX_CHARS: Final = 2000
_BUILTINS: Final = frozenset(dir(builtins))


def model_written(
    texts: Iterable[str], entry_point: str, *, names: Container[str] = (), limit: int
) -> tuple[str, ...]:
    """Distinct asserts that call `entry_point`, most often written first, ties by text.

    Spacing, quotes and messages do not count: `assert f(1)==2, "two"` is `assert f(1) == 2`.
    Templates such as `assert f(x) == ___` are left out: besides builtins and what they bind
    themselves, asserts may use `names` only.
    """
    raw = Counter(part for text in texts for part in _conditions(text) if entry_point in part)
    counts: Counter[str] = Counter()
    for part, count in raw.items():
        statement = _normalised(part, entry_point, names)
        if statement is not None:
            counts[statement] += count
    ranked = sorted(counts, key=lambda statement: (-counts[statement], statement))
    return tuple(ranked[:limit])


def hidden_checks(program: str, entry_point: str) -> tuple[str, ...]:
    """The checks of a test program, one by one where they are plain asserts about `entry_point`.

    A program whose `check(candidate)` does more than that is one check, without what some programs
    end with: the call of `check`, or of a `test_check` that calls it.
    """
    tree = parse(program)
    if tree is None:
        return (program,)
    body = [node for node in tree.body if not _only_calls_check(node)]
    if len(body) == 1 and isinstance(body[0], ast.FunctionDef):
        asserts = [node for node in body[0].body if isinstance(node, ast.Assert)]
        names = {node.id for item in asserts for node in ast.walk(item) if _is_name(node)}
        if len(asserts) == len(body[0].body) and entry_point in names and "candidate" not in names:
            return tuple(ast.get_source_segment(program, node) or "" for node in asserts)
    if len(body) == len(tree.body):
        return (program,)
    lines = program.split("\n")
    end = body[-1].end_lineno if body else 0
    return ("\n".join(lines[:end]) + "\n",)


def called_by(checks: Iterable[str], entry_point: str) -> str:
    """The function that checks are about: `entry_point`, or what they call where it is not called.

    Builtins do not count, and neither does a name that only some of the checks call.
    """
    called = [
        {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        - _BUILTINS
        for tree in map(parse, checks)
        if tree is not None
    ]
    common = set.intersection(*called) if called else set()
    return entry_point if entry_point in common or len(common) != 1 else common.pop()


def top_level_names(program: str) -> frozenset[str]:
    """Names that a program defines or imports at its top level."""
    tree = parse(program)
    names: set[str] = set()
    for node in tree.body if tree else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return frozenset(names)


def parse(text: str) -> ast.Module | None:
    """The syntax tree of a text, None if Python cannot parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    # NUL bytes and huge integers are ValueErrors; deep nesting exhausts stack or memory.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _conditions(text: str) -> Iterable[str]:
    """What stands behind each `assert`, as far as one line; the text itself continues one."""
    for part in _ASSERT.split(text):
        line = part.strip().split("\n", 1)[0]
        if len(line) <= _MAX_CHARS:
            yield line


def _normalised(condition: str, entry_point: str, names: Container[str]) -> str | None:
    tree = parse(f"assert {condition}")
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Assert):
        return None
    test = tree.body[0].test
    nodes = list(ast.walk(test))
    if not any(_is_call_of(node, entry_point) for node in nodes):
        return None
    used = {node.id for node in nodes if _is_name(node) and isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in nodes if _is_name(node) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    if any(name not in names for name in used - bound - _BUILTINS - {entry_point}):
        return None
    try:
        return f"assert {ast.unparse(test)}"
    except (ValueError, RecursionError):
        return None


def _is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and _is_name(node.func) and node.func.id == name


def _only_calls_check(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef) and node.name == "test_check":
        return all(map(_only_calls_check, node.body))
    names = ("check", "test_check")
    return isinstance(node, ast.Expr) and any(_is_call_of(node.value, name) for name in names)


def _is_name(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)
