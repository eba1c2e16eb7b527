"""What cannot be read: the error that stops a record or file, and the reject kept of it."""

import hashlib

from harness_core.errors import DataError
from harness_core.importers.redaction import excerpt
from harness_core.records import Record


class UnreadableError(DataError):
    """A record, a file or the rest of a file breaks a rule. Never leaves the importers."""

    def __init__(self, rule_id: str, reason: str, *, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.rule_id = rule_id
        self.reason = reason
        self.field = field


class Reject(Record):
    """A record that could not be read, as it stands in the quarantine."""

    source: str
    path: str
    """File inside the source folder."""
    byte_offset: int
    """Where the record begins, in the inflated file."""
    line: int
    """Line of JSON Lines, else number of the record, from 1."""
    rule_id: str
    field: str
    """Key that is wrong, dotted; empty if the record has no keys yet."""
    reason: str
    excerpt: str
    """Beginning of the record, redacted."""
    sha256: str
    """Digest of the bytes of the record."""

    @property
    def place(self) -> str:
        """Where and why, in one line for people."""
        at = f"{self.path}, line {self.line}, byte {self.byte_offset}"
        what = f"{self.field}: {self.reason}" if self.field else self.reason
        return f"{at}: {what} [{self.rule_id}]"


def rejected(
    error: UnreadableError,
    raw: bytes,
    *,
    source: str,
    path: str,
    byte_offset: int,
    line: int,
    sha256: str = "",
) -> Reject:
    """The reject of some bytes; `sha256` is given where `raw` holds only their beginning."""
    return Reject(
        source=source,
        path=path,
        byte_offset=byte_offset,
        line=line,
        rule_id=error.rule_id,
        field=error.field,
        reason=error.reason,
        excerpt=excerpt(raw),
        sha256=sha256 or hashlib.sha256(raw).hexdigest(),
    )
