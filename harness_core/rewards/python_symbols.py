"""Names of things that a Python program imports, one name for one thing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_REEXPORTED: Final = frozenset(
    {"builtins", "importlib", "os", "pickle", "shutil", "socket", "subprocess", "sys"}
)
_SAME_MODULE: Final[Mapping[str, str]] = {"posix": "os", "nt": "os", "_pickle": "pickle"}
COMPUTED: Final = "?"
"""The last part of a symbol whose name the program computes."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """Something of a known name: `os.system`; `()` at the end is what calling it returns."""

    path: str


def canonical(path: str) -> str:
    """One name for one thing: `pathlib.os.system` and `posix.system` are `os.system`."""
    parts = path.split(".")
    for index in range(len(parts) - 1, 0, -1):
        name, owner = parts[index].lstrip("_"), parts[index - 1]
        # `socket.socket` is a class of its module, and nothing is known of what a call returns.
        if name in _REEXPORTED and name != owner and not owner.endswith("()"):
            parts = [name, *parts[index + 1 :]]
            break
    parts[0] = _SAME_MODULE.get(parts[0], parts[0])
    if parts[0] in {"builtins", "__builtins__"} and len(parts) > 1:
        parts = parts[1:]
    return ".".join(part for part in parts if part not in {"__dict__", "__call__"})
