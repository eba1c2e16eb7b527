"""Stage `compare`: the gate's verdict on the frozen test slice, and the report for people."""

import dataclasses
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from harness_core.controller.manifest import FILE_NAME, read_manifest
from harness_core.errors import NoDataError
from harness_core.evaluation.comparison import (
    Comparison,
    compare_with_behaviour,
    compare_with_champion,
    frozen_slice,
)
from harness_core.evaluation.config import EvaluationConfig, GateConfig
from harness_core.evaluation.crossfit import CrossFit
from harness_core.evaluation.gate import decide, leaking_tasks
from harness_core.evaluation.metrics import json_ready
from harness_core.evaluation.model_folders import load_model
from harness_core.evaluation.report import render_report
from harness_core.features.batch import DecisionGroup
from harness_core.features.execution import needs_running
from harness_core.features.interim import InterimTables
from harness_core.features.load import groups_from, load_groups
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.running import SandboxRunner, run_limits
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.config import SandboxConfig
from harness_core.stages.dag import (
    CANDIDATE_MODEL,
    CHAMPION_MODEL,
    EVALUATION,
    HTML_REPORT,
    STAGES,
    VERDICT,
    Workspace,
    report_path,
)
from harness_core.stages.report import StageReport
from harness_core.tables import publish_bytes
from harness_core.trajectories.vocabulary import GroupKind, Split

_LOG = logging.getLogger("harness")


def run(
    evaluation: EvaluationConfig, gate: GateConfig, sandbox: SandboxConfig, workspace: Workspace
) -> StageReport:
    """Write `verdict.json` and `report.html`.

    Without a champion the behaviour policy is the reference. The champion sees the logs through
    its own feature pipeline; programs that it wants run have nearly always been run before.

    Raises:
        NoDataError: an earlier stage has not run.
        ModelError: a model folder is damaged, or the champion's features cannot be made any more.
    """
    groups = load_groups(workspace)
    figures = _read_evaluation(workspace.path(EVALUATION))
    comparison = _compare(groups, evaluation, gate, sandbox, workspace)
    verdict = decide(
        comparison,
        figures,
        gate,
        trusted=all(group.trusted for group in groups),
        leaking_tasks=leaking_tasks(groups),
    )
    content: dict[str, Any] = json_ready(verdict.model_dump(mode="json"))
    publish_bytes(
        workspace.path(VERDICT), orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n"
    )
    page = render_report(
        verdict=content,
        evaluation=figures,
        stages=_stage_figures(workspace),
        confidence=evaluation.confidence,
    )
    publish_bytes(workspace.path(HTML_REPORT), page.encode())
    _LOG.info("compare: %s", verdict.summary)
    return StageReport(
        stage="compare",
        figures={
            "verdict": verdict.verdict,
            "reference": verdict.promoted_reference,
            "n_test_tasks": verdict.n_tasks,
            "forgotten": [family.family for family in verdict.families if family.forgotten],
            "failed_rules": [rule.name for rule in verdict.rules if not rule.passed],
            "summary": verdict.summary,
        },
    )


def _compare(
    groups: Sequence[DecisionGroup],
    evaluation: EvaluationConfig,
    gate: GateConfig,
    sandbox: SandboxConfig,
    workspace: Workspace,
) -> Comparison:
    candidate = CrossFit(final=load_model(workspace.path(CANDIDATE_MODEL)))
    folder = workspace.path(CHAMPION_MODEL)
    if not (folder / FILE_NAME).exists():
        exam = frozen_slice(groups, seen_in_training=())
        return compare_with_behaviour(candidate, exam, evaluation=evaluation, gate=gate)
    seen = read_manifest(folder).development_tasks
    return compare_with_champion(
        candidate,
        frozen_slice(groups, seen_in_training=seen),
        CrossFit(final=load_model(folder)),
        frozen_slice(_champion_groups(folder, sandbox, workspace), seen_in_training=seen),
        evaluation=evaluation,
        gate=gate,
    )


def _champion_groups(
    folder: Path, sandbox: SandboxConfig, workspace: Workspace
) -> list[DecisionGroup]:
    """The attempts of the frozen test slice as the champion sees them."""
    tables = _test_slice_only(InterimTables.read(workspace))
    pipeline = FeaturePipeline.load(folder / "pipeline", cache=workspace.cache)
    with ExitStack() as stack:
        runner = None
        if needs_running(tables.contents()):
            box = stack.enter_context(open_sandbox(run_limits(sandbox, pipeline.config)))
            runner = SandboxRunner(box, cache=workspace.cache)
        features = pipeline.transform(tables, runner=runner)
    return groups_from(tables.candidates, features.states, features.actions, features.signals)


def _test_slice_only(tables: InterimTables) -> InterimTables:
    candidates = tables.candidates.filter(
        pc.and_(
            pc.equal(tables.candidates["split"], Split.TEST.value),
            pc.equal(tables.candidates["kind"], GroupKind.ATTEMPT.value),
        )
    )
    wanted = pc.unique(candidates["trajectory_id"])

    def of_wanted(table: pa.Table) -> pa.Table:
        return table.filter(pc.is_in(table["trajectory_id"], value_set=wanted))

    return dataclasses.replace(
        tables,
        trajectories=of_wanted(tables.trajectories),
        steps=of_wanted(tables.steps),
        candidates=candidates,
    )


def _read_evaluation(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = orjson.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise NoDataError(f"{path} does not exist; run the stage evaluate first") from error
    return content


def _stage_figures(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """Figures of the stages that have reported, in running order, for the report."""
    figures = {}
    for stage in STAGES:
        path = workspace.path(report_path(stage))
        if stage in {"evaluate", "compare"} or not path.exists():
            continue
        try:
            figures[stage] = StageReport.read(path).figures
        except ValidationError:
            # The report is for people: a damaged file of an earlier stage must not stop it.
            _LOG.warning("compare: %s cannot be read and is left out of the report", path)
    return figures
