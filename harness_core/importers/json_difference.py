"""The difference of two JSON values, as a JSON value, and how it is applied.

`patched(old, difference(old, new)) == new` for all values. A difference is an object with at most
these keys: `set` (another value altogether), or, for objects, `change`, `add` and `drop`, or, for
lists of equal length, `items`. Equal values have no difference, None.
"""

from collections.abc import Mapping
from typing import Any


def difference(old: Any, new: Any) -> dict[str, Any] | None:
    """What must be done to `old` to make it `new`; None if nothing."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _of_objects(old, new)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        items = {
            str(index): found
            for index, pair in enumerate(zip(old, new, strict=True))
            if (found := difference(*pair)) is not None
        }
        return {"items": items} if items else None
    # True equals 1 in Python, not in JSON.
    return None if old == new and type(old) is type(new) else {"set": new}


def patched(old: Any, change: Mapping[str, Any] | None) -> Any:
    """`old` with a difference applied; `old` itself is left alone."""
    if change is None:
        return old
    if "set" in change:
        return change["set"]
    if "items" in change:
        items = change["items"]
        return [patched(value, items.get(str(index))) for index, value in enumerate(old)]
    dropped = set(change.get("drop", ()))
    changes = change.get("change", {})
    kept = {
        key: patched(value, changes.get(key)) for key, value in old.items() if key not in dropped
    }
    return kept | change.get("add", {})


def _of_objects(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any] | None:
    changes = {
        key: found
        for key in old
        if key in new and (found := difference(old[key], new[key])) is not None
    }
    parts = {
        "change": changes,
        "add": {key: value for key, value in new.items() if key not in old},
        "drop": [key for key in old if key not in new],
    }
    return {name: part for name, part in parts.items() if part} or None
