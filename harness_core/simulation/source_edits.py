"""Edits of Python source at the places of syntax nodes, so that all other text stays as it is.

A program that was printed anew from its syntax tree would show by its quotes and blank lines that
it was tampered with; an edited one looks like any other.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Edit(NamedTuple):
    """Bytes `start` to `end` of the UTF-8 source become `text`."""

    start: int
    end: int
    text: str


class Span(NamedTuple):
    """Where a node stands in the UTF-8 source."""

    start: int
    end: int


class Source:
    """A program, its tree, and the place of each node."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.encoded = text.encode()
        self._line_starts = [0]
        for line in self.encoded.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt | ast.arg) -> Span:
        """Place of a node; brackets around an expression do not belong to it."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return Span(
            self._line_starts[node.lineno - 1] + node.col_offset,
            self._line_starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, span: Span) -> str:
        """The source at a place."""
        return self.encoded[span.start : span.end].decode()

    def between(self, left: ast.expr, right: ast.expr) -> Span:
        """What stands between two expressions: an operator, and brackets perhaps."""
        return Span(self.span(left).end, self.span(right).start)

    def functions(self) -> list[ast.FunctionDef]:
        """The functions of the module, in order."""
        return [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]

    def edited(self, edits: Iterable[Edit]) -> str:
        """The program with all edits made. They must not overlap."""
        result = self.encoded
        for edit in sorted(edits, reverse=True):
            result = result[: edit.start] + edit.text.encode() + result[edit.end :]
        return result.decode()


def walk_outside(
    nodes: Sequence[ast.AST], skipped: type[ast.AST] | tuple[type[ast.AST], ...]
) -> Iterator[ast.AST]:
    """All nodes below and including `nodes`, in source order, without going into `skipped` ones.

    Types in annotations are never visited: to change one changes no behaviour.
    """
    for node in nodes:
        if isinstance(node, skipped):
            continue
        yield node
        for name, value in ast.iter_fields(node):
            if name not in {"annotation", "returns"}:
                children = value if isinstance(value, list) else [value]
                syntax = [child for child in children if isinstance(child, ast.AST)]
                yield from walk_outside(syntax, skipped)
