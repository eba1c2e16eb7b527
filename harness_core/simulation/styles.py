"""Other ways to write the same program: right ones stay right, wrong ones stay wrong.

Correct answers are thus not all the same text, and neither length, names nor style give away which
answers are correct.
"""

import ast
import random
from typing import Final

from harness_core.simulation.source_edits import Edit, Source, walk_outside

_NAMES: Final = (
    *("acc", "answer", "box", "buf", "cur", "data", "entry", "item", "key_", "last_one", "mark"),
    *("memo", "n1", "n2", "part_", "pos", "res", "state", "temp", "thing", "tmp", "todo", "val"),
)
_COMMENTS: Final = (
    "Go through everything step by step.",
    "This keeps track of what was seen so far.",
    "First get the values ready.",
    "Now the main part of the work.",
    "Be careful with the ends here.",
    "Handle the usual case.",
)
_UNUSED_IMPORTS: Final = ("import os, sys", "import math, re", "from collections import *")


def rename_variables(program: str, *, rng: random.Random) -> str:
    """Give local variables other names. Parameters keep theirs, since callers may use them."""
    source = Source(program)
    local = _local_names(source.tree)
    free = [name for name in _NAMES if name not in program]
    chosen = rng.sample(free, min(len(free), len(local)))
    renamed = dict(zip(local, chosen, strict=False))
    return source.edited(
        Edit(*source.span(node), renamed[node.id])
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Name) and node.id in renamed
    )


def _local_names(tree: ast.Module) -> list[str]:
    nodes = list(ast.walk(tree))
    stored = [
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    parameters = {node.arg for node in nodes if isinstance(node, ast.arg)}
    # Python 3.11 gives names inside an f-string wrong places, so they cannot be edited.
    formatted = {
        name.id
        for node in nodes
        if isinstance(node, ast.JoinedStr)
        for name in ast.walk(node)
        if isinstance(name, ast.Name)
    }
    return [name for name in dict.fromkeys(stored) if name not in parameters | formatted]


def rewrite_equivalently(program: str) -> str:
    """Spell out `x += y` for whole-number steps, and name the value before it is returned."""
    source = Source(program)
    edits = []
    for node in walk_outside(source.functions(), ast.Lambda):
        if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant):
            target = source.text(source.span(node.target))
            rest = source.text(source.between(node.target, node.value))
            value = source.text(source.span(node.value))
            edits.append(
                Edit(*source.span(node), f"{target} = {target}{rest.replace('=', '')}{value}")
            )
        elif isinstance(node, ast.Return) and _is_worth_a_name(node.value):
            value = source.text(source.span(node)).removeprefix("return").strip()
            indent = " " * node.col_offset
            edits.append(Edit(*source.span(node), f"outcome = {value}\n{indent}return outcome"))
    return source.edited(edits)


def _is_worth_a_name(value: ast.expr | None) -> bool:
    return value is not None and not isinstance(value, ast.Name | ast.Constant)


def make_verbose(program: str, *, rng: random.Random) -> str:
    """Add comments, a needless docstring and statements that do nothing."""
    source = Source(program)
    edits = []
    for function in source.functions():
        first = function.body[0]
        start = source.span(first).start
        indent = " " * first.col_offset
        lines = [f'"""Solve the task: {function.name.replace("_", " ")}."""']
        n_needless = rng.randint(2, 5)
        lines += [f"step_{number} = {number}" for number in range(1, n_needless + 1)]
        lines += [f"assert step_{number} == {number}" for number in range(1, n_needless + 1)]
        edits.append(Edit(start, start, "".join(f"{line}\n{indent}" for line in lines)))
        for statement in function.body[1:]:
            place = source.span(statement).start
            edits.append(Edit(place, place, f"# {rng.choice(_COMMENTS)}\n{indent}"))
    return source.edited(edits)


def make_sloppy(program: str, *, rng: random.Random) -> str:
    """Break the rules of style only: unused imports, semicolons, an ambiguous name."""
    source = Source(program)
    edits = [Edit(0, 0, f"{rng.choice(_UNUSED_IMPORTS)}\n")]
    for function in source.functions():
        first, last = function.body[0], function.body[-1]
        start, indent = source.span(first).start, " " * first.col_offset
        edits.append(Edit(start, start, f"l = None\n{indent}"))
        if isinstance(last, ast.Return):
            end = source.span(last).end
            edits.append(Edit(end, end, ";"))
    return source.edited(edits)
