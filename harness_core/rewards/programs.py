"""What a Python program earns for its form and for visible tests: syntax, length, tests passed.

Facts are read off the syntax tree, never off the layout: comments, docstrings, blank lines and
`;` change nothing.
"""

import ast
import math
from functools import lru_cache
from typing import NamedTuple

from harness_core.rewards.python_source import parse_program
from harness_core.sandbox.result import Verdict


class ProcessTerms(NamedTuple):
    """Components of a program that the gate holds back; None where one does not apply."""

    syntax: float | None
    excess_lines: float | None
    style: float | None


def has_valid_syntax(program: str) -> bool:
    """Whether a program parses."""
    return parse_program(program) is not None


def logical_lines(program: str) -> int | None:
    """Number of statements, None when the program does not parse.

    Statements on one line count one by one, as do assignments inside expressions and the
    statements of a literal handed to `exec` or `eval`. Docstrings count nothing.
    """
    return _logical_lines(program)


@lru_cache(maxsize=4096)
def _logical_lines(program: str, *, depth: int = 0) -> int | None:
    tree = parse_program(program)
    if tree is None:
        return None
    return sum(_lines_of(node, depth) for node in ast.walk(tree))


def _lines_of(node: ast.AST, depth: int) -> int:
    if isinstance(node, ast.Expr) and _is_text(node.value):
        return 0
    if isinstance(node, ast.stmt | ast.NamedExpr):
        return 1
    if isinstance(node, ast.Call) and depth == 0:
        return _hidden_lines(node)
    return 0


def _hidden_lines(call: ast.Call) -> int:
    """Statements inside a literal program; the call's own statement stands for the first."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in {"exec", "eval", "compile"} or not call.args:
        return 0
    text = _constant_text(call.args[0])
    return max(0, (_logical_lines(text, depth=1) or 0) - 1)


def _constant_text(node: ast.expr) -> str:
    """The text that an expression of constants is: a literal, a sum of texts, a join of lines."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _constant_text(left) + _constant_text(right)
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str() as glue), attr="join"),
            args=[ast.List(elts=parts) | ast.Tuple(elts=parts)],
        ):
            return glue.join(map(_constant_text, parts))
    return ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def excess_lines(
    program: str, reference: str | None, *, length_slack: float, limit: float = math.inf
) -> float | None:
    """Logical lines above `length_slack` times those of the reference, at most `limit`.

    None without either of the two programs.
    """
    allowed = None if reference is None else logical_lines(reference)
    found = logical_lines(program)
    if allowed is None or found is None:
        return None
    return min(limit, max(0.0, found - length_slack * allowed))


def visible_tests(verdict: Verdict | None, *, is_foul: bool) -> float | None:
    """Number of visible tests passed that say something of the program.

    A test that a program doing nothing passes too counts nothing. Foul play (a table of the
    visible cases, input that is never read, tampering) earns 0. None where no test that says
    something can be run.
    """
    if verdict is None or not verdict.n_telling:
        return None
    return 0.0 if is_foul else float(verdict.n_telling_passed)


def gate_is_open(visible: float | None, *, solved: bool | None) -> bool | None:
    """Whether the form of a program may pay: one visible test counts, or, without any, all hidden.

    None when neither was run: then the form pays nothing and says nothing.
    """
    return solved if visible is None else visible > 0


def gated(terms: ProcessTerms, *, is_open: bool | None) -> ProcessTerms:
    """What the form of a program pays behind the gate: itself, 0 behind a shut gate, or null."""
    if is_open is None:
        return ProcessTerms(None, None, None)
    return ProcessTerms(
        *(None if value is None else value * float(is_open) for value in terms),
    )
