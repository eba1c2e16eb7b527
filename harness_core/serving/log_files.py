"""The files of a decision log: their names, who holds them, and how a finished one is compressed.

```
<folder>/<nanoseconds>-<pid>-<nonce>.jsonl      open, or left behind by a process that ended
         <nanoseconds>-<pid>-<nonce>.jsonl.gz   finished
         .tmp-…                                 not published yet: no reader looks at it
```
A process holds a lock on the segment that it writes to, from before the file has its name until
it is gone, so that whoever gets the lock knows that nobody else writes there.
"""

import fcntl
import gzip
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

OPEN: Final = ".jsonl"
FINISHED: Final = ".jsonl.gz"

_TEMPORARY: Final = ".tmp-"
_COPY_BYTES: Final = 1 << 16
_LEVEL: Final = 6
_MAX_TEMPORARY_S: Final = 3600.0
_PRIVATE: Final = 0o600


def segments(folder: Path) -> list[Path]:
    """All segments in the order in which they were begun, each once, whatever its form.

    One that is being compressed stands there twice for a moment; the finished form is named then.
    """
    found: dict[str, Path] = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.startswith(".") or not path.name.endswith((OPEN, FINISHED)):
            continue
        stem = path.name.removesuffix(FINISHED).removesuffix(OPEN)
        if stem not in found or path.name.endswith(FINISHED):
            found[stem] = path
    return [found[stem] for stem in sorted(found)]


def present_form(path: Path) -> Path:
    """Where the content of a segment is now: it may have been compressed since it was listed."""
    return path if path.exists() else path.with_name(path.name.removesuffix(OPEN) + FINISHED)


def new_segment(folder: Path) -> tuple[Path, int]:
    """A new empty segment and its descriptor, locked before the file gets its name."""
    name = f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}{OPEN}"
    scratch = folder / f"{_TEMPORARY}{name}"
    descriptor = os.open(
        scratch, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        scratch.rename(folder / name)
        sync_folder(folder)
    except BaseException:
        os.close(descriptor)
        scratch.unlink(missing_ok=True)
        raise
    return folder / name, descriptor


def abandoned_segments(folder: Path) -> Iterator[tuple[Path, int]]:
    """Open segments whose writer has ended, each locked for us; the torn tail is cut off."""
    for path in sorted(folder.glob(f"*{OPEN}")):
        descriptor = _locked(path)
        if descriptor is not None:
            _cut_torn_tail(path, descriptor)
            yield path, descriptor


def begun_at(path: Path) -> float:
    """When a segment was begun, in seconds since the epoch; 0 for a name that doesn't say."""
    digits = path.name.partition("-")[0]
    return int(digits) / 1e9 if digits.isdecimal() else 0.0


def finish(path: Path, descriptor: int) -> None:
    """Compress a segment, publish that, remove the original, and let go of it.

    Dying in between leaves both, and readers take one of them; the next writer does it again.
    """
    try:
        if os.fstat(descriptor).st_size:
            _compress(path)
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Remove files that were never published; by age, since processes of other hosts may write."""
    for path in folder.glob(f"{_TEMPORARY}*"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _MAX_TEMPORARY_S:
                path.unlink()


def sync_folder(folder: Path) -> None:
    """Make names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock; None if somebody else does or the file is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # It may have been compressed and removed between the two calls.
        if path.stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _cut_torn_tail(path: Path, descriptor: int) -> None:
    """Cut off what a dying process left of its last line. Nobody was told that it is there."""
    size = os.fstat(descriptor).st_size
    with path.open("rb") as source:
        end = size
        while end:
            start = max(0, end - _COPY_BYTES)
            source.seek(start)
            found = source.read(end - start).rfind(b"\n")
            end = start + found + 1 if found >= 0 else start
            if found >= 0:
                break
    if end < size:
        os.ftruncate(descriptor, end)


def _compress(path: Path) -> None:
    stem = path.name.removesuffix(OPEN)
    scratch = path.with_name(f"{_TEMPORARY}{stem}{FINISHED}")
    try:
        with path.open("rb") as source, scratch.open("wb") as target:
            os.fchmod(target.fileno(), _PRIVATE)
            with gzip.GzipFile("", "wb", _LEVEL, target, mtime=0) as packed:
                shutil.copyfileobj(source, packed, _COPY_BYTES)
            target.flush()
            os.fsync(target.fileno())
        scratch.rename(path.with_name(stem + FINISHED))
        sync_folder(path.parent)
    finally:
        scratch.unlink(missing_ok=True)
