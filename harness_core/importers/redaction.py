"""What a secret looks like, and how a piece of a log is shown without one.

Only the excerpts of quarantined records are redacted. Text that enters the tables is kept as the
log has it: it is what the agent saw and wrote, and the folder `data/` is as private as the logs.

Every pattern is linear in its input: repeats are bounded or possessive, none are nested.
"""

import re
from typing import Final

MAX_EXCERPT_CHARS: Final = 120

_WINDOW: Final = 1024
_CUT_SECRET: Final = 256
"""Characters dropped at the end of a cut window: a secret that was cut has lost its shape."""

_PATTERNS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("private key", re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY.*", re.DOTALL)),
    ("token", re.compile(r"\beyJ[\w-]{6,}+(?:\.[\w-]*+){0,4}")),
    (
        "key",
        re.compile(
            r"\b(?:sk|pk|rk|xox[abeprs]|gh[opsur]|github_pat|glpat|hf|npm|pypi|whsec|SG|ya29)"
            r"[-_.][\w.-]{10,}+|\b(?:AKIA|ASIA|AIza)[\w-]{10,}+"
        ),
    ),
    (
        "secret",
        re.compile(
            r"(?i)(?:bearer|api[-_ ]?key|access[-_ ]?token|secret|passw(?:or)?d|authorization)"
            r"\\?[\"']?\s{0,4}[:= ]\s{0,4}\\?[\"']?[^\s\"',;\\]{4,}+"
        ),
    ),
    (
        "login",
        re.compile(
            r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"]{0,100}:[^\s/@\"]{1,200}@", re.IGNORECASE
        ),
    ),
    ("e-mail", re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")),
    ("card", re.compile(r"\b\d(?:[ -]?\d){12,18}\b")),
    ("hex", re.compile(r"\b[0-9a-fA-F]{24,}+\b")),
    ("blob", re.compile(r"[A-Za-z0-9+/_-]{48,}+={0,2}")),
)


def redact(text: str) -> str:
    """The text with everything that looks like a secret replaced by its kind in brackets."""
    for kind, pattern in _PATTERNS:
        text = pattern.sub(f"[{kind}]", text)
    return text


def excerpt(raw: bytes) -> str:
    """The beginning of a record as one safe line: redacted, escaped, at most 120 characters."""
    text = redact(raw[:_WINDOW].decode("utf-8", errors="backslashreplace"))
    if len(raw) > _WINDOW:
        text = text[:-_CUT_SECRET]
    line = "".join(char if char.isprintable() else _escaped(char) for char in text.strip())
    if len(line) <= MAX_EXCERPT_CHARS:
        return line
    return line[: MAX_EXCERPT_CHARS - 1] + "…"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
