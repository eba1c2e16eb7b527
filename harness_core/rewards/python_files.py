"""What a Python program reads and writes, as far as its text names the paths."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from harness_core.rewards.credentials import CREDENTIALS, SECRET_VARIABLE
from harness_core.rewards.python_scopes import Scope
from harness_core.rewards.python_values import Reader

_OPENS: Final = frozenset({"open", "io.open", "codecs.open", "os.open", "io.FileIO"})
_COPIES: Final = frozenset(f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copytree"))
_PATH: Final = "pathlib.Path()."
_PATH_WRITES: Final = frozenset({"write_text", "write_bytes", "touch"})
_PATH_READS: Final = frozenset({"read_text", "read_bytes", "open"})
_VARIABLE_READS: Final = frozenset({"os.getenv", "os.environ.get", "os.environ.pop", "os.environ"})
_ABSOLUTE: Final = re.compile(r"^(/(?!dev/(null|stdout|stderr)$)|~|[A-Za-z]:[\\/]|\\\\|\.\.(/|$))")
_WRITING_FLAGS: Final = frozenset({"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"})


def file_rules(path: str, node: ast.Call, reader: Reader, scope: Scope) -> Iterator[str]:
    """Ids of the rules that calling a function of the library with these arguments breaks."""
    if path in _OPENS:
        yield from _open(node, reader, scope)
    elif path in _COPIES:
        yield from _judge(
            reads=texts_at(node, 0, "src", reader, scope),
            writes=texts_at(node, 1, "dst", reader, scope),
        )
    elif path in _VARIABLE_READS:
        if any(map(SECRET_VARIABLE.search, texts_at(node, 0, "key", reader, scope))):
            yield "py-credentials"
    elif path.startswith(_PATH):
        yield from _path_method(path.removeprefix(_PATH), node, reader, scope)


def variable_rules(path: str, node: ast.Subscript, reader: Reader, scope: Scope) -> Iterator[str]:
    """`os.environ["SECRET"]`."""
    is_read = path == "os.environ" and isinstance(node.ctx, ast.Load)
    if is_read and any(map(SECRET_VARIABLE.search, reader.texts(node.slice, scope))):
        yield "py-credentials"


def texts_at(node: ast.Call, place: int, name: str, reader: Reader, scope: Scope) -> list[str]:
    """Texts that an argument may be, given by place or by name."""
    return [text for part in arguments_at(node, place, name) for text in reader.texts(part, scope)]


def arguments_at(node: ast.Call, place: int, name: str) -> list[ast.expr]:
    """The argument at a place or of a name, if there is one."""
    parts = [node.args[place]] if place < len(node.args) else []
    return parts + [keyword.value for keyword in node.keywords if keyword.arg == name]


def _judge(*, reads: list[str], writes: list[str]) -> Iterator[str]:
    if any(map(CREDENTIALS.search, (*reads, *writes))):
        yield "py-credentials"
    if any(map(_ABSOLUTE.match, writes)):
        yield "py-write-outside"


def _open(node: ast.Call, reader: Reader, scope: Scope) -> Iterator[str]:
    named = arguments_at(node, 0, "file")
    paths = [text for part in named for text in reader.texts(part, scope)]
    writes = paths + [text for part in named for text in _beginnings(part, reader, scope)]
    modes = texts_at(node, 1, "mode", reader, scope)
    is_writing = any(set(mode) & set("wax+") for mode in modes) or any(
        getattr(part, "attr", getattr(part, "id", "")) in _WRITING_FLAGS
        for flags in arguments_at(node, 1, "flags")
        for part in ast.walk(flags)
    )
    yield from _judge(reads=paths, writes=writes if is_writing else [])


def _beginnings(part: ast.expr, reader: Reader, scope: Scope) -> Iterator[str]:
    """How a path begins whose end is computed: `f"/etc/{name}"`, `"/etc/" + name`."""
    match part:
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            yield text
        case ast.BinOp(left=left, op=ast.Add()):
            yield from reader.texts(left, scope)
            yield from _beginnings(left, reader, scope)
        case ast.Call(args=[first, _, *_]) if "os.path.join" in reader.paths(part.func, scope):
            yield from reader.texts(first, scope)


def _path_method(name: str, node: ast.Call, reader: Reader, scope: Scope) -> Iterator[str]:
    if name not in _PATH_WRITES | _PATH_READS:
        return
    owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    parts = [part for part in _in_order(owner) if isinstance(part, ast.Constant | ast.Name)]
    texts = [text for part in parts for text in reader.texts(part, scope)]
    for part in parts:
        if isinstance(part, ast.Name):
            texts += _texts_of_path(part, reader, scope)
    texts.append("/".join(text.rstrip("/") for text in texts))
    modes = texts_at(node, 0, "mode", reader, scope)
    is_writing = name in _PATH_WRITES or (
        name == "open" and any(set(mode) & set("wax+") for mode in modes)
    )
    yield from _judge(reads=texts, writes=texts[:1] if is_writing else [])


def _texts_of_path(name: ast.Name, reader: Reader, scope: Scope) -> list[str]:
    """Texts that a variable holding a path was made of."""
    return [
        text
        for value, home in reader.bound_to(name, scope)
        for part in _in_order(value)
        if isinstance(part, ast.Constant)
        for text in reader.texts(part, home)
    ]


def _in_order(node: ast.expr) -> Iterator[ast.AST]:
    """The nodes of an expression from left to right."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from _in_order(child)
