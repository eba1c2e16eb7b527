"""Where in a YAML file a part of it stands, so that a complaint can name the line."""

from collections.abc import Sequence
from typing import NamedTuple

import yaml


class DoubledKey(NamedTuple):
    """A key that a mapping holds twice; YAML would silently keep the last one."""

    key: str
    line: int


def doubled_key(node: yaml.Node | None) -> DoubledKey | None:
    """The first key that stands twice in one mapping."""
    if isinstance(node, yaml.SequenceNode):
        found = (doubled_key(item) for item in node.value)
        return next((item for item in found if item is not None), None)
    if not isinstance(node, yaml.MappingNode):
        return None
    seen: set[str] = set()
    for key, value in node.value:
        if key.value in seen:
            return DoubledKey(key.value, key.start_mark.line + 1)
        seen.add(key.value)
        if (inner := doubled_key(value)) is not None:
            return inner
    return None


def line_of(location: Sequence[int | str], node: yaml.Node | None) -> int:
    """The line where a part of the document begins, or the nearest part around it that is there."""
    line = 1 if node is None else node.start_mark.line + 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(part)]
            if not found:
                return line
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
