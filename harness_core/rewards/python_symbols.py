"""Names of things that a Python program imports, one name for one thing."""

import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_REEXPORTED: Final = frozenset(
    {"builtins", "importlib", "os", "pickle", "shutil", "socket", "subprocess", "sys"}
)
_SAME_MODULE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("posix", "nt"), "os"),
    **dict.fromkeys(("posixpath", "ntpath"), "os.path"),
    **{f"_{name}": name for name in ("pickle", "socket", "ctypes", "multiprocessing")},
    "_io": "io",
}
# What gives another path from a path, so that `Path.home().resolve()` is a path like any other.
_A_PATH: Final = re.compile(
    r"pathlib\.(?:Pure)?(?:Posix|Windows)?Path(?:\(\))?(?:\.(?:(?:home|cwd|resolve|absolute|expanduser"
    r"|joinpath|with_name|with_suffix|with_stem|relative_to|glob|rglob|iterdir|readlink|walk)\(\)"
    r"|parents?))+|pathlib\.(?:Posix|Windows)Path\(\)"
)
COMPUTED: Final = "?"
"""The last part of a symbol whose name the program computes."""

# Functions of the library by what they do with names.
IMPORTERS: Final = frozenset(
    {"__import__", "importlib.import_module", "importlib.__import__", "__loader__.load_module"}
    | {"__spec__.loader.load_module", "importlib.machinery.BuiltinImporter.load_module"}
)
RISKY_NAMESPACES: Final = frozenset({"os", "subprocess", "builtins", "shutil", "sys.modules"})
PASS_ON: Final = frozenset({"functools.partial", "list", "tuple", "dict", "set", "iter", "next"})
NAMESPACES: Final = frozenset({"globals", "locals", "vars"})
LOCATORS: Final = frozenset({"pkgutil.resolve_name", "pydoc.locate"})
GET_ATTRIBUTE: Final = frozenset(
    {"getattr", "object.__getattribute__", "type.__getattribute__", "super().__getattribute__"}
)
LOOK_UPS: Final = frozenset({"get", "pop", "setdefault", "__getitem__", "__getattribute__"})
GETTERS: Final = frozenset({"operator.attrgetter", "operator.methodcaller", "operator.itemgetter"})
GETTER: Final = "operator.attrgetter:"


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
    if len(parts) > 1 and parts[1] == "__self__" and hasattr(builtins, parts[0]):
        parts = ["builtins", *parts[2:]]  # a builtin function knows the module that it comes from
    parts[0] = _SAME_MODULE.get(parts[0], parts[0])
    parts = [part for part in parts if part not in {"__dict__", "__call__"}]
    if parts[:1] in (["builtins"], ["__builtins__"]) and len(parts) > 1:
        parts = parts[1:]
    # `asyncio.subprocess.subprocess` is the module that `asyncio.subprocess` imports.
    while len(parts) > 2 and parts[0] == parts[1] != "socket":  # noqa: PLR2004  # module, module, name
        parts = parts[1:]
    path = ".".join(parts)
    return _A_PATH.sub("pathlib.Path()", path) if path.startswith("pathlib.") else path
