"""What a sandbox could change of the machine it runs on, as snapshots to compare.

Other programs run at the same time, so only what can be ours is looked at: processes by the
namespace of a box, sockets and descriptors of this process tree, files by place and by mark.
"""

import os
import stat
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

from harness_core.sandbox import inside
from tests.sandbox.hostile import MARK

PROC = Path("/proc")
SHARED_PLACES = (
    *("/", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/run", "/etc", "/usr/lib", "/home", "/root"),
    str(Path(__file__).parents[2]),
)


@dataclass(frozen=True)
class Snapshot:
    """The host at one moment."""

    processes: frozenset[int]
    """Descendants of this process."""
    descriptors: Counter[str]
    """Open descriptors of this process by kind."""
    listening: frozenset[str]
    """Sockets of this process tree that could be reached from outside."""
    cgroups: tuple[str, ...]
    """Those that were made for boxes of this process."""
    ipc: tuple[str, ...]
    """System V and POSIX queues, semaphores and memory segments."""
    files: tuple[tuple[str, int, int, int], ...]
    """Mode, size and time of change of every file that a box can name: path, then these."""
    marked: tuple[str, ...]
    """Files anywhere in shared places that a hostile candidate would have left."""

    @classmethod
    def take(cls, *folders: Path) -> "Snapshot":
        """Of the host, with all below some folders."""
        processes = frozenset(descendants(os.getpid()))
        return cls(
            processes=processes,
            descriptors=_descriptors(os.getpid()),
            listening=frozenset(_listening({os.getpid(), *processes})),
            cgroups=tuple(sorted(_cgroups())),
            ipc=tuple(_ipc()),
            files=tuple(sorted(_files(folders))),
            marked=tuple(sorted(_marked())),
        )

    def changes(self, later: "Snapshot") -> dict[str, list[str]]:
        """What a later moment has beyond this one, or lacks, by kind; only what differs."""
        found = {}
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(later, item.name)
            if mine != theirs:
                both = set(_listed(mine)) & set(_listed(theirs))
                found[item.name] = sorted({*_listed(mine), *_listed(theirs)} - both)
        return found


def descendants(pid: int) -> Iterator[int]:
    """All processes below one, at any depth."""
    with suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from descendants(int(child))


def namespaces_of(pids: Iterator[int]) -> frozenset[str]:
    """The pid namespaces of some processes that are not this one's: those of boxes."""
    return frozenset(filter(None, map(_namespace, pids))) - {_namespace(os.getpid()) or ""}


def inhabitants(namespaces: frozenset[str]) -> list[int]:
    """All processes of the machine that live in one of these pid namespaces."""
    pids = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return sorted(pid for pid in pids if _namespace(pid) in namespaces)


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    pages = int((PROC / "self" / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _listed(items: Iterable[object]) -> list[str]:
    return [str(item) for item in (items.items() if isinstance(items, Counter) else items)]


def _namespace(pid: int) -> str | None:
    with suppress(OSError):
        return str((PROC / str(pid) / "ns" / "pid").readlink())
    return None


def _descriptors(pid: int) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for entry in (PROC / str(pid) / "fd").iterdir():
        with suppress(OSError):
            kinds[str(entry.readlink()).partition(":")[0]] += 1
    return kinds


def _listening(pids: set[int]) -> Iterator[str]:
    """Listening TCP and open UDP, raw and packet sockets that these processes hold."""
    held = set()
    for pid in pids:
        with suppress(OSError):
            for entry in (PROC / str(pid) / "fd").iterdir():
                with suppress(OSError):
                    held.add(str(entry.readlink()).removeprefix("socket:[").rstrip("]"))
    for table in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6", "packet"):
        with suppress(OSError):
            for line in (PROC / "net" / table).read_text().splitlines()[1:]:
                if held.intersection(line.split()):
                    yield f"{table} {line.strip()}"


def _cgroups() -> Iterator[str]:
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        yield from (f"{folder}/{name}" for name in names if f"-box-{os.getpid()}-" in name)


def _ipc() -> Iterator[str]:
    for path in sorted(PROC.glob("sysvipc/*")):
        for line in path.read_text().splitlines()[1:]:
            key, number = line.split()[:2]
            yield f"{path.name} {key} {number}"
    with suppress(OSError):
        yield from (f"mqueue {path.name}" for path in sorted(Path("/dev/mqueue").iterdir()))


def _files(folders: tuple[Path, ...]) -> Iterator[tuple[str, int, int, int]]:
    library = Path(sysconfig.get_path("stdlib"))
    walked = [item for folder in folders for item in folder.rglob("*")]
    walked += [item for item in library.rglob("*") if not _is_written_by_others(item)]
    for path in (*walked, *Path(str(inside.__path__[0])).glob("*.py"), Path("/etc/ld.so.cache")):
        with suppress(OSError):
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or path in folders:
                yield str(path), found.st_mode, found.st_size, found.st_mtime_ns


def _is_written_by_others(path: Path) -> bool:
    return bool({"__pycache__", "site-packages", "dist-packages"}.intersection(path.parts))


def _marked() -> Iterator[str]:
    places = {*SHARED_PLACES, tempfile.gettempdir(), str(Path.home()), str(Path.cwd())}
    places.add(sysconfig.get_path("stdlib"))
    for place in places:
        with suppress(OSError):
            yield from (str(path) for path in Path(place).iterdir() if path.name.startswith(MARK))
