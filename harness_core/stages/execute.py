"""Runs a stage unless its outputs already are what it would write.

A stage is done when its report holds the key of the present code, parameters and inputs, and every
output still has the digest that the report names. The report is published last, so a run that was
killed leaves no key and is done again.
"""

import importlib
import logging
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from filelock import FileLock
from pydantic import ValidationError

from harness_core.params import Params
from harness_core.records import Section
from harness_core.stages.audit_guard import refuse_unaudited
from harness_core.stages.dag import STAGES, StageSpec, Workspace, report_path
from harness_core.stages.report import StageReport
from harness_core.tables import combine_digests, tree_digest

_LOG: Final = logging.getLogger("harness")

_ARGUMENTS: Final[Mapping[str, Callable[[Params], tuple[Section, ...]]]] = {
    "sample": lambda p: (p.sample, p.sandbox),
    "ingest": lambda p: (p.ingest,),
    "validate": lambda p: (p.validation,),
    "rewards": lambda p: (p.rewards, p.sandbox),
    "audit": lambda p: (p.rewards, p.sandbox),
    "transitions": lambda p: (p.transitions,),
    "features": lambda p: (p.features, p.sandbox),
    "train": lambda p: (p.train, p.rewards, p.controller),
    "evaluate": lambda p: (p.evaluation,),
    "compare": lambda p: (p.evaluation, p.gate, p.sandbox),
}


def execute(
    stage: str, params: Params, workspace: Workspace, *, force: bool = False
) -> StageReport:
    """Run one stage, or return its last report when nothing has changed.

    Args:
        stage: a name of `STAGES`.
        params: the whole of the parameters; the stage receives its own sections only.
        workspace: where it reads and writes.
        force: run even if nothing has changed.

    Raises:
        AuditFailed: a model was to be trained on rewards that did not pass their audit.
    """
    lock = workspace.root / ".harness" / "stage.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        key = stage_key(stage, params, workspace)
        done = None if force else finished_report(stage, key, workspace)
        if done is not None:
            _LOG.info("%s: nothing has changed", stage)
            return done
        if stage == "train":
            refuse_unaudited(params.rewards, workspace)
        _LOG.info("%s: running", stage)
        report_file = workspace.path(report_path(stage))
        report_file.unlink(missing_ok=True)
        # Stages bring torch, Lightning or Great Expectations: only the one that runs is paid for.
        module: Any = importlib.import_module(f"harness_core.stages.{stage}")
        result: StageReport = module.run(*_ARGUMENTS[stage](params), workspace)
        report = result.model_copy(
            update={"key": key, "outputs": _output_digests(STAGES[stage], stage, workspace)}
        )
        report.write(report_file)
        return report


def is_fresh(stage: str, params: Params, workspace: Workspace) -> bool:
    """Whether running the stage would change nothing."""
    return finished_report(stage, stage_key(stage, params, workspace), workspace) is not None


def stage_key(stage: str, params: Params, workspace: Workspace) -> str:
    """Digest of everything that the outputs of a stage depend on."""
    spec = STAGES[stage]
    sections = [(name, getattr(params, name).model_dump_json()) for name in spec.params]
    inputs = [
        (path, tree_digest(workspace.path(path))) for path in (*spec.deps, *spec.registry_state)
    ]
    return combine_digests([("stage", stage), ("code", code_digest()), *sections, *inputs])


def finished_report(stage: str, key: str, workspace: Workspace) -> StageReport | None:
    """The report of a stage that ran with this key and whose outputs are still there."""
    path = workspace.path(report_path(stage))
    try:
        report = StageReport.read(path)
    except (FileNotFoundError, ValidationError):
        return None
    current = _output_digests(STAGES[stage], stage, workspace)
    return report if report.key == key and report.outputs == current else None


@cache
def code_digest() -> str:
    """Digest of the library's own source."""
    root = Path(__file__).parents[1]
    return combine_digests(
        (str(path.relative_to(root)), tree_digest(path)) for path in sorted(root.rglob("*.py"))
    )


def _output_digests(spec: StageSpec, stage: str, workspace: Workspace) -> dict[str, str]:
    paths = [path for path in (*spec.outs, *spec.metrics) if path != report_path(stage)]
    return {path: tree_digest(workspace.path(path)) for path in paths}
