"""Numbers of public programming problems, told by their text where a log has no number.

`known_problems.json` maps a digest to a canonical id: of the prompt of a HumanEval problem, or of
the asserts of an MBPP problem as Python writes them, one a line. It holds no text, and only
problems that a log with text and number has shown; any other keeps the id of its source.
"""

import functools
from pathlib import Path
from typing import Final

import orjson

from harness_core.importers.tasks import digest_of

TABLE: Final = Path(__file__).with_suffix(".json")


def known_id(text: str) -> str | None:
    """The canonical id of the problem with this prompt or these asserts; None if it is unknown."""
    return _known().get(digest_of(text))


@functools.cache
def _known() -> dict[str, str]:
    table: dict[str, str] = orjson.loads(TABLE.read_bytes())
    return table
