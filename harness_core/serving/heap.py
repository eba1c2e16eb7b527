"""The memory of a process as glibc keeps it: in how few pieces, and giving back what was freed.

A model is opened aside while the one before it still decides, so for a moment both are there.
What the one that goes has freed lies between what the other one keeps, in the heaps of whichever
threads took part, and is kept for later. Nothing happens where there is no glibc.
"""

import contextlib
import ctypes
from typing import Final

_ARENA_MAX: Final = -8
"""`M_ARENA_MAX` of `mallopt`."""


def use_one_heap() -> None:
    """Let threads that begin from now on take their memory where the first one does.

    For a process in which one thread works at a time: others would wait for each other.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Give the system what was freed; takes milliseconds, in which nobody gets memory."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
