"""The training rows that are nearest to a logged decision, as its model sees both."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness_core.controller.manifest import ModelManifest, read_manifest
from harness_core.errors import HarnessError, NoDataError
from harness_core.features.batch import DecisionGroup, Floats
from harness_core.features.load import load_groups, read_schema
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.runtime import featurise_request
from harness_core.features.set_relative import set_relative
from harness_core.learners.checkpoint import load_critic
from harness_core.learners.critic_space import attempt_space
from harness_core.params import Params
from harness_core.stages.dag import CANDIDATES, STEPS, TRANSITIONS, Workspace
from harness_core.stages.distil import StudentFolder
from harness_core.stages.serving_model import program_sandbox
from harness_core.tables import read_table
from harness_core.trajectories.arrow import STEPS as STEPS_SCHEMA
from harness_core.trajectories.decision_log import LoggedDecision
from harness_core.trajectories.vocabulary import GroupKind, Split
from harness_core.transitions.table import CANDIDATES as CANDIDATES_SCHEMA
from harness_core.transitions.table import TRANSITIONS as TRANSITIONS_SCHEMA

SPACE: Final = "last hidden layer of the critic's terminal heads"
_EXCERPT_CHARS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One training row."""

    trajectory_id: str
    task_id: str
    success: float | None


def nearest(
    decision: LoggedDecision,
    index: int,
    folder: Path,
    params: Params,
    workspace: Workspace,
    *,
    n: int,
) -> list[dict[str, Any]]:
    """The `n` complete attempts of training that are nearest to candidate `index`.

    Raises:
        HarnessError: something that it takes is not there any more; the message names it.
    """
    manifest = read_manifest(folder)
    home = _home_of(manifest, workspace)
    space, attempts = _training_rows(folder, home)
    if not attempts:
        raise NoDataError("the working folder holds no training attempts")
    own = _own_row(decision, index, folder, params)
    distances = np.linalg.norm(space - own, axis=1)
    order = np.argsort(distances, kind="stable")[:n]
    rewards = _rewards(manifest, home, [attempts[row].trajectory_id for row in order])
    texts = _last_texts(home, [attempts[row].trajectory_id for row in order])
    return [
        {
            "trajectory_id": attempts[row].trajectory_id,
            "task_id": attempts[row].task_id,
            "distance": float(distances[row]),
            "success": attempts[row].success,
            "reward": rewards.get(attempts[row].trajectory_id),
            "text": texts.get(attempts[row].trajectory_id, ""),
        }
        for row in order
    ]


def _home_of(manifest: ModelManifest, workspace: Workspace) -> Workspace:
    """The folder whose features are those of the model: the flywheel's, or the student's."""
    for home in (workspace, StudentFolder(workspace.root, workspace.shared_cache)):
        try:
            found = read_schema(home).fingerprint
        except HarnessError:
            continue
        if found == manifest.feature_fingerprint:
            return home
    raise NoDataError("the features that the model learnt from are no longer in the working folder")


def _training_rows(folder: Path, home: Workspace) -> tuple[Floats, list[_Attempt]]:
    groups = [
        group
        for group in load_groups(home)
        if group.kind is GroupKind.ATTEMPT and group.split is Split.TRAIN
    ]
    table = read_table(
        home.path(CANDIDATES), CANDIDATES_SCHEMA, columns=["group_id", "trajectory_id"]
    )
    members: dict[str, list[str]] = {}
    for row in table.to_pylist():
        members.setdefault(row["group_id"], []).append(row["trajectory_id"])
    attempts = [
        _Attempt(
            trajectory_id=name,
            task_id=group.task_id,
            success=None if np.isnan(success) else float(success),
        )
        for group in groups
        for name, success in zip(members[group.group_id], group.success, strict=True)
    ]
    network = load_critic(folder).network
    rows = [attempt_space(network, _attempt_rows(group)) for group in groups]
    return (np.concatenate(rows) if rows else np.zeros((0, 1), dtype=np.float32)), attempts


def _attempt_rows(group: DecisionGroup) -> Floats:
    return np.concatenate([group.after, set_relative(group.signals)], axis=1)


def _own_row(decision: LoggedDecision, index: int, folder: Path, params: Params) -> Floats:
    """The candidate among those that were scored with it."""
    answer = decision.decision or {}
    gone = {item["index"] for item in answer.get("filtered") or ()}
    kept = [place for place in range(len(decision.candidates)) if place not in gone]
    kind = {"python": "code", "tools": "tool_call"}.get(decision.state.get("language", ""))
    complete = [{"kind": kind or "message", **decision.candidates[place]} for place in kept]
    has_programs = decision.state.get("language") == "python"
    with program_sandbox(folder, params, has_programs=has_programs) as sandbox:
        pipeline = FeaturePipeline.load(folder / "pipeline")
        group = featurise_request(pipeline, decision.state, complete, sandbox=sandbox)
    row = _attempt_rows(group)[kept.index(index)]
    own: Floats = attempt_space(load_critic(folder).network, row[None])[0]
    return own


def _rewards(manifest: ModelManifest, home: Workspace, names: list[str]) -> dict[str, float]:
    """Weighted rewards of whole trajectories, undiscounted, as the model was paid for."""
    table = read_table(home.path(TRANSITIONS), TRANSITIONS_SCHEMA)
    wanted = table.filter(pc.is_in(table["trajectory_id"], value_set=_values(names)))
    totals: dict[str, float] = {}
    for row in wanted.to_pylist():
        reward = sum(
            weight * (row.get(f"reward_{name}") or 0.0) for name, weight in manifest.weights.items()
        )
        totals[row["trajectory_id"]] = totals.get(row["trajectory_id"], 0.0) + reward
    return totals


def _last_texts(home: Workspace, names: list[str]) -> dict[str, str]:
    columns = ["trajectory_id", "step_index", "action_text"]
    table = read_table(home.path(STEPS), STEPS_SCHEMA, columns=columns)
    wanted = table.filter(pc.is_in(table["trajectory_id"], value_set=_values(names)))
    return {
        row["trajectory_id"]: row["action_text"][:_EXCERPT_CHARS]
        for row in sorted(wanted.to_pylist(), key=lambda row: row["step_index"])
        if row["action_text"]
    }


def _values(names: list[str]) -> Any:

    return pa.array(names, pa.string())
