"""What another encoder costs in the gap that a controller closes, on the sample logs.

Every encoder makes the features anew, and models of the folds learn from them. Programs are not
run: with what they return beside it, the text of a program hardly counts, and all encoders would
look alike.
"""

import logging
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from harness_core.evaluation.out_of_fold import OutOfFold, network_spec
from harness_core.evaluation.student import STUDENT, TEACHER, Side, compare_student
from harness_core.features.encoder import TextEncoder
from harness_core.features.interim import InterimTables
from harness_core.features.load import groups_from, transitions_from
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.set_relative import set_relative
from harness_core.learners.crossfit import fit_folds
from harness_core.params import Params, load_params
from harness_core.stages.dag import STAGES, TRANSITIONS
from harness_core.stages.execute import execute
from harness_core.stages.project import PARAMS, prepare_project
from harness_core.stages.train import development
from harness_core.tables import read_table
from harness_core.trajectories.vocabulary import Split
from harness_core.transitions.table import TRANSITIONS as TRANSITIONS_SCHEMA

_LOG: Final = logging.getLogger("harness")
_NOT_NEEDED: Final = frozenset({"audit"})

SMALL: Final = (
    "sample.n_runs=8",
    "transitions.split.n_folds=3",
    "features.encode_code=true",
    "train.max_updates=150",
)
"""Overrides that keep it to a few minutes on two cores."""


def gap_closed_by_encoder(
    encoders: Mapping[str, TextEncoder], root: Path, *, default: str
) -> dict[str, Any]:
    """Gap closed on held-out tasks by each encoder, and what it loses against the default one.

    Args:
        encoders: by name; `default` is one of them.
        root: a new folder, for the sample logs.
        default: what the others are compared with.
    """
    workspace = prepare_project(root)
    params = load_params(workspace.path(PARAMS), SMALL)
    for stage in takewhile(lambda stage: stage != "features", STAGES):
        if stage not in _NOT_NEEDED:
            execute(stage, params, workspace)
    tables = InterimTables.read(workspace)
    transitions = read_table(workspace.path(TRANSITIONS), TRANSITIONS_SCHEMA)
    sides = {}
    for name, encoder in encoders.items():
        _LOG.info("benchmark: gap closed with the encoder %s", name)
        sides[name] = _side(encoder, tables, transitions, params)
    rows: dict[str, Any] = {}
    for name, side in sides.items():
        row = compare_student(sides[default], side, params.evaluation)["overall"]
        rows[name] = {
            "gap_closed": row["gap_closed"][STUDENT],
            "interval": row["intervals"][STUDENT],
            "lost": row["gap_lost"],
            "lost_interval": row["gap_lost_interval"],
        }
        found = {"sizes": row["sizes"], "n_tasks": row["n_tasks"]}
    assert rows[default]["gap_closed"] == row["gap_closed"][TEACHER]
    return {**found, "default": default, "programs_are_run": False, "encoders": rows}


def _side(encoder: TextEncoder, tables: InterimTables, transitions: Any, params: Params) -> Side:
    """The models of the folds that learnt from the vectors of one encoder."""
    pipeline, made = FeaturePipeline.fit_transform(tables, params.features, encoder=encoder)
    every = groups_from(tables.candidates, made.states, made.actions, made.signals)
    groups = [group for group in every if group.split is not Split.TEST]
    arrays = development(transitions_from(transitions, made.states, pipeline.schema, {}))
    spec = network_spec(groups, params.train, params.rewards.weights.model_dump())
    folds = fit_folds(groups, arrays, spec, params.train, set_relative=set_relative)
    return Side(OutOfFold(groups, folds, params.train).judged(), groups)
