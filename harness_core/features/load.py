"""Feature tables as the arrays that learners and evaluation take.

Labels (`success`, `dangerous`, rewards) are joined here, beside the features and never inside them.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness_core.errors import DataError, ModelError
from harness_core.features.batch import (
    DecisionGroup,
    Flags,
    Floats,
    GroupSignals,
    Integers,
    TransitionArrays,
)
from harness_core.features.interim import (
    CANDIDATES_PATH,
    DATASETS_PATH,
    FEATURES_PATH,
    TRANSITIONS_PATH,
    Folder,
)
from harness_core.features.interventions import read_interventions, with_interventions
from harness_core.features.set_relative import SET_RELATIVE, set_relative
from harness_core.features.table import SIGNALS, FeatureSchema, actions_schema, states_schema
from harness_core.rewards.table import COMPONENTS
from harness_core.tables import check_table, read_table
from harness_core.trajectories.vocabulary import ActionKind, GroupKind, Split
from harness_core.transitions.table import CANDIDATES, TRANSITIONS

SCHEMA_FILE: Final = "schema.json"

_LAST_ACTION: Final = "last_action."


def read_schema(workspace: Folder) -> FeatureSchema:
    """The schema of the feature tables of a working folder."""
    path = workspace.path(f"{FEATURES_PATH}/{SCHEMA_FILE}")
    try:
        return FeatureSchema.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path} cannot be read; run the features stage first") from error


def load_groups(workspace: Folder) -> list[DecisionGroup]:
    """All decision groups of a working folder, in the order of their ids.

    Raises:
        NoDataError: a table is missing.
        DataError: the tables do not belong together.
    """
    schema = read_schema(workspace)
    candidates = read_table(workspace.path(CANDIDATES_PATH), CANDIDATES)
    return groups_from(
        candidates,
        _read(workspace, "states", states_schema(len(schema.state))),
        _read(workspace, "actions", actions_schema(len(schema.action))),
        _read(workspace, "signals", SIGNALS),
    )


def groups_from(
    candidates: pa.Table, states: pa.Table, actions: pa.Table, signals: pa.Table
) -> list[DecisionGroup]:
    """The decision groups of a candidates table with the features of its rows."""
    features = _Features(states, actions, signals)
    rows = candidates.to_pylist()
    return [
        _group(group_id, list(group), features)
        for group_id, group in groupby(rows, key=itemgetter("group_id"))
    ]


def load_transitions(workspace: Folder) -> TransitionArrays:
    """All transitions of a working folder, in order.

    An action's vector ends in its set-relative features where it was taken from logged candidates,
    and in zeros where it was the only one. Interventions are unknown in a feature folder that was
    written before there were any.

    Raises:
        NoDataError: a table is missing.
        DataError: the tables do not belong together.
    """
    schema = read_schema(workspace)
    table = read_table(workspace.path(TRANSITIONS_PATH), TRANSITIONS)
    states = _read(workspace, "states", states_schema(len(schema.state)))
    within = _taken_within_group(load_groups(workspace), _taken_keys(workspace))
    arrays = transitions_from(table, states, schema, within)
    interventions = read_interventions(workspace.path(FEATURES_PATH))
    if interventions is None:
        return arrays
    return with_interventions(arrays, _keys(table), interventions)


def transitions_from(
    transitions: pa.Table,
    states: pa.Table,
    schema: FeatureSchema,
    within_group: Mapping[tuple[str, int], Floats],
) -> TransitionArrays:
    """The transitions of a table; `within_group` has the set-relative features of taken actions."""
    keys = _keys(transitions)
    index = _index(states, ("trajectory_id", "step_index"))
    state_vectors = _vectors(states, "state")
    is_virtual = transitions.column("is_virtual").to_numpy(zero_copy_only=False).astype(bool)
    at = np.array([_row(index, key) for key in keys], dtype=np.int64)
    # s_(t+1) of a logged action exists always; a virtual submit has none.
    after = np.array(
        [
            at[number] if is_virtual[number] else _row(index, (key[0], key[1] + 1))
            for number, key in enumerate(keys)
        ],
        dtype=np.int64,
    )
    state, next_state = state_vectors[at], state_vectors[after]
    # The state after an action holds the vector of that action: the same one, by construction.
    action = np.zeros((len(keys), len(schema.action) + len(SET_RELATIVE)), dtype=np.float32)
    action[:, : len(schema.action)] = next_state[:, _last_action_block(schema)]
    action[is_virtual] = 0.0
    action[is_virtual, schema.action.index(f"kind.{ActionKind.SUBMIT}")] = 1.0
    for number, key in enumerate(keys):
        if key in within_group and not is_virtual[number]:
            action[number, len(schema.action) :] = within_group[key]
    discount = _floats(transitions, "discount")
    next_state = np.where((discount == 0.0)[:, None], np.float32(0.0), next_state)
    _, trajectory = np.unique(_strings(transitions, "trajectory_id"), return_inverse=True)
    return TransitionArrays(
        trajectory=trajectory.astype(np.int64),
        step_index=np.array([step for _, step in keys], dtype=np.int64),
        state=state,
        action=action,
        next_state=next_state,
        rewards=np.stack([_floats(transitions, f"reward_{name}") for name in COMPONENTS], axis=1),
        discount=discount,
        fold=transitions.column("fold").to_numpy().astype(np.int64),
        split=_strings(transitions, "split"),
        task_id=_strings(transitions, "task_id"),
    )


class _Features:
    """Feature tables, addressed by key."""

    def __init__(self, states: pa.Table, actions: pa.Table, signals: pa.Table) -> None:
        self.state = _vectors(states, "state")
        self.action = _vectors(actions, "action")
        self._states = _index(states, ("trajectory_id", "step_index"))
        self._actions = _index(actions, ("trajectory_id", "step_index", "candidate_index"))
        self._signals = signals.select(SIGNALS.names[3:]).to_pydict()

    def rows(self, candidates: Sequence[Mapping[str, Any]]) -> Integers:
        """Action rows of candidates."""
        names = ("trajectory_id", "step_index", "step_candidate")
        keys = [tuple(row[name] for name in names) for row in candidates]
        return np.array([_row(self._actions, key) for key in keys], dtype=np.int64)

    def states(self, candidates: Sequence[Mapping[str, Any]], *, offset: int) -> Floats:
        """States before (offset 0) or after (offset 1) the candidates' actions."""
        keys = [(row["trajectory_id"], row["step_index"] + offset) for row in candidates]
        return self.state[[_row(self._states, key) for key in keys]]

    def signals(self, rows: Integers) -> GroupSignals:
        """Signals of a group, the ragged ones padded with "not passed" and "no output"."""
        column = self._signals
        return GroupSignals(
            n_chars=_take(column["n_chars"], rows).astype(np.float32),
            text_key=_take(column["text_key"], rows).astype(np.int64),
            answer_key=_take(column["answer_key"], rows).astype(np.int64),
            visible_rate=_take(column["visible_rate"], rows).astype(np.float32),
            generated_passed=pad_flags([column["generated_passed"][row] for row in rows]),
            outputs=pad_keys([column["outputs"][row] for row in rows]),
            made_outputs=pad_keys([column["made_outputs"][row] for row in rows]),
            agent_prior=_take(column["agent_prior"], rows).astype(np.float32),
        )


def pad_flags(rows: Sequence[Sequence[bool]]) -> Flags:
    """Rows of one length, filled up with False."""
    padded = np.zeros((len(rows), max(map(len, rows), default=0)), dtype=np.bool_)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded


def pad_keys(rows: Sequence[Sequence[int]]) -> Integers:
    """Rows of one length, filled up with 0."""
    padded = np.zeros((len(rows), max(map(len, rows), default=0)), dtype=np.int64)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded


def _group(group_id: str, rows: list[dict[str, Any]], features: _Features) -> DecisionGroup:
    kind = GroupKind(rows[0]["kind"])
    action_rows = features.rows(rows)
    before = features.states(rows, offset=0)
    return DecisionGroup(
        group_id=group_id,
        kind=kind,
        task_id=rows[0]["task_id"],
        source=rows[0]["source"],
        family=rows[0]["family"],
        split=Split(rows[0]["split"]),
        fold=rows[0]["fold"],
        before=before,
        # Actions proposed for one state have not been carried out: there is no state after them.
        after=features.states(rows, offset=1) if kind is GroupKind.ATTEMPT else before,
        action=features.action[action_rows],
        signals=features.signals(action_rows),
        n_steps=np.array([row["n_steps"] or 0 for row in rows], dtype=np.int64),
        n_tokens=np.array([row["n_tokens"] or 0 for row in rows], dtype=np.int64),
        success=np.array(
            [np.nan if row["success"] is None else row["success"] for row in rows],
            dtype=np.float32,
        ),
        dangerous=np.array([bool(row["dangerous"]) for row in rows], dtype=np.bool_),
        is_taken=np.array([bool(row["is_taken"]) for row in rows], dtype=np.bool_),
        trusted=all(row["trusted"] is not False for row in rows),
    )


def _taken_keys(workspace: Folder) -> dict[str, tuple[str, int]]:
    """Key of the state of each group of kind step."""
    columns = ("group_id", "kind", "trajectory_id", "step_index")
    table = read_table(workspace.path(CANDIDATES_PATH), CANDIDATES, columns=columns)
    return {
        row["group_id"]: (row["trajectory_id"], row["step_index"])
        for row in table.to_pylist()
        if row["kind"] == GroupKind.STEP
    }


def _taken_within_group(
    groups: Sequence[DecisionGroup], keys: Mapping[str, tuple[str, int]]
) -> dict[tuple[str, int], Floats]:
    """Set-relative features of the action taken, by trajectory and step."""
    return {
        keys[group.group_id]: set_relative(group.signals)[int(np.argmax(group.is_taken))]
        for group in groups
        if group.kind is GroupKind.STEP and group.is_taken.any()
    }


def _last_action_block(schema: FeatureSchema) -> slice:
    names = [name.startswith(_LAST_ACTION) for name in schema.state]
    start = names.index(True)
    return slice(start, start + sum(names))


def _read(workspace: Folder, name: str, schema: pa.Schema) -> pa.Table:
    """A feature table as a memory-mapped data set: larger than memory is no obstacle."""
    from datasets import Dataset, disable_progress_bars  # noqa: PLC0415  # two seconds to import

    path = workspace.path(f"{FEATURES_PATH}/{name}.parquet")
    check_table(path, schema)
    disable_progress_bars()
    mapped = Dataset.from_parquet(str(path), cache_dir=str(workspace.path(DATASETS_PATH)))
    table: pa.Table = mapped.data.table
    return table


def _keys(table: pa.Table) -> list[tuple[str, int]]:
    names = ("trajectory_id", "step_index")
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def _index(table: pa.Table, names: Sequence[str]) -> dict[tuple[Any, ...], int]:
    columns = [table.column(name).to_pylist() for name in names]
    return {key: row for row, key in enumerate(zip(*columns, strict=True))}


def _row(index: Mapping[tuple[Any, ...], int], key: tuple[Any, ...]) -> int:
    try:
        return index[key]
    except KeyError as error:
        raise DataError(
            f"no features for {key}; candidates, transitions and features come from different "
            "runs, so run the stages from transitions on again"
        ) from error


def _vectors(table: pa.Table, name: str) -> Floats:
    column = table.column(name).combine_chunks()
    width = table.schema.field(name).type.list_size
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=np.float32).reshape(len(table), width)


def _floats(table: pa.Table, name: str) -> Floats:
    return np.asarray(table.column(name).to_numpy(zero_copy_only=False), dtype=np.float32)


def _strings(table: pa.Table, name: str) -> npt.NDArray[np.str_]:
    return np.array(table.column(name).to_pylist(), dtype=np.str_)


def _take(values: Sequence[Any], rows: Integers) -> npt.NDArray[Any]:
    return np.array([np.nan if values[row] is None else values[row] for row in rows])
