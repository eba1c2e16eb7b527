"""Dangerous calls in Python, found in the syntax tree: through aliases, `getattr` and imports.

A *reference* to a dangerous function counts, called or not, since it can be handed to anything
that calls it. Words in strings, comments and docstrings never count; neither do methods of
objects that happen to be named `system`, `eval` or `compile`.
"""

import ast
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from harness_core.rewards.python_constants import Constant
from harness_core.rewards.python_dangers import (
    HIDDEN_FIELD,
    HIDDEN_NAMES,
    MODULES,
    REFERENCES,
    RUN_TEXT,
    RUN_TEXT_OR_FUNCTION,
    SHELL_CALLS,
    rule_of_module,
)
from harness_core.rewards.python_files import file_rules, texts_at, variable_rules
from harness_core.rewards.python_scopes import Scope
from harness_core.rewards.python_source import MAX_PROGRAM_CHARS, parse_program
from harness_core.rewards.python_symbols import COMPUTED
from harness_core.rewards.python_tokens import called_names
from harness_core.rewards.python_values import Reader, TooComplexError

# Nothing dangerous can be reached without one of these, so most programs need no closer look.
_DOORS: Final = re.compile(r"import|eval|exec|compile|open|getattr|globals|vars|locals|__|f_glob")
_MODULE_STEMS: Final = tuple(
    sorted({f"{name.partition('.')[0]}." for name in (*REFERENCES, *MODULES)})
)
_FORMATS: Final = frozenset({"format", "format_map", "vformat"})
_MAX_LITERAL_DEPTH: Final = 3


def python_rules(program: str) -> Iterator[str]:
    """Ids of the rules that a program breaks, with repetitions."""
    yield from _rules_of(program, depth=0)


def _rules_of(program: str, *, depth: int) -> Iterator[str]:
    program = unicodedata.normalize("NFKC", program) if not program.isascii() else program
    if not _DOORS.search(program) and not _names_a_module(program):
        return
    if len(program) > MAX_PROGRAM_CHARS:
        yield "py-unreadable"
        return
    tree = parse_program(program)
    if tree is None:
        # It may be a newer Python than ours, or a snippet of a session with other text around.
        yield from _rules_of_names(called_names(program))
        return
    try:
        yield from _Check(Reader(tree), depth).rules()
    except (TooComplexError, RecursionError):
        yield "py-unreadable"


def _names_a_module(program: str) -> bool:
    return any(stem in program for stem in _MODULE_STEMS)


class _Check:
    """One pass over the nodes of one program."""

    def __init__(self, reader: Reader, depth: int) -> None:
        self._reader = reader
        self._depth = depth
        self._judged: set[int] = set()
        """Functions whose calls were looked at with their arguments."""

    def rules(self) -> Iterator[str]:
        nodes = self._reader.program.nodes
        for node, scope in nodes:
            if isinstance(node, ast.Call):
                yield from self._call(node, scope)
        for node, scope in nodes:
            if isinstance(node, ast.Attribute) and node.attr in HIDDEN_NAMES:
                yield "py-hidden-classes"
            if isinstance(node, ast.Subscript):
                for path in self._reader.paths(node.value, scope):
                    yield from variable_rules(path, node, self._reader, scope)
            if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
                if isinstance(node, ast.Name | ast.Attribute) and not _is_read(node):
                    continue
                if id(node) not in self._judged:
                    yield from _rules_of_names(self._reader.paths(node, scope))

    def _call(self, node: ast.Call, scope: Scope) -> Iterator[str]:
        if self._formats_hidden(node, scope):
            yield "py-hidden-classes"
        for path in self._reader.paths(node.func, scope):
            if path in RUN_TEXT:
                self._judged.add(id(node.func))
                yield from self._program_text(RUN_TEXT[path], node, scope)
            elif path in RUN_TEXT_OR_FUNCTION:
                if node.args and self._may_be_text(node.args[0], scope):
                    yield from self._program_text("py-compile", node, scope)
            elif path in SHELL_CALLS:
                self._judged.add(id(node.func))
                yield "B602" if self._asks_for_shell(node, scope) else "B603"
            elif path in {"getattr", "vars"}:
                yield from self._hidden_name(node, scope)
            else:
                yield from self._loads_objects(path, node, scope)
                yield from file_rules(path, node, self._reader, scope)

    def _formats_hidden(self, node: ast.Call, scope: Scope) -> bool:
        """`"{0.__globals__}".format(f)`."""
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _FORMATS:
            return False
        return any(map(HIDDEN_FIELD.search, self._reader.texts(node.func.value, scope)))

    def _program_text(self, rule: str, node: ast.Call, scope: Scope) -> Iterator[str]:
        literal = self._literal(node, scope)
        if literal is None or self._depth >= _MAX_LITERAL_DEPTH:
            yield rule
        else:
            yield from _rules_of(literal, depth=self._depth + 1)

    def _literal(self, node: ast.Call, scope: Scope) -> str | None:
        """The one text handed over, when it is written there and no name takes part in it."""
        if not node.args or any(isinstance(part, ast.Name) for part in ast.walk(node.args[0])):
            return None
        texts = list(self._reader.texts(node.args[0], scope))
        return texts[0] if len(texts) == 1 else None

    def _may_be_text(self, node: ast.expr, scope: Scope) -> bool:
        """Whether it is no function for all that can be seen."""
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
            return True
        # A name that nothing in the program binds: what it holds came from somewhere else.
        return isinstance(node, ast.Name) and node.id in self._reader.paths(node, scope)

    def _loads_objects(self, path: str, node: ast.Call, scope: Scope) -> Iterator[str]:
        if path in {"yaml.load", "yaml.load_all"} and not _mentions(node, "SafeLoader"):
            yield "B506"
        elif path == "numpy.load":
            for keyword in node.keywords:
                values = self._reader.values(keyword.value, scope)
                if keyword.arg == "allow_pickle" and values != {Constant(value=False)}:
                    yield "B301"

    def _asks_for_shell(self, node: ast.Call, scope: Scope) -> bool:
        for keyword in node.keywords:
            values = self._reader.values(keyword.value, scope)
            if keyword.arg == "shell":
                return values != {Constant(value=False)}
            if keyword.arg is None and Constant(value=True) in values:
                return True  # `**options`, one of which is true
        return False

    def _hidden_name(self, node: ast.Call, scope: Scope) -> Iterator[str]:
        names = texts_at(node, 1, "name", self._reader, scope)
        if any(name in HIDDEN_NAMES for name in names):
            yield "py-hidden-classes"


def _rules_of_names(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if path in REFERENCES:
            yield REFERENCES[path]
        elif path in RUN_TEXT:
            yield RUN_TEXT[path]
        elif path in SHELL_CALLS:
            yield "B603"
        elif path == COMPUTED or _hides_its_name(path):
            yield "py-computed-name"
        elif (rule := rule_of_module(path)) is not None:
            yield rule


def _hides_its_name(path: str) -> bool:
    """Whether a part of a module that can do harm is asked for by a name that is computed."""
    module, _, name = path.rpartition(".")
    if name != COMPUTED:
        return False
    known = (*REFERENCES, *MODULES, *SHELL_CALLS)
    return module in {"", "builtins", *(item.partition(".")[0] for item in known)}


def _is_read(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _mentions(node: ast.AST, word: str) -> bool:
    return any(
        word in (getattr(part, "attr", ""), getattr(part, "id", "")) for part in ast.walk(node)
    )
