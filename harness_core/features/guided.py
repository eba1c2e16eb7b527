"""The logged steps at which guidance might have been drawn: state, draw, and what came of it.

What came of it is a label: the mean success of all that was proposed under the guidance where the
candidates of the step were judged, else the success of the whole attempt. Success of a dangerous
candidate counts as none, since the hard filter takes it out.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from harness_core.features.batch import Flags, Floats, Integers
from harness_core.features.interim import (
    CANDIDATES_PATH,
    FEATURES_PATH,
    STEPS_PATH,
    Folder,
)
from harness_core.features.load import read_schema
from harness_core.features.table import states_schema
from harness_core.tables import read_table
from harness_core.trajectories import arrow
from harness_core.trajectories.guidance import ARGUMENT, Guided, guidance_of
from harness_core.trajectories.vocabulary import GroupKind, Split
from harness_core.transitions.table import CANDIDATES

NO_TEMPLATE: Final = ""

_STATE_KEY: Final = ("trajectory_id", "step_index")

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidedSteps:
    """N steps at which a template might have been drawn, in the order of the log."""

    state: Floats  # [N, Ds] before the step
    is_first: Flags  # [N] whether nothing had been done before
    template: npt.NDArray[np.str_]  # [N] id of what was drawn, empty for no template
    propensity: Floats  # [N] probability of that draw
    success: Floats  # [N] label in [0, 1]
    fold: Integers  # [N]; −1 for the frozen test slice
    split: npt.NDArray[np.str_]  # [N]
    task_id: npt.NDArray[np.str_]  # [N]

    def __len__(self) -> int:
        return len(self.success)

    def take(self, rows: npt.NDArray[Any]) -> "GuidedSteps":
        """The steps of some rows, given by number or by flag."""
        fields = {name: getattr(self, name)[rows] for name in GuidedSteps.__slots__}
        return GuidedSteps(**fields)


class _Label(NamedTuple):
    success: float
    row: Mapping[str, Any]


def load_guided_steps(workspace: Folder) -> GuidedSteps:
    """All guided steps of a working folder whose result is known; none where no log has guidance.

    Raises:
        NoDataError: a table is missing.
    """
    schema = read_schema(workspace)
    drawn = dict(_drawn(workspace))
    labels = _labels(workspace) if drawn else {}
    keys = [key for key in drawn if key in labels]
    return GuidedSteps(
        state=_states(workspace, keys, width=len(schema.state)),
        is_first=np.array([step_index == 0 for _, step_index in keys], dtype=np.bool_),
        template=np.array([drawn[key].id or NO_TEMPLATE for key in keys], dtype=np.str_),
        propensity=np.array([drawn[key].propensity for key in keys], dtype=np.float32),
        success=np.array([labels[key].success for key in keys], dtype=np.float32),
        fold=np.array([labels[key].row["fold"] for key in keys], dtype=np.int64),
        split=np.array([Split(labels[key].row["split"]) for key in keys], dtype=np.str_),
        task_id=np.array([labels[key].row["task_id"] for key in keys], dtype=np.str_),
    )


def _drawn(workspace: Folder) -> Iterator[tuple[_Key, Guided]]:
    columns = ("trajectory_id", "step_index", "action_arguments")
    steps = read_table(workspace.path(STEPS_PATH), arrow.STEPS, columns=columns)
    for batch in steps.to_batches():
        for trajectory_id, step_index, arguments in zip(
            *(batch.column(name).to_pylist() for name in columns), strict=True
        ):
            # Few logs have any; only their arguments are worth parsing.
            guided = guidance_of(orjson.loads(arguments)) if ARGUMENT in arguments else None
            if guided is not None:
                yield (trajectory_id, step_index), guided


def _labels(workspace: Folder) -> dict[_Key, _Label]:
    """What came of each step: by its own candidates, else by the attempt that it is part of."""
    columns = (
        *("kind", "trajectory_id", "step_index", "success", "dangerous"),
        *("task_id", "fold", "split"),
    )
    table = read_table(workspace.path(CANDIDATES_PATH), CANDIDATES, columns=columns)
    of_step: dict[_Key, list[Mapping[str, Any]]] = defaultdict(list)
    of_attempt: dict[_Key, list[Mapping[str, Any]]] = {}
    for row in table.to_pylist():
        if row["success"] is None:
            continue
        if row["kind"] == GroupKind.STEP:
            of_step[row["trajectory_id"], row["step_index"]].append(row)
        else:
            for step_index in range(row["step_index"] + 1):
                of_attempt[row["trajectory_id"], step_index] = [row]
    return {key: _label(rows) for key, rows in {**of_attempt, **of_step}.items()}


def _label(rows: list[Mapping[str, Any]]) -> _Label:
    worth = [0.0 if row["dangerous"] else row["success"] for row in rows]
    return _Label(float(np.mean(worth)), rows[0])


def _states(workspace: Folder, keys: list[_Key], *, width: int) -> Floats:
    if not keys:
        return np.zeros((0, width), dtype=np.float32)
    path = workspace.path(f"{FEATURES_PATH}/states.parquet")
    table = read_table(path, states_schema(width))
    places = {
        key: place
        for place, key in enumerate(
            zip(*(table.column(name).to_pylist() for name in _STATE_KEY), strict=True)
        )
    }
    rows = table.column("state").take([places[key] for key in keys]).combine_chunks()
    flat = rows.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=np.float32).reshape(len(keys), width)
