"""Kinds of frames between the grader, the runner and the processes of candidates and tests."""

from typing import Final

PROBE: Final = ord("?")
"""To a fresh process: which layers hold? It answers in kind, with a JSON list."""

# Runner to a candidate process.
PROGRAM: Final = ord("p")
"""A program to load; UTF-8 source."""
CALL: Final = ord("c")
"""An expression to evaluate; UTF-8 source."""
SCRIPT: Final = ord("s")
"""A script to run, that observes several values; UTF-8 source of a function."""
APPLY: Final = ord("a")
"""A tagged request of a test: call a name or an attribute with arguments."""

END: Final = ord("e")
"""There are no more requests; answered in kind, which shows that no answer was left over."""

# Runner to a test process.
TEST: Final = ord("t")
"""A test to run; JSON `{"source", "entry_point"}`."""
ANSWER: Final = ord("r")
"""What the candidate answered to a request: the frame it sent, kind byte first."""

# A candidate process to the runner.
LOADED: Final = ord("L")
NOT_LOADED: Final = ord("X")
"""The program did not load; the exception's name."""
VALUE: Final = ord("V")
"""Tagged JSON."""
RAISED: Final = ord("E")
"""The exception's name."""
NOT_DATA: Final = ord("N")
"""Why the value is not data."""
LYING: Final = b"lying"
"""How the payload of NOT_DATA begins if the value also claims to equal anything."""

# A test process to the runner.
REQUEST: Final = ord("Q")
"""Tagged request for the candidate."""
PASSED: Final = ord("P")
FAILED: Final = ord("F")
UNUSABLE: Final = ord("U")

# What the runner says for a process that gave no proper answer.
TIMEOUT: Final = ord("T")
"""Which limit it was: `wall`, `cpu`, or that of one call."""
SLOW_CALL: Final = b"call"
"""Payload of TIMEOUT where one call took too long, so that others may still be asked."""
DIED: Final = ord("D")
TAMPERED: Final = ord("!")

# Grader to runner, and back.
SETTINGS: Final = ord("S")
HELLO: Final = ord("H")
RUN: Final = ord("R")
"""Run a program on calls, then scripts, in one go; JSON `[nonce, program, calls, scripts]`."""
OPEN: Final = ord("O")
"""Start a process: JSON `[nonce, kind, text]`; it stays until CLOSE."""
SEND: Final = ord("s")
"""Pass a frame to the open process: nonce, kind byte, payload."""
CLOSE: Final = ord("C")
REPLY: Final = ord("=")
"""Nonce, then the sequence of frames that answer."""

_OF_PROGRAM: Final = frozenset({LOADED, NOT_LOADED})
_OF_CALL: Final = frozenset({VALUE, RAISED, NOT_DATA})
_OF_TEST: Final = frozenset({REQUEST, PASSED, FAILED, UNUSABLE})
ANSWERS: Final = {
    PROBE: frozenset({PROBE}),
    PROGRAM: _OF_PROGRAM,
    CALL: _OF_CALL,
    SCRIPT: _OF_CALL,
    APPLY: _OF_CALL,
    END: frozenset({END}),
    TEST: _OF_TEST,
    ANSWER: _OF_TEST,
}
"""What a process may answer to each kind of frame; anything else is tampering."""

NONCE_BYTES: Final = 16
