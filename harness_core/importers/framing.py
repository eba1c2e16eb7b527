"""From the bytes of a log to parsed records: the only place where raw logs meet a parser.

The order is fixed: file type and inflation bounds, record size, nesting depth and number of keys
on the raw bytes, then orjson, then what orjson forgives (doubled keys, integers that would become
floats). Whether a file is JSON Lines or one document is read off its content, never off its name.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from itertools import accumulate, chain
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import orjson

from harness_core.importers.base import ImportContext, RawRecord
from harness_core.importers.config import IngestConfig
from harness_core.importers.inflating import chunks, refuse_foreign
from harness_core.importers.rejects import Reject, UnreadableError, rejected
from harness_core.importers.splitting import ElementSplitter, Piece, split_lines, whole
from harness_core.tables import file_digest

_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"
_HEAD_LINES: Final = 8
_HEAD_BYTES: Final = 1 << 16
_MAX_KEYS: Final = 250_000
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_ALL_BYTES: Final = bytes(range(256))
_NO_BRACKETS: Final = bytes(sorted(set(_ALL_BYTES) - set(b"[]{}")))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_LONG_INTEGER: Final = re.compile(rb"(?<![\d.eE+-])-?\d{19,}+(?![\d.eE])")
_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1
_ERRORS: Final = (
    ("end of data", "F-TRUNCATED", "the record is cut off"),
    ("infinity", "F-NUMBER", "a number is too large for a double"),
    ("content after", "F-CONCATENATED", "more than one value on a line; write one record a line"),
    ("surrogate", "F-SURROGATE", "half a surrogate pair in a string"),
    ("control character", "F-CONTROL", "a raw control character in a string; escape it"),
)


class Layout(Enum):
    """What counts as a record in a file that holds one JSON object."""

    RECORD = auto()
    """The object itself."""
    MEMBERS = auto()
    """Each of its members; the key is kept."""


def read_records(
    folder: Path,
    path: PurePosixPath,
    context: ImportContext,
    *,
    layout: Layout = Layout.RECORD,
) -> Iterator[RawRecord | Reject]:
    """The records of one file, in order; what cannot be read becomes a reject in its place."""
    file = folder / path
    yield from read_pieces(
        chunks(file), path, context, digest=lambda: file_digest(file), layout=layout
    )


def read_pieces(
    stream: Iterator[bytes],
    path: PurePosixPath,
    context: ImportContext,
    *,
    digest: Callable[[], str],
    layout: Layout = Layout.RECORD,
) -> Iterator[RawRecord | Reject]:
    """The same for inflated content, say of a member of an archive.

    `digest` is of the file that holds it, and is asked for once there is a record.
    """
    name = printable(path)
    sha256 = ""
    offset = number = 0
    try:
        frame = _frame(stream, layout=layout, limit=context.config.max_record_bytes)
        for piece in frame.pieces:
            sha256 = sha256 or digest()
            offset, number = piece.offset, piece.number
            context.tally.n_records += 1
            yield _record(
                piece, context, path=name, file_sha256=sha256, is_member=frame.has_members
            )
    except UnreadableError as error:
        context.tally.n_records += 1
        yield rejected(
            error, b"", source=context.source, path=name, byte_offset=offset, line=number + 1
        )


def parse_json(data: bytes, *, max_depth: int) -> Any:
    """Parse one JSON value under the depth and key limits.

    Raises:
        UnreadableError: it is not one, or breaks a rule.
    """
    bare = _STRING.sub(b"", data)
    brackets = bare.translate(None, delete=_NO_BRACKETS)
    if len(brackets) > max_depth and _depth(brackets) > max_depth:
        raise UnreadableError("F-DEPTH", f"nested more than {max_depth} deep")
    n_keys = bare.count(b":")
    if n_keys > _MAX_KEYS:
        raise UnreadableError("F-KEYS", f"more than {_MAX_KEYS} keys")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _explain(data, error) from error
    for match in _LONG_INTEGER.finditer(bare):
        if not _MIN_INT64 <= int(match.group()) <= _MAX_INT64:
            raise UnreadableError("F-NUMBER", "an integer beyond 64 bits; write ids as strings")
    if n_keys and n_keys != _n_members(value):
        raise UnreadableError("F-DUPLICATE-KEY", "a key stands twice in one object")
    return value


def head_of(file: Path, *, n_bytes: int) -> bytes:
    """The first bytes of a file, inflated, without a byte order mark; empty if unreadable."""
    try:
        head = _beginning(chunks(file), n_bytes=n_bytes)
        refuse_foreign(head)
    except UnreadableError:
        return b""
    return head[:n_bytes].removeprefix(_BOM)


def printable(path: PurePosixPath) -> str:
    """A file name as it may stand in reports: no control characters, no undecodable bytes."""
    text = path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _beginning(stream: Iterator[bytes], *, n_bytes: int) -> bytes:
    """At least `n_bytes` of a stream, or all of it: inflated chunks may be small or empty."""
    head = b""
    while len(head) < n_bytes and (chunk := next(stream, None)) is not None:
        head += chunk
    return head


class _Frame(NamedTuple):
    pieces: Iterator[Piece]
    has_members: bool
    """Whether a piece is a `"key": value` of an object."""


def _frame(stream: Iterator[bytes], *, layout: Layout, limit: int) -> _Frame:
    first = _beginning(stream, n_bytes=_HEAD_BYTES)
    refuse_foreign(first)
    # A byte order mark becomes blanks, so that offsets still count from the start of the file.
    if first.startswith(_BOM):
        first = b" " * len(_BOM) + first[len(_BOM) :]
    content = chain([first], stream)
    text = first.lstrip(_BLANK)
    lines = [line for line in text.split(b"\n", _HEAD_LINES)[:_HEAD_LINES] if line.strip()]
    if _is_lines(lines, is_record=layout is Layout.RECORD):
        return _Frame(_records_of(split_lines(content, limit=limit)), has_members=False)
    is_object = text[:1] == b"{"
    if is_object and layout is Layout.RECORD:
        return _Frame(whole(content, limit=limit), has_members=False)
    return _Frame(_elements(content, limit=limit), has_members=is_object)


def _is_lines(lines: list[bytes], *, is_record: bool) -> bool:
    """Whether a file is JSON Lines, from its first few lines that are not blank.

    A document starts with a bracket and its first line is no whole value. One broken first line
    must not turn a log into a document: in a document no later line starts with `{` at the margin.
    """
    if not lines or lines[0][:1] not in (b"[", b"{"):
        return True
    if len(lines) == 1:
        return lines[0][:1] == b"{" and is_record
    if lines[0][:1] == b"[":
        return _is_balanced(lines[0])
    return _is_balanced(lines[0]) or any(line[:1] == b"{" for line in lines[1:])


def _is_balanced(line: bytes) -> bool:
    brackets = _STRING.sub(b"", line).translate(None, delete=_NO_BRACKETS)
    return sum(map(_STEP.__getitem__, brackets)) == 0 and line.strip()[-1:] in (b"]", b"}")


def _elements(content: Iterable[bytes], *, limit: int) -> Iterator[Piece]:
    splitter = ElementSplitter(limit=limit)
    yield from splitter.split(content)
    if not splitter.is_complete:
        raise UnreadableError("F-TRUNCATED", "the document is cut off: it has no closing bracket")
    if splitter.has_trailing:
        raise UnreadableError("F-CONCATENATED", "more text after the end of the document")


def _records_of(lines: Iterable[Piece]) -> Iterator[Piece]:
    """The records of lines: blank ones hold none, and old files end them in a carriage return."""
    for line in lines:
        text = line.data.strip(_BLANK)
        parts = line.data.split(b"\r") if b"\r" in text and not line.is_too_large else []
        if len(parts) > 1 and _is_balanced(parts[0]):
            offset = line.offset
            for index, part in enumerate(parts):
                if part.strip(_BLANK):
                    yield line._replace(data=part, offset=offset, number=line.number + index)
                offset += len(part) + 1
        elif text:
            yield line


def _record(
    piece: Piece,
    context: ImportContext,
    *,
    path: str,
    file_sha256: str,
    is_member: bool,
) -> RawRecord | Reject:
    try:
        key, value = _parsed(piece, context.config, is_member=is_member)
    except UnreadableError as error:
        return rejected(
            error,
            piece.data,
            source=context.source,
            path=path,
            byte_offset=piece.offset,
            line=piece.number,
            sha256=piece.sha256,
        )
    return RawRecord(
        value=value,
        raw=piece.data,
        path=path,
        file_sha256=file_sha256,
        byte_offset=piece.offset,
        line=piece.number,
        key=key,
    )


def _parsed(piece: Piece, config: IngestConfig, *, is_member: bool) -> tuple[str | None, Any]:
    """The value of a piece, and its key if it is a member of an object."""
    if piece.is_too_large:
        raise UnreadableError("F-SIZE", f"larger than {config.max_record_bytes} bytes")
    if not is_member:
        return None, parse_json(piece.data, max_depth=config.max_depth)
    member = parse_json(b"{" + piece.data + b"}", max_depth=config.max_depth + 1)
    if len(member) != 1:
        raise UnreadableError("F-JSON", "a comma without a member")
    ((key, value),) = member.items()
    return key, value


def _depth(brackets: bytes) -> int:
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def _n_members(value: Any) -> int:
    """Number of keys of all objects inside a value; the depth is bounded already."""
    if isinstance(value, dict):
        return len(value) + sum(map(_n_members, value.values()))
    if isinstance(value, list):
        return sum(map(_n_members, value))
    return 0


def _explain(data: bytes, error: orjson.JSONDecodeError) -> UnreadableError:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as damage:
        return UnreadableError("F-UTF8", f"not UTF-8 at byte {damage.start} of the record")
    # The parser stands on the sign or right behind it.
    rest = error.doc[max(0, error.pos - 1) : error.pos + 10].lstrip(" :,[-")
    if rest.startswith(("NaN", "Infinity")):
        return UnreadableError("F-NAN", "NaN or Infinity is not JSON; write null")
    if error.doc[error.pos : error.pos + 1] == "'":
        return UnreadableError(
            "F-PYTHON", "single quotes: a Python value, not JSON; write it as JSON"
        )
    for part, rule_id, reason in _ERRORS:
        if part in error.msg:
            return UnreadableError(rule_id, reason)
    return UnreadableError("F-JSON", f"{error.msg} at character {error.pos} of the record")
