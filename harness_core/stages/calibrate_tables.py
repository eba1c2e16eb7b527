"""What the sweep of weights reads: the small part of the development tasks, and facts of picks.

Facts are what the text of a candidate says, whatever it was paid: behind the gate a failing
program's style and length are 0, and a policy that likes them would look innocent.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from harness_core.controller.scoring import success_component
from harness_core.errors import DataError, NoDataError
from harness_core.evaluation.config import CalibrationConfig
from harness_core.evaluation.metrics import Doubles
from harness_core.evaluation.weight_sweep import Facts
from harness_core.features.batch import DecisionGroup, TransitionArrays
from harness_core.features.load import load_groups, load_transitions, read_schema
from harness_core.features.tuning import judgeable
from harness_core.params import Params
from harness_core.rewards.config import RewardConfig
from harness_core.rewards.grading import actions_of, program_of, submitted_program
from harness_core.rewards.programs import excess_lines, logical_lines
from harness_core.rewards.style import clean_programs
from harness_core.rewards.table import COMPONENTS
from harness_core.stages import dag
from harness_core.stages.execute import execute
from harness_core.tables import read_table
from harness_core.trajectories.schema import TaskSpec, Trajectory
from harness_core.trajectories.store import read_tasks, read_trajectories
from harness_core.trajectories.vocabulary import GroupKind, Split
from harness_core.transitions.table import CANDIDATES, TRANSITIONS

TEXT_FACTS: Final = ("visible_rate", "lines", "excess_lines", "clean", "characters")
"""Share of visible checks passed; logical lines, and those above the slack; clean style (0 or 1);
length of the text in characters."""

_SCRATCH: Final = ".harness/calibrate"
_INPUTS: Final = (
    *(dag.TRAJECTORIES, dag.STEPS, dag.TASKS),
    *(dag.TRANSITIONS, dag.CANDIDATES, dag.FEATURES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallPart:
    """A share of the development tasks in folds of its own, with what is known of it."""

    groups: tuple[DecisionGroup, ...]
    arrays: TransitionArrays
    rows: pa.Table
    """The rows of `TRANSITIONS` behind the arrays, in their order."""
    candidates: Mapping[str, Sequence[Mapping[str, Any]]]
    """Group → its rows of `CANDIDATES`, in the order of its candidates."""
    tasks: Mapping[tuple[str, str], TaskSpec]
    n_development_tasks: int

    @property
    def success_of(self) -> dict[str, str]:
        """Group → the component that pays success at its task."""
        return {
            group.group_id: success_component(self.tasks[group.source, group.task_id].language)
            for group in self.groups
        }


def read_small_part(config: CalibrationConfig, workspace: dag.Workspace) -> SmallPart:
    """The small part of the development tasks.

    Folds of the data are put together, never divided: near-duplicates stay in one.

    Raises:
        NoDataError: a table is missing, or no task is in the part.
    """
    _refuse_missing(workspace)
    outside = [group for group in load_groups(workspace) if group.split is not Split.TEST]
    development = judgeable(outside, read_schema(workspace))
    chosen = {
        group.task_id
        for group in development
        if _is_in_share(group.task_id, seed=config.seed, share=config.task_share)
    }
    if not chosen:
        raise NoDataError("calibration.task_share: no development task is in the small part")
    arrays = load_transitions(workspace)
    inside = np.isin(arrays.task_id, sorted(chosen))
    rows = read_table(workspace.path(dag.TRANSITIONS), TRANSITIONS)
    fields = {name: getattr(arrays, name)[inside] for name in TransitionArrays.__slots__}
    small = TransitionArrays(**fields)
    groups = [group for group in development if group.task_id in chosen]
    return SmallPart(
        groups=tuple(replace(group, fold=group.fold % config.n_folds) for group in groups),
        arrays=replace(small, fold=small.fold % config.n_folds),
        rows=rows.filter(pa.array(inside)),
        candidates=_candidates(workspace, {group.group_id for group in groups}),
        tasks=read_tasks(workspace.path(dag.TASKS)),
        n_development_tasks=len({group.task_id for group in development}),
    )


def rewards_under(
    part: SmallPart, rewards: RewardConfig, params: Params, workspace: dag.Workspace
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Components [N, C] of the part's transitions, paid as `rewards` says.

    The table of the working folder serves the present gate. For the other one rewards are computed
    again in a scratch folder; verdicts come from the cache.

    Raises:
        DataError: the tables of the working folder are older than their inputs.
        IsolationUnavailable: programs must be run and no sandbox is strong enough.
    """
    if rewards.gate_process == params.rewards.gate_process:
        return part.arrays.rewards
    scratch = _scratch(workspace)
    local = params.model_copy(update={"rewards": rewards})
    for stage in ("rewards", "transitions"):
        execute(stage, local, scratch)
    found = read_table(scratch.path(dag.TRANSITIONS), TRANSITIONS)
    place = {key: row for row, key in enumerate(_keys(found))}
    wanted = _keys(part.rows)
    if not place.keys() >= set(wanted):
        raise DataError("the tables are older than the parameters; run `harness transitions` again")
    return _components(found.take(pa.array([place[key] for key in wanted])))


def text_facts(part: SmallPart, rewards: RewardConfig, workspace: dag.Workspace) -> Facts:
    """Facts of the candidates with known outcomes, by group."""
    texts = _programs(part, workspace)
    clean = clean_programs(program for program in texts.values() if program is not None)
    return {
        group.group_id: {
            name: values[~np.isnan(group.success)]
            for name, values in _facts(group, part, texts, clean, rewards).items()
        }
        for group in part.groups
    }


def earned(
    part: SmallPart,
    components: np.ndarray[Any, np.dtype[np.float32]],
    weights: Mapping[str, float],
) -> dict[str, Doubles]:
    """What each complete attempt of known outcome was paid in all, by group."""
    vector = np.array([weights[name] for name in COMPONENTS])
    paid = np.nan_to_num(components) @ vector
    total: dict[str, float] = {}
    for trajectory, value in zip(
        part.rows.column("trajectory_id").to_pylist(), paid.tolist(), strict=True
    ):
        total[trajectory] = total.get(trajectory, 0.0) + value
    return {
        group.group_id: np.array(
            [total.get(row["trajectory_id"], np.nan) for row in part.candidates[group.group_id]]
        )[~np.isnan(group.success)]
        for group in part.groups
        if group.kind is GroupKind.ATTEMPT
    }


def _refuse_missing(workspace: dag.Workspace) -> None:
    for relative in _INPUTS:
        if not workspace.path(relative).exists():
            stage = next(name for name, spec in dag.STAGES.items() if relative in spec.outs)
            raise NoDataError(
                f"{workspace.path(relative)} does not exist; run `harness {stage}` first"
            )


def _is_in_share(task_id: str, *, seed: int, share: float) -> bool:
    digest = hashlib.sha256(f"calibration:{seed}:{task_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * (1 << 64)


def _candidates(workspace: dag.Workspace, wanted: set[str]) -> dict[str, list[Mapping[str, Any]]]:
    columns = ("group_id", "trajectory_id", "step_index", "step_candidate")
    table = read_table(workspace.path(dag.CANDIDATES), CANDIDATES, columns=columns)
    by_group = groupby(table.to_pylist(), key=itemgetter("group_id"))
    return {name: list(rows) for name, rows in by_group if name in wanted}


def _scratch(workspace: dag.Workspace) -> dag.Workspace:
    """A folder in which the present tables stand, and others can be written beside them."""
    scratch = dag.Workspace(workspace.path(_SCRATCH), shared_cache=workspace.cache)
    for relative in (dag.TRAJECTORIES, dag.STEPS, dag.TASKS, dag.POLICY):
        link = scratch.path(relative)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(workspace.path(relative).resolve())
    return scratch


def _keys(table: pa.Table) -> list[tuple[str, int]]:
    names = ("trajectory_id", "step_index")
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def _components(table: pa.Table) -> np.ndarray[Any, np.dtype[np.float32]]:
    columns = [table.column(f"reward_{name}").to_numpy() for name in COMPONENTS]
    return np.stack(columns, axis=1).astype(np.float32)


_Programs = Mapping[tuple[str, int, int, bool], str | None]
"""Trajectory, step, candidate and whether the whole attempt is meant → its program."""


def _programs(part: SmallPart, workspace: dag.Workspace) -> _Programs:
    wanted: dict[str, set[tuple[int, int, bool]]] = {}
    for group in part.groups:
        is_attempt = group.kind is GroupKind.ATTEMPT
        for row in part.candidates[group.group_id]:
            keys = wanted.setdefault(row["trajectory_id"], set())
            keys.add((row["step_index"], row["step_candidate"], is_attempt))
    trajectories = read_trajectories(
        trajectories_path=workspace.path(dag.TRAJECTORIES), steps_path=workspace.path(dag.STEPS)
    )
    return {
        (name, *key): program
        for trajectory in trajectories
        if (name := trajectory.trajectory_id) in wanted
        for key, program in _programs_of(trajectory, part, wanted[name])
    }


def _programs_of(
    trajectory: Trajectory, part: SmallPart, keys: set[tuple[int, int, bool]]
) -> Iterator[tuple[tuple[int, int, bool], str | None]]:
    task = part.tasks[trajectory.provenance.source, trajectory.task.task_id]
    for step, candidate, is_attempt in sorted(keys):
        if is_attempt:
            program = submitted_program(trajectory.steps, task)
        else:
            program = program_of(actions_of(trajectory.steps[step])[candidate], task)
        yield (step, candidate, is_attempt), program


def _facts(
    group: DecisionGroup,
    part: SmallPart,
    texts: _Programs,
    clean: frozenset[str],
    rewards: RewardConfig,
) -> dict[str, Doubles]:
    is_attempt = group.kind is GroupKind.ATTEMPT
    reference = part.tasks[group.source, group.task_id].reference
    programs = [
        texts[row["trajectory_id"], row["step_index"], row["step_candidate"], is_attempt]
        for row in part.candidates[group.group_id]
    ]
    excess = [
        None if text is None else excess_lines(text, reference, length_slack=rewards.length_slack)
        for text in programs
    ]
    return {
        "visible_rate": group.signals.visible_rate.astype(np.float64),
        "lines": _numbers([None if text is None else logical_lines(text) for text in programs]),
        "excess_lines": _numbers(excess),
        "clean": _numbers([None if text is None else text in clean for text in programs]),
        "characters": group.signals.n_chars.astype(np.float64),
    }


def _numbers(values: Sequence[float | None]) -> Doubles:
    return np.array([np.nan if value is None else float(value) for value in values])
