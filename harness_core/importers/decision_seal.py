"""The check sum at the end of a line of a decision log, by which a changed byte is found.

    {"record": "decision", …,"crc32":"89abcdef"}

It is the last key of the object, so that a line stays JSON for everybody else: CRC-32 of all bytes
before its comma, as eight digits. Whatever happened to one byte of such a line, its sum is wrong or
it is no entry any more. A line without it is from before there was one, and is taken as it is.
"""

import re
import zlib
from typing import Final

from harness_core.importers.rejects import UnreadableError

_SEAL: Final = re.compile(rb',"crc32":"([^"]*)"\}\s*\Z')
_SEAL_BYTES: Final = 64
"""It stands within the last so many bytes, blanks of other systems' line ends among them."""


def sealed(line: bytes) -> bytes:
    """A JSON object, of at least one key and without blanks around it, with its check sum."""
    assert line.endswith(b"}")
    body = line[:-1]
    return b'%s,"crc32":"%08x"}' % (body, zlib.crc32(body))


def unsealed(line: bytes) -> bytes:
    """The object without its check sum, if it has one and that is right.

    Raises:
        UnreadableError: it is wrong.
    """
    seal = _SEAL.search(line, max(0, len(line) - _SEAL_BYTES))
    if seal is None:
        return line
    body = line[: seal.start()]
    if seal[1] != b"%08x" % zlib.crc32(body):
        raise UnreadableError("D-CHECKSUM", "the line was changed after it was written")
    return body + b"}"
