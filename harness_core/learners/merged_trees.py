"""Several boosted models as one: the weighted sum of their scores, asked for with a single call.

A call of LightGBM costs as much as ten trees for a handful of rows, and what serves asks for a
handful of rows. A boosted model is a sum over its trees, so a weighted sum of models is one model
with all their trees and leaves that are worth so much more or less. It is put together from the
text that LightGBM itself writes, and only ever used to predict.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

import lightgbm

_END: Final = "end of trees"
_FIRST: Final = "Tree=0\n"
_LEAVES: Final = "leaf_value="
_NUMBER: Final = "Tree="
_SIZES: Final = "tree_sizes="
"""Bytes of each tree; where it is missing, they are read one after the other."""


def merge_members(members: Sequence[tuple[lightgbm.Booster, float]]) -> lightgbm.Booster:
    """A model whose raw score is the sum of the members' raw scores times their weights.

    The members see the same columns; there is at least one.
    """
    texts = [member.model_to_string() for member, _ in members]
    head = texts[0].partition(_FIRST)[0]
    lines = [line for line in head.splitlines() if not line.startswith(_SIZES)]
    numbers = count()
    for text, (_, weight) in zip(texts, members, strict=True):
        lines += _trees(text, weight, numbers)
    return lightgbm.Booster(model_str="\n".join([*lines, _END, ""]))


def _trees(text: str, weight: float, numbers: Iterator[int]) -> Iterator[str]:
    """The lines of a model's trees, with new numbers and leaves of another worth."""
    body = text[text.index(_FIRST) : text.index(_END)]
    for line in body.splitlines():
        if line.startswith(_LEAVES):
            values = line.removeprefix(_LEAVES).split()
            yield _LEAVES + " ".join(repr(float(value) * weight) for value in values)
        elif line.startswith(_NUMBER):
            yield f"{_NUMBER}{next(numbers)}"
        else:
            yield line
