"""Nested parameters and figures as the flat names and values that a run tracker takes."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

_MAX_NAME: Final = 250
_MAX_PARAM: Final = 6000
_MAX_DEPTH: Final = 4
_UNSAFE: Final = re.compile(r"[^\w\-./ :]")

_DETAILS: Final = frozenset(
    {
        *("by_family", "by_source", "families", "intervals", "versus", "test_slice", "sources"),
        *("n_paid", "means", "groups", "combination", "n_texts", "widths", "n_groups"),
    }
)
"""Parts of an evaluation that are tables of their own: they stay in its file and in the report."""


def flat_params(tree: Mapping[str, Any]) -> dict[str, str]:
    """`{"train": {"seed": 0}}` → `{"train.seed": "0"}`; a long value is cut and marked so."""
    return {
        ".".join(path)[:_MAX_NAME]: _cut(_as_text(value))
        for path, value in _leaves(tree, max_depth=None)
    }


def flat_metrics(tree: Mapping[str, Any], *, prefix: str) -> dict[str, float]:
    """`{"k": {"8": {"low": 1}}}` → `{"<prefix>/k8/low": 1.0}`: every finite number but the details.

    Flags count as 0 and 1; texts, lists and what is nested deeper than a chart can show are left
    out.
    """
    metrics = {}
    for path, value in _leaves(tree, max_depth=_MAX_DEPTH):
        is_number = isinstance(value, bool | int | float) and math.isfinite(value)
        if is_number and not _DETAILS.intersection(path):
            name = "/".join([prefix, *_join_sizes(path)])
            metrics[_UNSAFE.sub("_", name)[:_MAX_NAME]] = float(value)
    return metrics


def _leaves(
    tree: Mapping[str, Any], *, max_depth: int | None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in tree.items():
        here = (*path, str(name))
        if isinstance(value, Mapping) and value:
            if max_depth is None or len(here) < max_depth:
                yield from _leaves(value, max_depth=max_depth, path=here)
        else:
            yield here, value


def _join_sizes(path: tuple[str, ...]) -> list[str]:
    """K and its size are one word: `k8`, `k_all`."""
    names: list[str] = []
    for name in path:
        if names and names[-1] == "k":
            names[-1] = f"k{name}" if name.isdecimal() else f"k_{name}"
        else:
            names.append(name)
    return names


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_PARAM else f"{text[: _MAX_PARAM - 1]}…"
