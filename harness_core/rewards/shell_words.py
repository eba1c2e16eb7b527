"""A shell text as simple commands: words without their quotes, commands inside commands too.

Nothing is run. Variables are replaced by what the text itself gave them, words in braces are spread
out, escapes between `$'` and `'` are decoded: what is left of a word is what a shell would make of
it, as far as the text says.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

MAX_SHELL_CHARS: Final = 200_000
_HEREDOC: Final = re.compile(
    r"(?<!<)<<(?!<)-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(.*?)(?:(?:(?<=\n)|\n)[ \t]*\2(?=\n|$)|$)",
    re.DOTALL,
)
_MARK: Final = "\0"
"""What stands for a here-document in the text, in front of its number."""
_KEYWORDS: Final = frozenset(
    {"then", "do", "else", "elif", "if", "while", "until", "!", "{", "time", "function", "coproc"}
)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::?[-=]([^{}]*))?\})")
_REDIRECTION: Final = re.compile(r"&>>?|<<<|<>|[<>]&|>>|>\||[<>]")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_BRACES: Final = re.compile(r"\{([^\s{}'\"]*,[^\s{}'\"]*)\}(?=[\s;|&]|$)")
_ANSI: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "e": "\x1b", "0": "\0"}
_MAX_DEPTH: Final = 5
_MAX_PIPELINE: Final = 15
_MAX_VALUE: Final = 2_000


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command."""

    words: tuple[str, ...]
    before: "tuple[Command, ...]" = ()
    """The commands whose output reaches it through pipes, the nearest one last."""
    redirections: tuple[tuple[str, str], ...] = ()
    """Operator and target: `(">", "notes.txt")`."""
    given: str | None = None
    """The text of its here-document or here-string."""


@dataclass(slots=True)
class _Lexer:
    text: str
    bodies: list[str]
    variables: dict[str, str]
    place: int = 0
    word: list[str] | None = None
    """Pieces of the word that is being read."""
    words: list[str] = field(default_factory=list)
    operator: str = ""
    """A redirection whose target has not been read yet."""
    redirections: list[tuple[str, str]] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    """Texts of `$(…)`, `<(…)` and backticks: commands of their own."""

    def pieces(self) -> Iterator[tuple[tuple[str, ...], tuple[tuple[str, str], ...], str]]:
        """Words and redirections of each command, and the separator behind it."""
        while self.place < len(self.text):
            character = self.text[self.place]
            if character in " \t\r":
                self._end_word()
            elif self.text.startswith(("<(", ">("), self.place):
                self._take_substitution()
            elif (operator := _REDIRECTION.match(self.text, self.place)) is not None:
                self._begin_redirection(operator[0])
                self.place = operator.end()
                continue
            elif self.word is None and (braces := _BRACES.match(self.text, self.place)):
                self.words.extend(braces[1].split(","))
                self.place = braces.end()
                continue
            elif character in ";|&\n(){}" and not (character in "{}" and self.word):
                yield *self._end_command(), self._separator()
            elif character == "#" and self.word is None:
                self._skip_comment()
                continue
            else:
                self._take(character)
            self.place += 1
        yield *self._end_command(), ""

    def _begin_redirection(self, operator: str) -> None:
        if self.word is not None and "".join(self.word).isdecimal():
            self.word = None  # the number of a file descriptor
        self._end_word()
        self.operator = operator

    def _take(self, character: str) -> None:
        if character == "\\":
            self.place += 1
            following = self.text[self.place : self.place + 1]
            if following != "\n":
                self._add(following)
        elif character == "'":
            self._take_single_quoted()
        elif character == '"':
            self._take_double_quoted()
        elif character == "`" or self.text.startswith("$(", self.place):
            self._take_substitution()
        elif character == "$":
            self._take_dollar(quoted=False)
        else:
            self._add(character)

    def _take_single_quoted(self) -> None:
        end = self.text.find("'", self.place + 1)
        end = len(self.text) if end < 0 else end
        self._add(self.text[self.place + 1 : end])
        self.place = end

    def _take_double_quoted(self) -> None:
        self._add("")
        self.place += 1
        while self.place < len(self.text) and self.text[self.place] != '"':
            if self.text[self.place] == "`" or self.text.startswith("$(", self.place):
                self._take_substitution()
            elif self.text[self.place] == "$":
                self._take_dollar(quoted=True)
            else:
                if self.text[self.place] == "\\":
                    self.place += 1
                self._add(self.text[self.place : self.place + 1])
            self.place += 1

    def _take_dollar(self, *, quoted: bool) -> None:
        if not quoted and self.text.startswith("$'", self.place):
            end = re.compile(r"(?:[^'\\]|\\.)*", re.DOTALL).match(self.text, self.place + 2)
            raw = end[0] if end else ""
            self._add(_ESCAPE.sub(_unescaped, raw))
            self.place += 2 + len(raw)
            return
        variable = _VARIABLE.match(self.text, self.place)
        if variable is None:
            self._add("$")
            return
        self.place = variable.end() - 1
        name = variable[1] or variable[2]
        if name == "IFS":
            self._end_word()
            return
        value = self.variables.get(name, variable[3])
        if value is None:
            self._add(f"${name}")
        elif quoted:
            self._add(value)
        else:
            self._add_split(value)

    def _add_split(self, value: str) -> None:
        """The value of a variable without quotes falls into words."""
        parts = value.split()
        for number, part in enumerate(parts):
            if number:
                self._end_word()
            self._add(part)

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
        if self.word is None:
            return
        word, self.word = "".join(self.word), None
        if self.operator:
            self.redirections.append((self.operator, word))
            self.operator = ""
        else:
            self.words.append(word)

    def _end_command(self) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        self._end_word()
        words, self.words = tuple(self.words), []
        redirections, self.redirections, self.operator = tuple(self.redirections), [], ""
        self._remember(words)
        return words, redirections

    def _remember(self, words: tuple[str, ...]) -> None:
        for word in words[1:] if words[:1] in {("export",), ("declare",), ("local",)} else words:
            assignment = _ASSIGNMENT.fullmatch(word)
            if assignment is None:
                return
            if len(assignment[2]) <= _MAX_VALUE:
                self.variables[assignment[1]] = assignment[2]

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
    """All simple commands in their order, those of `$(…)` and backticks last."""
    if depth > _MAX_DEPTH:
        return
    bodies: list[str] = []
    text = _HEREDOC.sub(lambda match: _marked(match, bodies), text)
    lexer = _Lexer(text, bodies, {})
    separator = ""
    before: tuple[Command, ...] = ()
    for piece, redirections, following in lexer.pieces():
        words = _without_prefix(piece)
        if words or redirections:
            given = next((to for operator, to in redirections if operator == "<<<"), None)
            command = Command(
                words=words,
                before=before if separator in {"|", "|&"} else (),
                redirections=redirections,
                given=_body(given, bodies),
            )
            yield command
            before = (*command.before[-_MAX_PIPELINE:], command)
        separator = following
    for inner in lexer.inner:
        yield from commands(inner, depth=depth + 1)


def _marked(match: re.Match[str], bodies: list[str]) -> str:
    bodies.append(match[4])
    return f"<<<{_MARK}{len(bodies) - 1} {match[3]}\n"


def _body(given: str | None, bodies: list[str]) -> str | None:
    if given is None or not given.startswith(_MARK):
        return given
    number = given.removeprefix(_MARK)
    known = number.isdecimal() and int(number) < len(bodies)
    return bodies[int(number)] if known else None


def _without_prefix(words: tuple[str, ...]) -> tuple[str, ...]:
    """Without keywords and assignments in front."""
    index = 0
    while index < len(words) and (words[index] in _KEYWORDS or _ASSIGNMENT.fullmatch(words[index])):
        index += 1
    return words[index:]


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    if match[2]:
        return chr(int(match[2], 8) % 256)
    return _ANSI.get(match[3], match[3])


def _closing(text: str, start: int) -> int:
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return -1
