"""Stage `features`: interim tables to feature tables and the pipeline that made them."""

import logging
import shutil
from contextlib import ExitStack
from typing import Final

from harness_core.features.config import FeatureConfig
from harness_core.features.execution import needs_running
from harness_core.features.interim import DATASETS_PATH, InterimTables
from harness_core.features.interventions import (
    INTERVENTION_TABLE,
    INTERVENTIONS_FILE,
    intervention_rows,
)
from harness_core.features.load import SCHEMA_FILE
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.running import SandboxRunner, run_limits
from harness_core.features.table import SIGNALS, SIGNALS_FILE, actions_schema, states_schema
from harness_core.features.tuning import EncoderTuner
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.config import SandboxConfig
from harness_core.stages import dag
from harness_core.stages.report import StageReport
from harness_core.tables import publish_bytes, write_table

_LOG = logging.getLogger("harness")
_WORK: Final = ("n_encoded",)
"""Figures that depend on what earlier runs left in the cache."""


def run(features: FeatureConfig, sandbox: SandboxConfig, workspace: dag.Workspace) -> StageReport:
    """Fit the pipeline on development tasks and write `data/features/`.

    Raises:
        NoDataError: a table of an earlier stage is missing.
        IsolationUnavailable: there are Python programs to run and no sandbox to run them in.
        ModelError: the configured encoder cannot be used.
    """
    tables = InterimTables.read(workspace)
    runner: SandboxRunner | None = None
    with ExitStack() as stack:
        if needs_running(tables.contents()):
            boxes = stack.enter_context(open_sandbox(run_limits(sandbox, features)))
            runner = stack.enter_context(SandboxRunner(boxes, cache=workspace.cache))
        pipeline, result = FeaturePipeline.fit_transform(
            tables, features, runner=runner, cache=workspace.cache, tuner=_tuner(features)
        )
    folder = workspace.path(dag.FEATURES)
    # What an earlier version of the code wrote here must not be mistaken for ours.
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(workspace.path(DATASETS_PATH), ignore_errors=True)
    schema = pipeline.schema
    write_table(folder / "states.parquet", result.states, states_schema(len(schema.state)))
    write_table(folder / "actions.parquet", result.actions, actions_schema(len(schema.action)))
    write_table(folder / SIGNALS_FILE, result.signals, SIGNALS)
    interventions = intervention_rows(list(tables.contents()))
    write_table(folder / INTERVENTIONS_FILE, interventions, INTERVENTION_TABLE)
    pipeline.save(folder / "pipeline")
    publish_bytes(folder / SCHEMA_FILE, schema.model_dump_json(indent=2).encode() + b"\n")
    n_programs = 0 if runner is None else runner.n_programs
    # Logged and not reported: the report of equal data has equal bytes, with a warm cache too.
    work = {name: result.figures[name] for name in _WORK}
    _LOG.info("features: %d texts encoded, the rest was in the cache", *work.values())
    rest = {name: value for name, value in result.figures.items() if name not in work}
    figures = {**rest, "n_programs": n_programs}
    _LOG.info("features: %d states, %d actions", figures["n_states"], figures["n_actions"])
    return StageReport(stage="features", figures=figures)


def _tuner(features: FeatureConfig) -> EncoderTuner | None:
    if features.encoder.finetune is None:
        return None
    from harness_core.learners.encoder_tuning import (  # noqa: PLC0415  # brings torch
        tune_encoder,
    )

    return tune_encoder
