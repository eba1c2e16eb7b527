"""The decision log: every entry is in the hands of the system before it is acknowledged.

`append` hands a whole line to the system in one write before it returns. So a process may be
killed at any moment and loses nothing that it acknowledged. A power cut may lose what was written
within the last `fsync_window_s`, and no more. Each process writes segments of its own; a line
without its end is no entry, is left out by readers and cut off by the next writer. A line has a
check sum, so that one that was changed later is told from one that was written so.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pydantic import ValidationError

from harness_core.errors import DecisionLogError
from harness_core.importers.decision_seal import sealed, unsealed
from harness_core.importers.decisions import whole_lines
from harness_core.importers.framing import parse_json
from harness_core.importers.inflating import chunks
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.splitting import Piece, split_lines
from harness_core.serving import log_files
from harness_core.trajectories.decision_log import LogEntry, entry_key, parse_entry

_LOG: Final = logging.getLogger("harness")
MAX_ENTRY_BYTES: Final = 1 << 24
"""What the importer takes by default; a larger entry would be written for nobody."""
MAX_DEPTH: Final = 64
_MAX_TOLD: Final = 100
_FOLDER_MODE: Final = 0o700


@dataclass(slots=True)
class LogTally:
    """What was met while a log was read."""

    n_entries: int = 0
    n_duplicates: int = 0
    """Entries whose key was read before."""
    n_damaged: int = 0
    damaged: list[str] = field(default_factory=list)
    """The first of them: file, line, reason."""

    def note_damage(self, path: Path, line: int, reason: str) -> None:
        """Count a line that cannot be read."""
        self.n_damaged += 1
        if len(self.damaged) < _MAX_TOLD:
            self.damaged.append(f"{path.name}, line {line}: {reason}")


class DecisionLog:
    """Appends entries to a folder of segments; safe for many threads and many processes.

    Make it after a fork, not before: each process has its own.
    """

    def __init__(
        self,
        folder: Path,
        *,
        fsync_window_s: float = 1.0,
        max_segment_bytes: int = 32 << 20,
        max_segment_age_s: float = 86_400.0,
    ) -> None:
        """Open a log, which is made if it is not there, and tidy up after writers that are gone.

        Args:
            folder: of the segments; readable by its owner only, since prompts stand in them.
            fsync_window_s: what a power cut may lose.
            max_segment_bytes: a segment is finished before it grows beyond this. Importers take
                up to 32 MiB however well it compresses.
            max_segment_age_s: it is finished after this time as well.

        Raises:
            DecisionLogError: the folder cannot be written to.
        """
        self.folder = folder
        self._window_s = fsync_window_s
        self._max_bytes = max_segment_bytes
        self._max_age_s = max_segment_age_s
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._is_dirty = threading.Event()
        self._finished: deque[tuple[Path, int]] = deque()
        self._size = 0
        self._is_torn = False
        """Whether a part of a line stands at the end that could not be cut off: then nothing may
        follow it in this segment."""
        try:
            folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            log_files.remove_leftovers(folder)
            self._path, self._descriptor = self._first_segment()
        except OSError as error:
            raise DecisionLogError(f"{folder}: cannot log there: {error.strerror}") from error
        self._size = os.fstat(self._descriptor).st_size
        self._thread = threading.Thread(target=self._tend, name="decision-log", daemon=True)
        self._thread.start()

    def append(self, entry: LogEntry) -> None:
        """Write one entry; it survives the end of this process once this returns.

        Raises:
            DecisionLogError: it was not written, say because the disk is full or the entry is one
                that readers would refuse. Entries before and after it are not affected.
        """
        line = _line(entry)
        with self._lock:
            if self._closing.is_set():
                raise DecisionLogError(f"{self.folder}: the log was closed")
            if self._is_due(len(line)):
                self._rotate()
            self._write(line)
        self._is_dirty.set()

    def close(self) -> None:
        """Bring everything to disk and let go of the segment; the next writer goes on with it."""
        with self._lock:
            if self._closing.is_set():
                return
            self._closing.set()
        self._is_dirty.set()
        self._thread.join()
        with self._lock, suppress(OSError):
            os.fsync(self._descriptor)
            if not self._size:
                self._path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        """The log itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def _first_segment(self) -> tuple[Path, int]:
        """Go on with a young small segment of a process that ended; finish all others."""
        taken: tuple[Path, int] | None = None
        for path, descriptor in log_files.abandoned_segments(self.folder):
            is_small = os.fstat(descriptor).st_size < self._max_bytes // 2
            is_young = time.time() - log_files.begun_at(path) < self._max_age_s
            if taken is None and is_small and is_young:
                taken = path, descriptor
            else:
                log_files.finish(path, descriptor)
        return taken or log_files.new_segment(self.folder)

    def _is_due(self, n_bytes: int) -> bool:
        is_old = time.time() - log_files.begun_at(self._path) >= self._max_age_s
        is_full = self._size + n_bytes > self._max_bytes
        return self._is_torn or (self._size > 0 and (is_old or is_full))

    def _rotate(self) -> None:
        try:
            fresh = log_files.new_segment(self.folder)
        except OSError as error:
            raise DecisionLogError(f"{self.folder}: {_words(error)}") from error
        self._finished.append((self._path, self._descriptor))
        self._path, self._descriptor = fresh
        self._size, self._is_torn = 0, False

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            # Nearly always one write. A short one is how a disk says that it is full; asking again
            # gives the reason.
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            self._is_torn = len(rest) < len(line)
            if self._is_torn:
                with suppress(OSError):
                    os.ftruncate(self._descriptor, self._size)
                    self._is_torn = False
            raise DecisionLogError(
                f"{self._path}: {_words(error)}; the entry was not logged"
            ) from error
        self._size += len(line)

    def _tend(self) -> None:
        """In the background: bring lines to disk, compress finished segments."""
        while not self._closing.is_set():
            self._is_dirty.wait()
            self._closing.wait(self._window_s)
            self._is_dirty.clear()
            self._sync()
            self._compress()
        self._compress()

    def _sync(self) -> None:
        with self._lock:
            descriptor = os.dup(self._descriptor)
        try:
            os.fsync(descriptor)
        except OSError as error:
            _LOG.error("%s: %s: a power cut may lose entries", self._path, _words(error))
        finally:
            os.close(descriptor)

    def _compress(self) -> None:
        while self._finished:
            path, descriptor = self._finished.popleft()
            try:
                os.fsync(descriptor)
                log_files.finish(path, descriptor)
            except OSError as error:
                # It stays as it is, readable; the next writer tries again.
                _LOG.error("%s: not compressed: %s", path, _words(error))


def read_log(folder: Path, *, tally: LogTally | None = None) -> Iterator[LogEntry]:
    """Every entry of a log once, segment by segment; others may write to it meanwhile.

    Args:
        folder: of the segments; one that is not there holds nothing.
        tally: counts what was read. A damaged line is counted there and left out; without a
            tally, a warning tells of them at the end.
    """
    counts = LogTally() if tally is None else tally
    seen: set[int] = set()
    for listed in log_files.segments(folder):
        path = log_files.present_form(listed)
        for entry in _entries(path, counts):
            # A hash of 64 bits: of a million entries none is taken for another one.
            key = hash(entry_key(entry))
            if key in seen:
                counts.n_duplicates += 1
                continue
            seen.add(key)
            counts.n_entries += 1
            yield entry
    if tally is None and counts.n_damaged:
        _LOG.warning("%s: %d damaged lines, as %s", folder, counts.n_damaged, counts.damaged[0])


def _entries(path: Path, tally: LogTally) -> Iterator[LogEntry]:
    number = 0
    try:
        for piece in split_lines(whole_lines(chunks(path)), limit=MAX_ENTRY_BYTES):
            number = piece.number
            try:
                yield _entry(piece)
            except (UnreadableError, ValidationError) as error:
                tally.note_damage(path, number, _first_line(error))
    except UnreadableError as error:
        tally.note_damage(path, number + 1, error.reason)


def _entry(piece: Piece) -> LogEntry:
    if piece.is_too_large:
        raise UnreadableError("F-SIZE", f"larger than {MAX_ENTRY_BYTES} bytes")
    _check(piece.data)
    return parse_entry(unsealed(piece.data))


def _line(entry: LogEntry) -> bytes:
    """The line of an entry, which is one that readers take."""
    try:
        line = sealed(entry.model_dump_json().encode())
        _check(line)
    except (UnreadableError, ValueError) as error:
        key = " ".join(entry_key(entry))
        raise DecisionLogError(f"{key}: cannot be logged: {_first_line(error)}") from error
    return line + b"\n"


def _check(line: bytes) -> None:
    if len(line) > MAX_ENTRY_BYTES:
        raise UnreadableError("F-SIZE", f"larger than {MAX_ENTRY_BYTES} bytes")
    parse_json(line, max_depth=MAX_DEPTH)


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error).partition("\n")[0]


def _words(error: OSError) -> str:
    return error.strerror or str(error)
