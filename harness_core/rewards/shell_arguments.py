"""Words of a shell command taken apart: its name, its options, what is left, sizes."""

import re
from collections.abc import Sequence


def name_of(words: Sequence[str]) -> str:
    """The name of a command without its folder."""
    return words[0].rpartition("/")[2] if words else ""


def plain(arguments: Sequence[str]) -> list[str]:
    """Arguments that are no options."""
    rest = list(arguments)
    if "--" in rest:
        place = rest.index("--")
        return [word for word in rest[:place] if not word.startswith("-")] + rest[place + 1 :]
    return [word for word in rest if not word.startswith("-") or word == "-"]


def flags(arguments: Sequence[str]) -> set[str]:
    """Single letters and long names of options: `-rf --all` is r, f and all."""
    found: set[str] = set()
    for word in arguments:
        if word == "--":
            break
        if word.startswith("--"):
            found.add(word[2:].partition("=")[0])
        elif word.startswith("-"):
            found |= set(word[1:])
    return found


def option_values(arguments: Sequence[str], short: str, long: str) -> list[str]:
    """Values of an option, apart or joined to it: `-o x`, `-ox`, `--output=x`, `-so x`."""
    found: list[str] = []
    for place, word in enumerate(arguments):
        if word in {short, long} or re.fullmatch(rf"-[a-zA-Z]+{short[1]}", word):
            found += arguments[place + 1 : place + 2]
        elif word.startswith(f"{long}="):
            found.append(word.partition("=")[2])
        elif word.startswith(short) and len(word) > len(short) and not word.startswith("--"):
            found.append(word[len(short) :])
    return found


def size_of(text: str) -> int:
    """A number of bytes: `4096`, `1G`, `100MB`."""
    found = re.fullmatch(r"(\d{1,18})([kKMGTPE]?)i?B?", text)
    return int(found[1]) << (10 * " KMGTPE".index(found[2].upper() or " ")) if found else 0
