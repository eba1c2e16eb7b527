"""A shell text as simple commands: words without their quotes, commands inside commands too."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_HEREDOC: Final = re.compile(
    r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n(.*?)(?:\n\s*\2(?=\n|$)|$)", re.DOTALL
)
_KEYWORDS: Final = frozenset(
    {"then", "do", "else", "elif", "if", "while", "until", "!", "{", "time"}
)
_MAX_DEPTH: Final = 5


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command."""

    words: tuple[str, ...]
    is_piped: bool
    """Whether it reads what the command before it wrote."""
    before: tuple[str, ...]
    """Words of the command that it reads from."""


@dataclass(slots=True)
class _Lexer:
    text: str
    place: int = 0
    word: list[str] | None = None
    """Pieces of the word that is being read."""
    words: list[str] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    """Texts of `$(…)`, `<(…)` and backticks: commands of their own."""

    def pieces(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Words of each command and the separator behind it."""
        while self.place < len(self.text):
            character = self.text[self.place]
            if character in " \t\r":
                self._end_word()
            elif character in ";|&\n(){}" and not (character in "{}" and self.word):
                yield self._end_command(), self._separator()
            elif self.text.startswith(("<(", ">("), self.place):
                self._take_substitution()
            elif character in "<>":
                self._end_word()
                self.words.append(character)
            elif character == "#" and self.word is None:
                self._skip_comment()
                continue
            else:
                self._take(character)
            self.place += 1
        yield self._end_command(), ""

    def _take(self, character: str) -> None:
        if character == "\\":
            self.place += 1
            following = self.text[self.place : self.place + 1]
            if following != "\n":
                self._add(following)
        elif character == "'":
            end = self.text.find("'", self.place + 1)
            end = len(self.text) if end < 0 else end
            self._add(self.text[self.place + 1 : end])
            self.place = end
        elif character == '"':
            self._take_double_quoted()
        elif character == "`" or self.text.startswith("$(", self.place):
            self._take_substitution()
        else:
            self._add(character)

    def _take_double_quoted(self) -> None:
        self._add("")
        self.place += 1
        while self.place < len(self.text) and self.text[self.place] != '"':
            if self.text[self.place] == "`" or self.text.startswith("$(", self.place):
                self._take_substitution()
            else:
                if self.text[self.place] == "\\":
                    self.place += 1
                self._add(self.text[self.place : self.place + 1])
            self.place += 1

    def _take_substitution(self) -> None:
        if self.text[self.place] == "`":
            end = self.text.find("`", self.place + 1)
            start = self.place + 1
        else:
            start, end = self.place + 2, _closing(self.text, self.place + 2)
        end = len(self.text) if end < 0 else end
        self.inner.append(self.text[start:end])
        self._add(f"$({self.text[start:end]})")
        self.place = end

    def _add(self, piece: str) -> None:
        self.word = self.word if self.word is not None else []
        self.word.append(piece)

    def _end_word(self) -> None:
        if self.word is not None:
            self.words.append("".join(self.word))
            self.word = None

    def _end_command(self) -> tuple[str, ...]:
        self._end_word()
        words, self.words = tuple(self.words), []
        return words

    def _separator(self) -> str:
        pair = self.text[self.place : self.place + 2]
        if pair in {"||", "&&", "|&"}:
            self.place += 1
            return pair
        return self.text[self.place]

    def _skip_comment(self) -> None:
        end = self.text.find("\n", self.place)
        self.place = len(self.text) if end < 0 else end


def commands(text: str, *, depth: int = 0) -> Iterator[Command]:
    """All simple commands, those of `$(…)`, backticks and here-documents of a shell included."""
    if depth > _MAX_DEPTH:
        return
    bodies: list[str] = []
    text = _HEREDOC.sub(lambda match: _without_body(match, bodies), text)
    lexer = _Lexer(text)
    separator = ""
    before: tuple[str, ...] = ()
    for piece, following in lexer.pieces():
        words = _without_prefix(piece)
        if words:
            yield Command(words, is_piped=separator in {"|", "|&"}, before=before)
            before = words
        separator = following
    for inner in lexer.inner:
        yield from commands(inner, depth=depth + 1)
    for body in bodies:
        yield from commands(body, depth=depth + 1)


def _without_body(match: re.Match[str], bodies: list[str]) -> str:
    line_start = match.string.rfind("\n", 0, match.start()) + 1
    if re.search(r"\b(ba|z|da|k)?sh\b", match.string[line_start : match.start()]):
        bodies.append(match[4])
    return match[3]


def _without_prefix(words: tuple[str, ...]) -> tuple[str, ...]:
    """Without keywords and assignments in front."""
    index = 0
    while index < len(words) and (
        words[index] in _KEYWORDS or re.match(r"[A-Za-z_]\w*=", words[index])
    ):
        index += 1
    return words[index:]


def _closing(text: str, start: int) -> int:
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return -1
