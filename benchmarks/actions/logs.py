"""The runs of a working folder as replay needs them: their states, and what is known beside.

What stopping after a step would have been worth is known only where that step was graded: by our
sandbox (`solved`) or by the log itself (`logged_reward`). The sandbox spares itself programs in the
middle of a run that fail a visible check; these count as wrong, and how often that presumption
holds is measured on those that were graded. Nothing is made up for any other step.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness_core.evaluation.subsets import labelled
from harness_core.features.batch import DecisionGroup, Flags, Floats, TransitionArrays
from harness_core.features.interim import InterimTables
from harness_core.features.interventions import (
    INTERVENTION_TABLE,
    intervention_rows,
    with_interventions,
)
from harness_core.features.load import load_groups, load_transitions
from harness_core.learners.returns import is_last, outcome_by_row
from harness_core.stages.dag import (
    FEATURES,
    REWARDS,
    STEPS,
    TRAJECTORIES,
    TRANSITIONS,
    Workspace,
)
from harness_core.trajectories.vocabulary import GroupKind

_FULL: Final = 1.0 - 1e-6
"""A graded reward from here on is a success, as the importers have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLog:
    """Development runs of one working folder; N states, those of a run one after another."""

    name: str
    groups: tuple[DecisionGroup, ...]
    """Complete attempts with known outcomes."""
    transitions: TransitionArrays
    prior: Floats  # [N] agent prior of the run
    outcome: Floats  # [N] final success of the run; NaN when unknown
    stop_label: Floats  # [N] success if the run had been handed in here; NaN when unknown
    visible: Floats  # [N] visible checks that the last program passes; NaN without any
    label_source: str
    """What `stop_label` rests on."""
    n_presumed: int = 0
    """Steps that are presumed wrong because their program fails a visible check."""
    has_hidden_stop: bool = False
    """Whether its runs stop when a hidden grader is satisfied."""
    presumed_error: float = float("nan")
    """Share of right ones among graded programs that fail a visible check."""
    root: Path | None = None
    """Working folder, where models of the folds may lie already."""

    @property
    def is_last(self) -> Flags:
        """Whether a row is the last of its run, [N]."""
        return is_last(self.transitions.trajectory)


def read_log(name: str, folder: Path) -> ActionLog:
    """Read a working folder whose stages up to `features` have run.

    Interventions are worked out anew where an earlier version made the features. Tasks of a frozen
    slice are left out: no model of a fold may judge them.

    Raises:
        NoDataError: a table is missing.
    """
    workspace = Workspace(folder)
    groups = [
        group
        for group in labelled(load_groups(workspace))
        if group.kind is GroupKind.ATTEMPT and group.fold >= 0
    ]
    arrays = load_transitions(workspace)
    keys = _keys(pq.read_table(workspace.path(TRANSITIONS), columns=list(_KEY)))
    if not arrays.legal.any():
        rows = intervention_rows(list(InterimTables.read(workspace).contents()))
        table = pa.Table.from_pylist(rows, schema=INTERVENTION_TABLE)
        arrays = with_interventions(arrays, keys, table)
    known = arrays.fold >= 0
    labels, label_source = _stop_labels(workspace)
    signals = _signals(workspace)
    failing = {key for key, rate in signals.visible.items() if rate is not None and rate < 1.0}
    graded = [labels[key] for key in failing & labels.keys()]
    presumed = failing - labels.keys() if label_source == _BY_SANDBOX else set()
    labels |= dict.fromkeys(presumed, 0.0)
    before = [(run, step - 1) for run, step in keys]
    return ActionLog(
        name=name,
        groups=tuple(groups),
        transitions=_rows(arrays, known),
        prior=_column([signals.prior.get(run) for run, _ in keys])[known],
        outcome=outcome_by_row(arrays)[known],
        stop_label=_column([labels.get(key) for key in before])[known],
        visible=_column([signals.visible.get(key) for key in before])[known],
        label_source=label_source,
        n_presumed=len(presumed),
        has_hidden_stop=not _importers(workspace).isdisjoint(_HIDDEN_STOP),
        presumed_error=float(np.mean(graded)) if presumed and graded else float("nan"),
        root=folder,
    )


_HIDDEN_STOP: Final = frozenset({"intercode", "mint"})
_BY_SANDBOX: Final = "hidden checks, run in the sandbox"
_BY_LOG: Final = "graded reward of the step in the log"
_KEY: Final = ("trajectory_id", "step_index")
_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Signals:
    prior: dict[str, float]
    visible: dict[_Key, float]


def _signals(workspace: Workspace) -> _Signals:
    names = (*_KEY, "agent_prior", "visible_rate")
    table = pq.read_table(workspace.path(f"{FEATURES}/signals.parquet"), columns=list(names))
    runs, steps, priors, rates = (table.column(name).to_pylist() for name in names)
    return _Signals(
        prior=dict(zip(runs, priors, strict=True)),
        visible=dict(zip(zip(runs, steps, strict=True), rates, strict=True)),
    )


def _importers(workspace: Workspace) -> set[str]:
    table = pq.read_table(workspace.path(TRAJECTORIES), columns=["importer"])
    return set(table.column("importer").to_pylist())


def _stop_labels(workspace: Workspace) -> tuple[dict[_Key, float], str]:
    """Success of handing in right after each step, and what says so."""
    rewards = pq.read_table(workspace.path(REWARDS), columns=[*_KEY, "is_taken", "solved"])
    graded = {
        (row["trajectory_id"], row["step_index"]): float(row["solved"])
        for row in rewards.to_pylist()
        if row["is_taken"] and row["solved"] is not None
    }
    if graded:
        return graded, _BY_SANDBOX
    steps = pq.read_table(workspace.path(STEPS), columns=[*_KEY, "logged_reward"])
    logged = {
        (row["trajectory_id"], row["step_index"]): float(row["logged_reward"] >= _FULL)
        for row in steps.to_pylist()
        if row["logged_reward"] is not None
    }
    return logged, _BY_LOG if logged else "none"


def _rows(arrays: TransitionArrays, mask: npt.NDArray[np.bool_]) -> TransitionArrays:
    fields = {name: getattr(arrays, name)[mask] for name in TransitionArrays.__slots__}
    return TransitionArrays(**fields)


def _keys(table: pa.Table) -> list[_Key]:
    return list(zip(*(table.column(name).to_pylist() for name in _KEY), strict=True))


def _column(values: list[Any]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float32)
