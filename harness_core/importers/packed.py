"""Records of a log file, whether it lies in a folder or in a tar archive."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from harness_core.importers.archive import members
from harness_core.importers.base import ImportContext, RawRecord, has_suffix
from harness_core.importers.framing import printable, read_pieces, read_records
from harness_core.importers.inflating import chunks
from harness_core.importers.rejects import Reject, UnreadableError, rejected
from harness_core.tables import file_digest


def read_packed(
    folder: Path, path: PurePosixPath, context: ImportContext, *, suffix: str
) -> Iterator[RawRecord | Reject]:
    """The records of a file; of an archive, those of its members whose names end in `suffix`."""
    if not has_suffix(path, ".tar"):
        yield from read_records(folder, path, context)
        return
    file = folder / path
    try:
        for member in members(chunks(file)):
            if has_suffix(member.path, suffix):
                yield from read_pieces(
                    member.content, path / member.path, context, digest=lambda: file_digest(file)
                )
    except UnreadableError as error:
        context.tally.n_records += 1
        yield rejected(
            error, b"", source=context.source, path=printable(path), byte_offset=0, line=1
        )
