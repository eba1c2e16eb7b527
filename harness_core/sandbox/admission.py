"""Which code of a test may enter the box: set-up and calls, but nothing that judges.

A value that the program gave may be passed on, and changed by functions that take no expectation.
It may not be compared inside the box, where the program could have a say in the outcome.
"""

import ast
from typing import Final

from harness_core.sandbox.folding import name_of
from harness_core.sandbox.names import Names, Origin, UnsplittableError

BANNED: Final = frozenset(
    {
        "__import__", "breakpoint", "compile", "delattr", "eval", "exec", "exit", "globals",
        "locals", "mock", "patch", "quit", "super", "unittest", "vars", "MagicMock", "Mock",
    }
)  # fmt: skip
"""Names that make a test more than calls and expectations."""

_TRANSFORMS: Final = frozenset(
    {
        "dict", "enumerate", "float", "getattr", "hasattr", "int", "isinstance", "iter", "len",
        "list", "next", "print", "range", "repr", "reversed", "round", "set", "setattr", "sorted",
        "str", "sum", "tuple", "type", "zip", "json.dumps", "json.loads", "open", "os.path.exists",
    }
)  # fmt: skip
"""What may be applied inside the box to what the program gave."""
_METHODS: Final = frozenset({"add", "append", "extend", "insert", "join", "update", "write"})
"""Methods of the test's own objects that may take what the program gave."""
_FORBIDDEN: Final = (
    ast.Assert, ast.AsyncFor, ast.AsyncFunctionDef, ast.AsyncWith, ast.Await, ast.ClassDef,
    ast.FunctionDef, ast.Global, ast.Nonlocal, ast.Raise, ast.Return, ast.Yield, ast.YieldFrom,
)  # fmt: skip


def admit(node: ast.stmt | ast.expr, names: Names) -> Origin:
    """Check that code may enter the box, and note the constants that it takes with it.

    Raises:
        UnsplittableError: it may not.
    """
    inner = names.inside(node)
    for part in ast.walk(node):
        _check(part, inner)
    origin = inner.origin(node)
    names.use(node)
    return origin


def _check(node: ast.AST, names: Names) -> None:
    match node:
        case ast.Name(id=name) if name in BANNED:
            raise UnsplittableError(name)
        case ast.Attribute(attr=name) if name.startswith("assert") or name in BANNED:
            raise UnsplittableError(name)
        case ast.Compare(left=left, comparators=others):
            if names.origin(left, *others) > Origin.INERT:
                raise UnsplittableError("a comparison inside the box")
        case ast.Call(func=function, args=arguments, keywords=options):
            _check_call(function, [*arguments, *(option.value for option in options)], names)
    if isinstance(node, _FORBIDDEN):
        raise UnsplittableError(type(node).__name__)


def _check_call(function: ast.expr, arguments: list[ast.expr], names: Names) -> None:
    if names.origin(function) > Origin.INERT or names.origin(*arguments) < Origin.PROGRAM:
        return
    is_method = isinstance(function, ast.Attribute) and function.attr in _METHODS
    if not is_method and name_of(function) not in _TRANSFORMS:
        raise UnsplittableError("a function of the test on what the program gave")
