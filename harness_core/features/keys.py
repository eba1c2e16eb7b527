"""Texts and values as 63-bit numbers that are equal when the contents are.

A key is positive, so that 0 can mean "nothing there".
"""

import hashlib
import math
import re
from typing import Any, Final

_MASK: Final = (1 << 63) - 1
_ANSWER: Final = re.compile(
    r"(?:\banswer\s*(?:is\b|:|=)|####|\\boxed)\s*(?P<answer>[^\n]*)", re.IGNORECASE
)


def text_key(text: str) -> int:
    """Key of a text up to white space; 0 for an empty one."""
    normal = " ".join(text.split())
    return _key(normal) if normal else 0


def answer_key(message: str) -> int:
    """Key of the answer that a message ends in ("the answer is …"), else of all of it."""
    marked = list(_ANSWER.finditer(message))
    answer = marked[-1].group("answer").strip(" .*${}") if marked else ""
    return text_key((answer or message).lower())


def value_key(value: Any) -> int:
    """Key of pure builtin data: two values that compare equal have the same key.

    Real numbers are compared to nine digits, since honest programs add in different orders.
    """
    return _key(_canonical(value))


def _key(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") & _MASK) or 1


def _canonical(value: Any) -> str:
    if isinstance(value, bool | int | float | complex):
        return _number(value)
    if isinstance(value, dict):
        items = sorted(f"{_canonical(key)}:{_canonical(item)}" for key, item in value.items())
        return f"{{{','.join(items)}}}"
    if isinstance(value, set | frozenset):
        return f"set({','.join(sorted(map(_canonical, value)))})"
    if isinstance(value, list | tuple):
        left, right = "[]" if isinstance(value, list) else "()"
        return f"{left}{','.join(map(_canonical, value))}{right}"
    return repr(value)


def _number(value: complex) -> str:
    if isinstance(value, bool | int):
        # Not decimal: a very long integer would be refused or slow.
        return f"{int(value):x}"
    if isinstance(value, float):
        if math.isfinite(value) and value.is_integer():
            return f"{int(value):x}"
        return f"{value:.9g}"
    return f"complex({_number(value.real)},{_number(value.imag)})"
