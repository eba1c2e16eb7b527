"""Vectors of actions and states as arrays, and as the feature tables of `features.table`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from harness_core.features.batch import Floats
from harness_core.features.frame import MAX_CHARS, Frame
from harness_core.features.table import SIGNALS, actions_schema, states_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureArrays:
    """The rows of a frame as vectors."""

    frame: Frame
    state: Floats  # [M, Ds]
    action: Floats  # [A, Da]
    agent_prior: Floats  # [trajectories]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureTables:
    """The feature tables of `features.table`."""

    states: pa.Table
    actions: pa.Table
    signals: pa.Table
    figures: dict[str, Any] = field(default_factory=dict)
    """Counts for the stage report."""


def tables_of(arrays: FeatureArrays, *, figures: Mapping[str, Any]) -> FeatureTables:
    """The tables of arrays; counts of rows and texts are added to the figures."""
    frame = arrays.frame
    return FeatureTables(
        states=_states_table(arrays),
        actions=_actions_table(arrays),
        signals=_signals_table(arrays),
        figures={
            "n_states": len(frame.states),
            "n_actions": len(frame.actions),
            "n_texts": {column: len(texts) for column, texts in frame.texts.items()},
            # As long as a text may be: most of these were cut, and only their end is encoded.
            "n_texts_at_limit": {
                column: sum(len(text) >= MAX_CHARS[column] for text in texts)
                for column, texts in frame.texts.items()
            },
            **figures,
        },
    )


def _states_table(arrays: FeatureArrays) -> pa.Table:
    frame = arrays.frame
    columns = [
        pa.array([frame.trajectory_ids[row.trajectory] for row in frame.states], pa.string()),
        pa.array([row.step_index for row in frame.states], pa.int32()),
        _vectors_column(arrays.state),
    ]
    return pa.Table.from_arrays(columns, schema=states_schema(arrays.state.shape[1]))


def _actions_table(arrays: FeatureArrays) -> pa.Table:
    columns = [*_action_keys(arrays.frame), _vectors_column(arrays.action)]
    return pa.Table.from_arrays(columns, schema=actions_schema(arrays.action.shape[1]))


def _signals_table(arrays: FeatureArrays) -> pa.Table:
    rows = arrays.frame.actions
    prior = arrays.agent_prior[[row.trajectory for row in rows]]
    columns = [
        *_action_keys(arrays.frame),
        pa.array([row.n_chars for row in rows], pa.int32()),
        pa.array([row.text_key for row in rows], pa.int64()),
        pa.array([row.answer_key for row in rows], pa.int64()),
        pa.array([row.submitted.visible_rate for row in rows], pa.float32()),
        pa.array([row.submitted.generated_passed for row in rows], pa.list_(pa.bool_())),
        pa.array([row.submitted.outputs for row in rows], pa.list_(pa.int64())),
        pa.array([row.submitted.made_outputs for row in rows], pa.list_(pa.int64())),
        pa.array(prior, pa.float32()),
    ]
    return pa.Table.from_arrays(columns, schema=SIGNALS)


def _action_keys(frame: Frame) -> list[pa.Array]:
    return [
        pa.array([frame.trajectory_ids[row.trajectory] for row in frame.actions], pa.string()),
        pa.array([row.step_index for row in frame.actions], pa.int32()),
        pa.array([row.candidate_index for row in frame.actions], pa.int32()),
    ]


def _vectors_column(vectors: Floats) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(vectors).ravel(), pa.float32())
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
