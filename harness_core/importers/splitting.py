"""Where one record ends and the next begins, in memory bounded by the size of one record.

Nothing is decoded here: lines end at a line feed, and the elements of an array or object are found
by its brackets, commas and strings.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_EXCERPT_BYTES: Final = 8192
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)|[\[\]{},]', re.DOTALL)
_STRING_REST: Final = re.compile(rb'(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
_OPENING: Final = b"[{"
_CLOSING: Final = b"]}"


class Piece(NamedTuple):
    """The bytes of one record and where they stand."""

    data: bytes
    """All bytes, or the first few if the piece is too large."""
    offset: int
    number: int
    """Line or element number, from 1."""
    is_too_large: bool
    sha256: str
    """Digest of all bytes of a piece that is too large, else empty."""


class _Collector:
    """Gathers the bytes of one piece; above the limit it keeps a digest and the beginning."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._offset = 0
        self._number = 1
        self._start(0)

    def _start(self, offset: int) -> None:
        self._offset = offset
        self.size = 0
        self._data = bytearray()
        self._digest: hashlib._Hash | None = None

    def add(self, data: bytes | memoryview) -> None:
        self.size += len(data)
        if self._digest is not None:
            self._digest.update(data)
            return
        self._data += data
        if self.size > self._limit:
            self._digest = hashlib.sha256(self._data)
            del self._data[_EXCERPT_BYTES:]

    def take(self, *, separator: int = 1) -> Piece:
        piece = Piece(
            data=bytes(self._data),
            offset=self._offset,
            number=self._number,
            is_too_large=self._digest is not None,
            sha256="" if self._digest is None else self._digest.hexdigest(),
        )
        self._number += 1
        self._start(self._offset + self.size + separator)
        return piece

    def skip(self, n_bytes: int) -> None:
        """Leave out bytes before the piece begins."""
        self._start(self._offset + n_bytes)


def split_lines(chunks: Iterable[bytes], *, limit: int) -> Iterator[Piece]:
    """The lines of a file, without their line feeds."""
    collector = _Collector(limit)
    for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            collector.add(chunk[start:end])
            yield collector.take()
            start = end + 1
        collector.add(chunk[start:])
    if collector.size:
        yield collector.take()


def whole(chunks: Iterable[bytes], *, limit: int) -> Iterator[Piece]:
    """The whole file as one piece."""
    collector = _Collector(limit)
    for chunk in chunks:
        collector.add(chunk)
    yield collector.take()


class ElementSplitter:
    """The elements of a JSON array, or the `"key": value` members of a JSON object.

    After the last chunk, `is_complete` says whether the closing bracket was seen and `trailing`
    whether anything but blanks followed it.
    """

    def __init__(self, *, limit: int) -> None:
        self._collector = _Collector(limit)
        self._depth = 0
        self._is_in_string = False
        self._is_escaped = False
        self._n_elements = 0
        self.is_complete = False
        self.has_trailing = False

    def split(self, chunks: Iterable[bytes]) -> Iterator[Piece]:
        """All elements; the last one may be cut off if `is_complete` is false afterwards."""
        for chunk in filter(None, chunks):
            if self.is_complete:
                self.has_trailing |= bool(chunk.strip())
            else:
                yield from self._feed(chunk)
        if not self.is_complete and self._collector.size:
            yield self._collector.take()

    def _feed(self, chunk: bytes) -> Iterator[Piece]:
        position = self._leave_string(chunk)
        start = 0
        while (token := None if self._is_in_string else _TOKEN.search(chunk, position)) is not None:
            position = token.end()
            first = chunk[token.start()]
            if first == ord('"'):
                self._is_in_string = not token.group(1)
                self._is_escaped = self._is_in_string and position < len(chunk)
            elif first in _OPENING:
                self._depth += 1
                if self._depth == 1:
                    self._collector.skip(position)
                    start = position
            elif (first == ord(",") and self._depth == 1) or (
                first in _CLOSING and self._depth <= 1
            ):
                self._collector.add(chunk[start : token.start()])
                start = position
                if first != ord(","):
                    yield from self._close(chunk[position:])
                    return
                self._n_elements += 1
                yield self._collector.take()
            elif first in _CLOSING:
                self._depth -= 1
        if self._depth:
            self._collector.add(chunk[start:])
        else:
            self._collector.skip(len(chunk))

    def _leave_string(self, chunk: bytes) -> int:
        """Position after the string that began in an earlier chunk, if there is one."""
        if not self._is_in_string:
            return 0
        rest = _STRING_REST.match(chunk, int(self._is_escaped))
        assert rest is not None
        self._is_in_string = not rest.group(1)
        self._is_escaped = self._is_in_string and rest.end() < len(chunk)
        return rest.end()

    def _close(self, rest: bytes) -> Iterator[Piece]:
        self.is_complete = True
        self.has_trailing = bool(rest.strip())
        last = self._collector.take()
        # `[]` has no element; `[1,]` has an empty one, which the parser refuses.
        if last.data.strip() or self._n_elements:
            yield last
