"""What the proxy and its scoring process say to each other: frames of JSON on a socket.

A frame is its length (4 bytes, big endian), a head, a newline, and what it is about. Both are JSON
without newlines. The head names the request by `id`, which the answer repeats.
"""

import socket
import struct
from typing import Any, Final, NamedTuple

import orjson

SIZE: Final = struct.Struct(">I")


class Frame(NamedTuple):
    """One message."""

    head: dict[str, Any]
    content: bytes = b""


def encode(frame: Frame) -> bytes:
    """A frame as it goes over the socket."""
    body = orjson.dumps(frame.head) + b"\n" + frame.content
    return SIZE.pack(len(body)) + body


def decode(body: bytes) -> Frame:
    """A frame from what stands after its length.

    Raises:
        ValueError: it is none.
    """
    head, _, content = body.partition(b"\n")
    found = orjson.loads(head)
    if not isinstance(found, dict):
        raise ValueError("a frame whose head is no object")  # noqa: TRY004  # data, no argument
    return Frame(found, content)


def receive(sock: socket.socket) -> Frame | None:
    """The next frame of a blocking socket; None when the other side is gone."""
    size = _exactly(sock, SIZE.size)
    body = None if size is None else _exactly(sock, SIZE.unpack(size)[0])
    return None if body is None else decode(body)


def _exactly(sock: socket.socket, n_bytes: int) -> bytes | None:
    parts: list[bytes] = []
    while n_bytes:
        try:
            part = sock.recv(min(n_bytes, 1 << 20))
        except ConnectionError:
            return None
        if not part:
            return None
        parts.append(part)
        n_bytes -= len(part)
    return b"".join(parts)
