"""The bytes of a log file: plain, xz or gzip, told apart by content, within fixed bounds.

Nothing but regular files is opened. What is inflated is bounded in window, ratio and size, so that
no small file can fill the memory or the disk.
"""

import lzma
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from harness_core.importers.rejects import UnreadableError

CHUNK_BYTES: Final = 1 << 20

_MAX_BYTES: Final = 1 << 34
_MAX_RATIO: Final = 250
_FREE_BYTES: Final = 32 << 20
"""Output below this is fine at any ratio: repeated turns of small logs shrink 500 to 1."""
_XZ_WINDOW_BYTES: Final = 128 << 20

_GZIP: Final = b"\x1f\x8b"
_XZ: Final = b"\xfd7zXZ\x00"
_FOREIGN: Final = {
    b"PAR1": "a Parquet table",
    b"PK\x03\x04": "a zip archive",
    b"(\xb5/\xfd": "compressed with zstd",
    b"BZh": "compressed with bzip2",
    b"ARROW1": "an Arrow file",
    b"SQLite format 3": "an SQLite database",
    b"%PDF": "a PDF",
}


def chunks(path: Path) -> Iterator[bytes]:
    """The inflated content of a file in pieces of at most 1 MiB.

    Raises:
        UnreadableError: not a regular file, not permitted, damaged, or out of bounds.
    """
    with _open_regular(path) as source:
        head = source.read(len(_XZ))
        source.seek(0)
        size = os.fstat(source.fileno()).st_size
        if head.startswith(_XZ):
            yield from _bounded(_inflate_xz(source), size)
        elif head.startswith(_GZIP):
            yield from _bounded(_inflate_gzip(source), size)
        else:
            while chunk := source.read(CHUNK_BYTES):
                yield chunk


def refuse_foreign(head: bytes) -> None:
    """Say so when a file that should hold JSON obviously holds something else."""
    for magic, name in _FOREIGN.items():
        if head.startswith(magic):
            raise UnreadableError("F-FOREIGN", f"this is {name}, not JSON; convert it first")
    if head.startswith((_GZIP, _XZ)):
        raise UnreadableError("F-NESTED", "compressed twice; inflate it once")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in head[:4]:
        raise UnreadableError("F-UTF16", "UTF-16 or UTF-32 text; convert it to UTF-8")
    if head.lstrip()[:1] == b"<":
        raise UnreadableError("F-FOREIGN", "this is HTML or XML, perhaps a saved error page")


def _open_regular(path: Path) -> BinaryIO:
    try:
        # A pipe would block at opening; O_NONBLOCK lets us see that it is one.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise UnreadableError("F-OPEN", f"cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableError("F-OPEN", "not a regular file")
    return os.fdopen(descriptor, "rb")


def _bounded(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    total = 0
    try:
        for piece in pieces:
            total += len(piece)
            if total > _FREE_BYTES and total > _MAX_RATIO * size:
                raise UnreadableError(
                    "F-RATIO", f"inflates to more than {_MAX_RATIO} times its size"
                )
            if total > _MAX_BYTES:
                raise UnreadableError("F-RATIO", f"inflates to more than {_MAX_BYTES} bytes")
            yield piece
    except EOFError as error:
        raise UnreadableError("F-DAMAGED", "the compressed file is cut off") from error
    except (lzma.LZMAError, zlib.error) as error:
        raise UnreadableError("F-DAMAGED", f"the compressed file is damaged: {error}") from error


def _inflate_xz(source: BinaryIO) -> Iterator[bytes]:
    inflater = _new_xz()
    data = source.read(CHUNK_BYTES)
    while data or not inflater.needs_input:
        yield inflater.decompress(data, max_length=CHUNK_BYTES)
        data = b""
        if inflater.eof:
            # Streams may be padded with zeros and follow one another.
            data = inflater.unused_data.lstrip(b"\x00") or source.read(CHUNK_BYTES).lstrip(b"\x00")
            if not data:
                return
            inflater = _new_xz()
        elif inflater.needs_input:
            data = source.read(CHUNK_BYTES)
    raise EOFError


def _new_xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(memlimit=_XZ_WINDOW_BYTES)


def _inflate_gzip(source: BinaryIO) -> Iterator[bytes]:
    inflater = zlib.decompressobj(wbits=31)
    while data := inflater.unconsumed_tail or source.read(CHUNK_BYTES):
        yield inflater.decompress(data, CHUNK_BYTES)
        while inflater.eof:
            rest = inflater.unused_data or source.read(CHUNK_BYTES)
            if not rest.strip(b"\x00"):
                return
            inflater = zlib.decompressobj(wbits=31)
            yield inflater.decompress(rest, CHUNK_BYTES)
    raise EOFError
