"""What an ATIF document says beyond the one that we would write of the same trajectory.

A residue holds `root` and `steps`, the differences of keys and of steps, and, where the steps of
others stand elsewhere, `others`: all steps in their order, with null for those of the agent.
"""

from typing import Final, NamedTuple

from harness_core.importers.json_difference import difference, patched
from harness_core.trajectories.schema import JsonObject

SCHEMA_VERSION: Final = "ATIF-v1.8"


class _Sides(NamedTuple):
    """Steps of a document, apart."""

    own: list[JsonObject]
    """Of the agent, told for the first time."""
    pattern: tuple[str, ...]
    """For each step `own`, or whose it is."""


def is_own(step: JsonObject) -> bool:
    """Whether a step of a document becomes a step of the trajectory."""
    return step["source"] == "agent" and not step.get("is_copied_context")


def residue_of(*, written: JsonObject, document: JsonObject) -> JsonObject:
    """What turns our document into theirs; empty if nothing must be done."""
    ours, theirs = _sides(written), _sides(document)
    aligned = ours.pattern == theirs.pattern
    pairs = zip(written["steps"], document["steps"], strict=True) if aligned else ()
    own_pairs = pairs if aligned else zip(ours.own, theirs.own, strict=True)
    parts: JsonObject = {
        "root": difference(_root(written), _root(document)),
        "steps": {
            str(index): found
            for index, (old, new) in enumerate(own_pairs)
            if (found := difference(_unnumbered(old), _unnumbered(new))) is not None
        },
    }
    if not aligned:
        parts["others"] = [
            None if is_own(step) else _unnumbered(step) for step in document["steps"]
        ]
    return {key: value for key, value in parts.items() if value}


def with_residue(document: JsonObject, residue: JsonObject) -> JsonObject:
    """Their document, from ours and what turned it into theirs."""
    changes = residue.get("steps", {})
    steps = [_unnumbered(step) for step in document["steps"]]
    others = residue.get("others")
    if others is not None:
        steps = [step for step in steps if is_own(step)]
    steps = [patched(step, changes.get(str(index))) for index, step in enumerate(steps)]
    if others is not None:
        own = iter(steps)
        steps = [next(own) if step is None else step for step in others]
    numbered = [{"step_id": number} | step for number, step in enumerate(steps, start=1)]
    root: JsonObject = patched(_root(document), residue.get("root"))
    return {"schema_version": SCHEMA_VERSION} | root | {"steps": numbered}


def _sides(document: JsonObject) -> _Sides:
    steps = document["steps"]
    return _Sides(
        own=[step for step in steps if is_own(step)],
        pattern=tuple("own" if is_own(step) else step["source"] for step in steps),
    )


def _root(document: JsonObject) -> JsonObject:
    return {key: value for key, value in document.items() if key not in ("schema_version", "steps")}


def _unnumbered(step: JsonObject) -> JsonObject:
    return {key: value for key, value in step.items() if key != "step_id"}
