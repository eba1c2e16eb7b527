"""The part of `train` that keeps what states the model knows, to tell a strange one by."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness_core.controller.strangeness import KnownStates
from harness_core.features.batch import TransitionArrays
from harness_core.features.load import read_schema
from harness_core.features.pipeline import FeaturePipeline
from harness_core.stages.dag import FEATURES, TASKS, TRAJECTORIES, Workspace
from harness_core.tables import read_table
from harness_core.trajectories import arrow

_PIPELINE: Final = "pipeline"
_TEXTS: Final = ("source", "task_id", "description", "initial_state")
_DIGITS: Final = 6

_Key = tuple[str, str]


def learn_known_states(
    workspace: Workspace, arrays: TransitionArrays, sources: npt.NDArray[np.str_], *, seed: int
) -> KnownStates | None:
    """Reference states of the development tasks; None where logs do not say what a task was.

    Args:
        workspace: with features and interim tables.
        arrays: transitions of development tasks [N].
        sources: of each of them [N].
        seed: of the choice of states.
    """
    # Features that were made without texts, as synthetic ones are, hold no tasks either.
    if not workspace.path(TRAJECTORIES).exists():
        return None
    texts = _texts(workspace)
    keys: list[_Key] = list(zip(sources.tolist(), arrays.task_id.tolist(), strict=True))
    names = sorted(set(keys))
    number = {key: place for place, key in enumerate(names)}
    pipeline = FeaturePipeline.load(workspace.path(FEATURES) / _PIPELINE, cache=workspace.cache)
    return KnownStates.fit(
        arrays.state,
        pipeline.task_vectors([texts[key] for key in names]),
        columns=read_schema(workspace).state,
        fold=arrays.fold,
        task_number=np.array([number[key] for key in keys], dtype=np.int64),
        seed=seed,
    )


def figures_of(known: KnownStates | None) -> dict[str, Any]:
    """What the report says of it."""
    if known is None:
        return {"n_states": 0}
    quantiles = np.quantile(known.distance, [0.5, 0.9, 0.99])
    names = ("median_distance", "distance_90", "distance_99")
    return {
        "n_states": len(known.distance),
        **{
            name: round(float(value), _DIGITS) for name, value in zip(names, quantiles, strict=True)
        },
    }


def _texts(workspace: Workspace) -> dict[_Key, str]:
    """What stands for each task, as features see it; the table of tasks has the last word."""
    texts: dict[_Key, str] = {}
    for path, schema in ((TRAJECTORIES, arrow.TRAJECTORIES), (TASKS, arrow.TASKS)):
        if workspace.path(path).exists():
            table = read_table(workspace.path(path), schema, columns=_TEXTS)
            for row in table.to_pylist():
                text = row["description"] or row["initial_state"] or ""
                texts[row["source"], row["task_id"]] = text
    return texts
