"""What a Python program looks like: counts over its syntax tree, never what it does.

Parsing is guarded: a program too long, too deep or broken gives `parses` 0 and zeros, not an
error. Counts come as log(1 + n), so that a long program is not a thousand times another one.
"""

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from harness_core.sandbox.folding import parse

PROGRAM_NAMES: Final[tuple[str, ...]] = (
    "parses",
    "n_lines",
    "n_nodes",
    "depth",
    "n_functions",
    "n_classes",
    "n_loops",
    "n_ifs",
    "n_comprehensions",
    "n_returns",
    "n_tries",
    "n_asserts",
    "n_imports",
    "n_calls",
    "n_names",
    "n_lambdas",
    "n_subscripts",
    "n_comparisons",
    "n_arithmetic",
    "n_boolean",
    "n_constants",
    "n_raises",
    "n_prints",
    "has_docstring",
    "has_entry_point",
    "entry_statements",
    "entry_is_stub",
    "entry_returns_value",
    "entry_returns_constant",
    "entry_is_recursive",
    "unused_arguments",
    "n_stub_marks",
    "literals_of_checks",
)
"""Names of the columns of `program_summary`, in order."""

_MAX_CHARS: Final = 50_000
_MAX_NODES: Final = 50_000
_COUNTED: Final[Mapping[str, tuple[type[ast.AST], ...]]] = {
    "n_functions": (ast.FunctionDef, ast.AsyncFunctionDef),
    "n_classes": (ast.ClassDef,),
    "n_loops": (ast.For, ast.AsyncFor, ast.While),
    "n_ifs": (ast.If, ast.IfExp),
    "n_comprehensions": (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    "n_returns": (ast.Return, ast.Yield, ast.YieldFrom),
    "n_tries": (ast.Try,),
    "n_asserts": (ast.Assert,),
    "n_imports": (ast.Import, ast.ImportFrom),
    "n_calls": (ast.Call,),
    "n_lambdas": (ast.Lambda,),
    "n_subscripts": (ast.Subscript,),
    "n_comparisons": (ast.Compare,),
    "n_arithmetic": (ast.BinOp, ast.AugAssign, ast.UnaryOp),
    "n_boolean": (ast.BoolOp,),
    "n_constants": (ast.Constant,),
    "n_raises": (ast.Raise,),
}
_COUNTER_OF: Final = {node: name for name, nodes in _COUNTED.items() for node in nodes}
_STUB_MARK: Final = re.compile(
    r"\bTODO\b|\bFIXME\b|NotImplementedError|your code here|write your", re.IGNORECASE
)
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_TRIVIAL_NUMBERS: Final = frozenset({"0", "1", "2"})

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def program_summary(
    text: str, *, entry_point: str | None = None, visible_checks: tuple[str, ...] = ()
) -> dict[str, float]:
    """The summary of a program by name, every name of `PROGRAM_NAMES` present."""
    summary = dict.fromkeys(PROGRAM_NAMES, 0.0)
    summary["n_stub_marks"] = _log(len(_STUB_MARK.findall(text[:_MAX_CHARS])))
    summary["literals_of_checks"] = _shared_literals(text[:_MAX_CHARS], visible_checks)
    tree = _parse(text)
    if tree is None:
        return summary
    nodes = list(_nodes(tree))
    counts = Counter(name for node, _ in nodes if (name := _COUNTER_OF.get(type(node))))
    names = {node.id for node, _ in nodes if isinstance(node, ast.Name)}
    summary.update({name: _log(counts[name]) for name in _COUNTED})
    summary.update(
        parses=1.0,
        n_lines=_log(_n_logical_lines(nodes)),
        n_nodes=_log(len(nodes)),
        depth=_log(max(depth for _, depth in nodes)),
        n_names=_log(len(names)),
        n_prints=_log(sum(_is_call_of(node, "print") for node, _ in nodes)),
    )
    functions = [
        node for node, _ in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    summary.update(_entry(functions, entry_point))
    return summary


class _Node(NamedTuple):
    node: ast.AST
    depth: int


def _parse(text: str) -> ast.Module | None:
    return parse(text) if text.strip() and len(text) <= _MAX_CHARS else None


def _nodes(tree: ast.AST) -> Iterator[_Node]:
    """Nodes with their depth, without recursion, at most `_MAX_NODES`."""
    stack = [_Node(tree, 0)]
    for _ in range(_MAX_NODES):
        if not stack:
            return
        item = stack.pop()
        yield item
        stack.extend(_Node(child, item.depth + 1) for child in ast.iter_child_nodes(item.node))


def _n_logical_lines(nodes: list[_Node]) -> int:
    return sum(isinstance(node, ast.stmt) for node, _ in nodes)


def _entry(functions: list[_Function], entry_point: str | None) -> dict[str, float]:
    """What is said of the function that the checks call, or else of the last one."""
    named = [function for function in functions if function.name == entry_point]
    chosen = named or ([] if entry_point else functions)
    if not chosen:
        return {}
    function = chosen[-1]
    body = _without_docstring(function.body)
    inside = [node for node, _ in _nodes(function)]
    returns = [node.value for node in inside if isinstance(node, ast.Return) and node.value]
    arguments = {item.arg for item in ast.walk(function.args) if isinstance(item, ast.arg)}
    used = {node.id for node in inside if isinstance(node, ast.Name)}
    return {
        "has_docstring": float(len(body) < len(function.body)),
        "has_entry_point": float(bool(named)),
        "entry_statements": _log(sum(isinstance(node, ast.stmt) for node in inside)),
        "entry_is_stub": float(all(_is_stub(statement) for statement in body)),
        "entry_returns_value": float(bool(returns)),
        "entry_returns_constant": float(
            bool(returns) and all(isinstance(value, ast.Constant) for value in returns)
        ),
        "entry_is_recursive": float(any(_is_call_of(node, function.name) for node in inside)),
        "unused_arguments": _log(len(arguments - used - {"self", "cls"})),
    }


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    return body[1:] if body and _is_text(body[0]) else body


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _is_stub(statement: ast.stmt) -> bool:
    """`pass`, `...` and the like."""
    is_ellipsis = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_ellipsis or isinstance(statement, ast.Pass | ast.Raise)


def _is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _shared_literals(text: str, checks: tuple[str, ...]) -> float:
    """How many telling numbers of the program stand in the visible checks: hard-coded answers."""
    shared = set(_NUMBER.findall(text)) & set(_NUMBER.findall("\n".join(checks)))
    return _log(len(shared - _TRIVIAL_NUMBERS))


def _log(count: int) -> float:
    return math.log1p(count)
