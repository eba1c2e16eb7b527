"""The regular members of a tar archive, read in one pass and never written to disk.

The archive may be cut off or hostile: a name is only ever a label, a member is read in pieces of
bounded size, links and devices are refused, and what a header claims is not believed further than
the bytes that follow.
"""

import tarfile
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from harness_core.importers.rejects import UnreadableError

_BLOCK: Final = tarfile.BLOCKSIZE
_MAX_MEMBERS: Final = 10_000
_REGULAR: Final = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE})
_NOTES: Final = frozenset({tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE}) | frozenset(
    {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
)
"""Headers about the next member: skipped, so that a very long name appears shortened."""


class Member(NamedTuple):
    """One file of an archive. Its content can be read until the next member is asked for."""

    path: PurePosixPath
    content: Iterator[bytes]


def members(pieces: Iterable[bytes]) -> Iterator[Member]:
    """The regular files of an archive, in order; folders are passed over.

    Raises:
        UnreadableError: it is damaged, cut off, or holds what no log is (links, devices, names
            that lead elsewhere).
    """
    source = _Source(pieces)
    seen: set[PurePosixPath] = set()
    while len(block := source.block()) == _BLOCK and any(block):
        header = _header(block)
        content = source.take(header.size if _has_content(header) else 0)
        if header.type in _REGULAR:
            path = _checked(header.name)
            if path in seen or len(seen) >= _MAX_MEMBERS:
                raise UnreadableError("F-MEMBER", "a member stands twice, or there are too many")
            seen.add(path)
            yield Member(path, content)
        elif header.type not in _NOTES and not header.isdir():
            raise UnreadableError("F-MEMBER", "a member that is no regular file")
        for _ in content:
            pass
        for _ in source.take(-header.size % _BLOCK if _has_content(header) else 0):
            pass


class _Source:
    """The bytes of an archive, taken in the order in which they come."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def take(self, n_bytes: int) -> Iterator[bytes]:
        """Exactly so many bytes, in pieces."""
        while n_bytes:
            if not self._rest and not self._refill():
                raise UnreadableError("F-TRUNCATED", "the archive is cut off")
            piece, self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
            n_bytes -= len(piece)
            yield piece

    def block(self) -> bytes:
        """The next header; empty at the end."""
        return b"".join(self.take(_BLOCK)) if self._rest or self._refill() else b""

    def _refill(self) -> bool:
        self._rest = next(filter(None, self._pieces), b"")
        return bool(self._rest)


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise UnreadableError("F-DAMAGED", f"no tar archive, or damaged: {error}") from error
    if header.size < 0:
        raise UnreadableError("F-DAMAGED", "a member of negative size")
    return header


def _has_content(header: tarfile.TarInfo) -> bool:
    return header.type in _REGULAR | _NOTES


def _checked(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise UnreadableError("F-MEMBER", "a member whose name leads out of the archive")
    return path
