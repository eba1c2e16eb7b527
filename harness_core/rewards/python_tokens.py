"""Dotted names that a text which is no Python program seems to call: the second-best look."""

import io
import tokenize
from collections.abc import Iterator, Sequence
from itertools import pairwise


def called_names(text: str) -> Iterator[str]:
    """Every `name` or `module.name` in front of a bracket, outside strings and comments.

    Names that an `import` brings in are given in full.
    """
    words = list(_words(text))
    known = _imported(words)
    name = ""
    for word in words:
        if word == "(" and name:
            head, dot, rest = name.partition(".")
            yield f"{known.get(head, head)}{dot}{rest}"
        if word == "." or name.endswith("."):
            name += word
        else:
            name = word if word.isidentifier() else ""


def _words(text: str) -> Iterator[str]:
    """Names and operators; a line that breaks the tokenizer is left out."""
    lines = text.split("\n")
    start = 0
    while start < len(lines):
        read = io.StringIO("\n".join(lines[start:])).readline
        line = 0
        try:
            for token in tokenize.generate_tokens(read):
                line = token.start[0]
                if token.type in {tokenize.NAME, tokenize.OP, tokenize.NEWLINE}:
                    yield token.string
        except IndentationError:
            start += max(1, line)
            continue
        except tokenize.TokenError:
            pass  # a string or bracket is never closed; all before it was seen
        return


def _imported(words: Sequence[str]) -> dict[str, str]:
    """What `from module import name as other` and `import module as other` bind."""
    known: dict[str, str] = {}
    module = ""
    for index, (word, following) in enumerate(pairwise(words)):
        if word == "from":
            module = _dotted(words, index + 1)
        elif word == "import" and module:
            known |= {name: f"{module}.{name}" for name in _listed(words, index + 1)}
            module = ""
        elif word == "as" and index:
            known[following] = known.get(words[index - 1], words[index - 1])
    return known


def _dotted(words: Sequence[str], start: int) -> str:
    name = ""
    for place in range(start, len(words)):
        word = words[place]
        if word != "." and not (word.isidentifier() and (not name or name.endswith("."))):
            break
        name += word
    return name


def _listed(words: Sequence[str], start: int) -> Iterator[str]:
    for place in range(start, len(words)):
        word = words[place]
        if word in {"\n", "", ")", "from", "import"}:
            return
        if word.isidentifier() and word != "as":
            yield word
