"""Hostile text made readable: nothing hidden, whitespace kept, differences marked.

Text of a log may hold control characters, marks that turn the direction of writing, and letters
without width, which can make a program look like another one. They are shown by their code.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

import orjson
from markupsafe import Markup

MAX_SHOWN_CHARS: Final = 100_000
"""Characters of one text on a page; the rest is behind a link."""
_MAX_COMPARED_LINES: Final = 1_500
_MAX_COMPARED_WORDS: Final = 400
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u2069\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]|\r"
)
_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")


class Piece(NamedTuple):
    """A part of a line."""

    text: str
    differs: bool


class Line(NamedTuple):
    """One line of a candidate beside another candidate."""

    mark: str
    """` ` also there, `+` only here, `−` a place where lines of the other are not here."""
    pieces: tuple[Piece, ...]


def visible(value: Any) -> Any:
    """Text with hidden characters shown by their code; what is no text, or is markup, as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", value.replace("\r\n", "\n"))


def pretty(value: Any) -> str:
    """JSON for people; text as it is."""
    if isinstance(value, str):
        return value
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()


def compared(text: str, other: str | None) -> tuple[Line, ...]:
    """The lines of a text, marked where they differ from another text.

    Nothing is marked without another text, or if one of the two is too long to be compared.
    """
    lines = text.removesuffix("\n").split("\n")
    others = None if other is None else other.removesuffix("\n").split("\n")
    if others is None or max(len(lines), len(others)) > _MAX_COMPARED_LINES:
        return tuple(Line(" ", (Piece(line, differs=False),)) for line in lines)
    return tuple(_compared(lines, others))


def _compared(lines: Sequence[str], others: Sequence[str]) -> Iterator[Line]:
    matcher = SequenceMatcher(None, others, lines)
    for tag, other_start, other_end, start, end in matcher.get_opcodes():
        if tag == "equal":
            yield from (Line(" ", (Piece(line, differs=False),)) for line in lines[start:end])
            continue
        for number, line in enumerate(lines[start:end], start=other_start):
            partner = others[number] if number < other_end else ""
            yield Line("+", tuple(_words(line, partner)))
        n_missing = (other_end - other_start) - (end - start)
        if n_missing > 0:
            noun = "line" if n_missing == 1 else "lines"
            yield Line("−", (Piece(f"{n_missing} {noun} not here", differs=True),))


def _words(line: str, partner: str) -> Iterator[Piece]:
    """The line in pieces, those apart that its partner has not."""
    words, others = _WORD.findall(line), _WORD.findall(partner)
    if not partner.strip() or max(len(words), len(others)) > _MAX_COMPARED_WORDS:
        yield Piece(line, differs=True)
        return
    matcher = SequenceMatcher(None, others, words, autojunk=False)
    for tag, _, _, start, end in matcher.get_opcodes():
        if end > start:
            yield Piece("".join(words[start:end]), differs=tag != "equal")
