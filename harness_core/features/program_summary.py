"""What a Python program looks like: counts over its syntax tree, never what it does.

Parsing is guarded: a program too long, too deep or broken gives `parses` 0 and zeros, not an
error. Counts come as log(1 + n), so that a long program is not a thousand times another one.
"""

import ast
import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
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
_MAX_KEPT: Final = 128
"""Tasks whose checks are looked through once: their candidates share them."""
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
_STATEMENTS: Final = frozenset(
    kind for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, ast.stmt)
)
_COUNTER_OF: Final = {node: name for name, nodes in _COUNTED.items() for node in nodes}
_STUB_WORDS: Final = ("todo", "fixme")
_STUB_PHRASES: Final = ("notimplementederror", "your code here", "write your")
_STUB_MARK: Final = re.compile(
    rf"\b(?:{'|'.join(_STUB_WORDS)})\b|{'|'.join(_STUB_PHRASES)}", re.IGNORECASE
)
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_TRIVIAL_NUMBERS: Final = frozenset({"0", "1", "2"})


def program_summary(
    text: str, *, entry_point: str | None = None, visible_checks: tuple[str, ...] = ()
) -> dict[str, float]:
    """The summary of a program by name, every name of `PROGRAM_NAMES` present."""
    summary = dict.fromkeys(PROGRAM_NAMES, 0.0)
    summary["n_stub_marks"] = _log(_n_stub_marks(text[:_MAX_CHARS]))
    summary["literals_of_checks"] = _shared_literals(text[:_MAX_CHARS], visible_checks)
    tree = _parse(text)
    if tree is None:
        return summary
    walk = _walk(tree)
    by_type = Counter(map(type, walk.nodes))
    for kind, count in by_type.items():
        if (name := _COUNTER_OF.get(kind)) is not None:
            summary[name] += count
    for name in _COUNTED:
        summary[name] = _log(int(summary[name]))
    summary.update(
        parses=1.0,
        n_lines=_log(_n_statements(by_type)),
        n_nodes=_log(len(walk.nodes)),
        depth=_log(max(walk.depths)),
        n_names=_log(len({node.id for node in walk.nodes if type(node) is ast.Name})),
        n_prints=_log(_n_calls_of(walk.nodes, "print")),
    )
    summary.update(_entry(walk, entry_point))
    return summary


class _Walk(NamedTuple):
    """Nodes in depth-first order, so that what is below a node follows it without a gap."""

    nodes: list[ast.AST]
    depths: list[int]

    def below(self, place: int) -> list[ast.AST]:
        """A node and all below it."""
        end = place + 1
        while end < len(self.nodes) and self.depths[end] > self.depths[place]:
            end += 1
        return self.nodes[place:end]


def _parse(text: str) -> ast.Module | None:
    return parse(text) if text.strip() and len(text) <= _MAX_CHARS else None


def _walk(tree: ast.AST) -> _Walk:
    """All nodes with their depths, without recursion, at most `_MAX_NODES`.

    Candidates are summarised while an agent waits, and this is most of it: hence no generator and
    no pair a node.
    """
    nodes: list[ast.AST] = []
    depths: list[int] = []
    stack, waiting = [tree], [0]
    while stack and len(nodes) < _MAX_NODES:
        node, depth = stack.pop(), waiting.pop()
        nodes.append(node)
        depths.append(depth)
        if type(node) is ast.Constant:
            continue  # holds no node
        if type(node) is ast.Name:  # as below, but every third node is one
            stack.append(node.ctx)
            waiting.append(depth + 1)
            continue
        for name in node._fields:
            value = getattr(node, name, None)
            if type(value) is list:
                for child in value:
                    if isinstance(child, ast.AST):
                        stack.append(child)
                        waiting.append(depth + 1)
            elif isinstance(value, ast.AST):
                stack.append(value)
                waiting.append(depth + 1)
    return _Walk(nodes, depths)


def _n_stub_marks(text: str) -> int:
    lowered = text.lower()
    # Most programs have none, and looking for words is faster than the pattern.
    if text.isascii() and not any(mark in lowered for mark in (*_STUB_WORDS, *_STUB_PHRASES)):
        return 0
    return len(_STUB_MARK.findall(text))


def _n_statements(by_type: Mapping[type[ast.AST], int]) -> int:
    return sum(count for kind, count in by_type.items() if kind in _STATEMENTS)


def _n_calls_of(nodes: list[ast.AST], name: str) -> int:
    return sum(type(node) is ast.Call and _is_call_of(node, name) for node in nodes)


def _entry(walk: _Walk, entry_point: str | None) -> dict[str, float]:
    """What is said of the function that the checks call, or else of the last one."""
    functions = [
        (place, node)
        for place, node in enumerate(walk.nodes)
        if type(node) is ast.FunctionDef or type(node) is ast.AsyncFunctionDef
    ]
    named = [item for item in functions if item[1].name == entry_point]
    chosen = named or ([] if entry_point else functions)
    if not chosen:
        return {}
    place, function = chosen[-1]
    body = _without_docstring(function.body)
    inside = walk.below(place)
    returns = [node.value for node in inside if type(node) is ast.Return and node.value]
    arguments = {item.arg for item in _walk(function.args).nodes if type(item) is ast.arg}
    used = {node.id for node in inside if type(node) is ast.Name}
    return {
        "has_docstring": float(len(body) < len(function.body)),
        "has_entry_point": float(bool(named)),
        "entry_statements": _log(_n_statements(Counter(map(type, inside)))),
        "entry_is_stub": float(all(_is_stub(statement) for statement in body)),
        "entry_returns_value": float(bool(returns)),
        "entry_returns_constant": float(
            bool(returns) and all(isinstance(value, ast.Constant) for value in returns)
        ),
        "entry_is_recursive": float(_n_calls_of(inside, function.name) > 0),
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
    telling = _telling_numbers(checks)
    return _log(len(telling.intersection(_NUMBER.findall(text)))) if telling else 0.0


@lru_cache(maxsize=_MAX_KEPT)
def _telling_numbers(checks: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_NUMBER.findall("\n".join(checks))) - _TRIVIAL_NUMBERS


def _log(count: int) -> float:
    return math.log1p(count)
