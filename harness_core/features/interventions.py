"""Interventions of logged trajectories and of requests, from the visible part of both.

One table beside the feature tables, `data/features/interventions.parquet`. It holds no feature: the
actor learns to predict its first column among what its second allows.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from harness_core.features.batch import UNKNOWN_INTERVENTION, Flags, TransitionArrays
from harness_core.features.contents import StepContent, TaskContent, TrajectoryContent
from harness_core.tables import read_table
from harness_core.trajectories.vocabulary import ActionKind
from harness_core.transitions.interventions import Harness, Situation, StepFacts, may_hand_over

INTERVENTIONS_FILE: Final = "interventions.parquet"

INTERVENTION_TABLE: Final = pa.schema(
    [
        pa.field("trajectory_id", pa.string()),
        pa.field("step_index", pa.int32()),
        pa.field("intervention", pa.string()),
        pa.field("legal", pa.list_(pa.string())),
    ]
)
"""One row a state s_0 … s_T. `intervention` is what the step taken there amounts to; a last state
has `submit`, since that is what its virtual row does. It is null where the log did what the mask
forbids (an agent that handed in before it had anything): nothing is learnt from such a row."""

_KINDS: Final = tuple(ActionKind)


def intervention_rows(contents: Sequence[TrajectoryContent]) -> list[dict[str, Any]]:
    """The rows of `INTERVENTION_TABLE`, in the order of the trajectories.

    The tools of a source are all that any of its runs called: what can be called is a property of
    the environment, though a log shows only what was.
    """
    tools: dict[str, set[str]] = defaultdict(set)
    for content in contents:
        tools[content.task.source].update(tool for tool in map(tool_of, content.steps) if tool)
    rows = []
    for content in contents:
        known = frozenset(tools[content.task.source])
        situation = Situation(harness=harness_of(content.task, known))
        for index, step in enumerate((*content.steps, None)):
            legal = situation.legal()
            facts = None if step is None else step_facts(step)
            taken = ActionKind.SUBMIT if facts is None else situation.intervention_of(facts)
            rows.append(
                {
                    "trajectory_id": content.trajectory_id,
                    "step_index": index,
                    "intervention": taken.value if taken in legal else None,
                    "legal": [kind.value for kind in legal],
                }
            )
            if facts is not None:
                situation = situation.after(facts)
    return rows


def situation_after(
    task: TaskContent, steps: Iterable[StepContent], harness: Harness | None = None
) -> Situation:
    """Where a run stands after these steps; without a harness, one with the tools it called."""
    taken = tuple(steps)
    called = frozenset(tool for tool in map(tool_of, taken) if tool)
    situation = Situation(harness=harness or harness_of(task, called))
    for step in taken:
        situation = situation.after(step_facts(step))
    return situation


def harness_of(
    task: TaskContent, tools: frozenset[str], *, attempts_left: int | None = None
) -> Harness:
    """What the harness can do at a task; it may escalate where a tool hands the task over."""
    return Harness(
        language=task.language,
        has_checks=bool(task.visible_checks or task.generated_checks),
        tools=tools,
        may_escalate=any(map(may_hand_over, tools)),
        attempts_left=attempts_left,
    )


def step_facts(step: StepContent) -> StepFacts:
    """The facts of a step that the mapping reads."""
    action = step.taken
    return StepFacts(
        kind=action.kind,
        text=action.text,
        tool=tool_of(step),
        arguments=action.arguments,
        is_error=step.is_error,
    )


def tool_of(step: StepContent) -> str:
    """Name of the tool that a step calls; empty when it calls none."""
    if step.taken.kind is not ActionKind.TOOL_CALL:
        return ""
    arguments = orjson.loads(step.taken.arguments or b"{}")
    name = arguments.get("name") if isinstance(arguments, dict) else None
    return name if isinstance(name, str) else ""


def read_interventions(folder: Path) -> pa.Table | None:
    """The table of a feature folder; None in one that an earlier version wrote."""
    path = folder / INTERVENTIONS_FILE
    return read_table(path, INTERVENTION_TABLE) if path.exists() else None


def with_interventions(
    arrays: TransitionArrays, keys: Sequence[tuple[str, int]], table: pa.Table
) -> TransitionArrays:
    """The transitions with the interventions of their states; `keys` [N] are theirs in order."""
    known = {
        (row["trajectory_id"], row["step_index"]): row
        for batch in table.to_batches()
        for row in batch.to_pylist()
    }
    rows = [known[key] for key in keys]
    words = [row["intervention"] for row in rows]
    return replace(
        arrays,
        intervention=np.array(
            [UNKNOWN_INTERVENTION if word is None else _KINDS.index(word) for word in words],
            dtype=np.int64,
        ),
        legal=legal_flags([row["legal"] for row in rows]),
    )


def legal_flags(legal: Sequence[Sequence[str]]) -> Flags:
    """Which words of `ActionKind` are legal, [N, kinds]."""
    place: Mapping[str, int] = {kind.value: index for index, kind in enumerate(_KINDS)}
    flags = np.zeros((len(legal), len(_KINDS)), dtype=np.bool_)
    for row, words in enumerate(legal):
        flags[row, [place[word] for word in words]] = True
    return flags
