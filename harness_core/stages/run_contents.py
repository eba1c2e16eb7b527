"""Everything that a run leaves behind, gathered from the files of its stages."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow.parquet as pq
import yaml

from harness_core.controller.manifest import ModelManifest
from harness_core.errors import NoDataError
from harness_core.registry.lineage import Attachment, RunContents, StageRecord
from harness_core.registry.measures import flat_metrics
from harness_core.registry.note import run_note
from harness_core.registry.runs import DatasetUse, RunContext
from harness_core.registry.versions import MODEL_DIGEST, RUN_KEY
from harness_core.stages.dag import (
    CANDIDATES,
    DATA_DOCS,
    EVALUATION,
    HTML_REPORT,
    PLOTS,
    RAW,
    REWARDS,
    STAGES,
    STEPS,
    TASKS,
    TRAJECTORIES,
    TRANSITIONS,
    VERDICT,
    Workspace,
    report_path,
)
from harness_core.stages.project import PARAMS
from harness_core.stages.report import StageReport
from harness_core.tables import combine_digests, file_digest

_TABLES: Final = (TRAJECTORIES, STEPS, TASKS, REWARDS, TRANSITIONS, CANDIDATES)
_PREFIXES: Final = {"audit": "audit", "train": "train", "evaluate": "eval", "compare": "gate"}
"""First part of a stage's metrics; all others are `data`."""


def gather(
    workspace: Workspace,
    context: RunContext,
    manifest: ModelManifest,
    verdict: Mapping[str, Any],
    *,
    scratch: Path,
) -> RunContents:
    """Collect what a run leaves behind; files that are made for it only go to `scratch`."""
    evaluation = read_json(workspace, EVALUATION)
    stages = list(_stage_records(workspace))
    datasets = list(_datasets(workspace, context))
    warnings = [text for item in stages for text in item.figures.get("warnings", ())]
    lineage = {
        RUN_KEY: context.run_key,
        "git_sha": context.git_sha or "none",
        "dirty": str(context.dirty).lower(),
        "verdict": verdict["verdict"],
        MODEL_DIGEST: manifest.digest,
        "feature_fingerprint": manifest.feature_fingerprint,
        "encoder_fingerprint": ",".join(sorted(set(manifest.encoders.values()))),
        "dataset_digest": combine_digests((item.name, item.digest) for item in datasets),
    }
    note = run_note(verdict, evaluation, warnings=warnings)
    commit = {"mlflow.source.git.commit": context.git_sha} if context.git_sha else {}
    return RunContents(
        metrics={
            **flat_metrics({"headline": {}, **evaluation}, prefix="eval"),
            **flat_metrics(verdict, prefix="gate"),
            **{f"gate/{rule['name']}": float(rule["passed"]) for rule in verdict.get("rules", ())},
        },
        tags={**lineage, **commit, "mlflow.note.content": note, "mlflow.source.name": "harness"},
        datasets=datasets,
        attachments=list(_attachments(workspace, context, lineage, scratch=scratch)),
        stages=stages,
    )


def read_json(workspace: Workspace, relative: str) -> dict[str, Any]:
    """The content of a report.

    Raises:
        NoDataError: the stage that writes it has not run.
    """
    content: dict[str, Any] = orjson.loads(existing_file(workspace, relative).read_bytes())
    return content


def existing_file(workspace: Workspace, relative: str) -> Path:
    """The path of a report that must be there.

    Raises:
        NoDataError: the stage that writes it has not run.
    """
    path = workspace.path(relative)
    if not path.exists():
        raise NoDataError(f"{path} does not exist; run `harness evaluate` and `harness compare`")
    return path


def _stage_records(workspace: Workspace) -> Iterator[StageRecord]:
    for stage in STAGES:
        path = workspace.path(report_path(stage))
        if path.exists():
            report = StageReport.read(path)
            yield StageRecord(
                stage=stage,
                key=report.key,
                figures=report.figures,
                report=path,
                prefix=_PREFIXES.get(stage, "data"),
            )


def _datasets(workspace: Workspace, context: RunContext) -> Iterator[DatasetUse]:
    """Raw sources as DVC knows them, then the tables that were made of them."""
    for relative, digest in context.data_digests.items():
        if relative.startswith(f"{RAW}/"):
            yield DatasetUse(
                name=Path(relative).name,
                path=relative,
                digest=digest,
                n_rows=None,
                purpose="source",
            )
    for relative in _TABLES:
        path = workspace.path(relative)
        if path.exists():
            yield DatasetUse(
                name=path.stem,
                path=relative,
                digest=context.data_digests.get(relative) or file_digest(path),
                n_rows=pq.read_metadata(path).num_rows,
                purpose="training",
            )


def _attachments(
    workspace: Workspace, context: RunContext, lineage: Mapping[str, str], *, scratch: Path
) -> Iterator[Attachment]:
    for relative in (HTML_REPORT, EVALUATION, VERDICT, "dvc.lock"):
        if workspace.path(relative).exists():
            yield Attachment(path=workspace.path(relative))
    if workspace.path(PLOTS).is_dir():
        yield Attachment(path=workspace.path(PLOTS), folder="plots")
    if workspace.path(DATA_DOCS).is_dir():
        # Fonts and pictures of four megabytes, for pages that take their style from the network.
        pages = scratch / "data_docs"
        shutil.copytree(workspace.path(DATA_DOCS), pages, ignore=shutil.ignore_patterns("static"))
        yield Attachment(path=pages, folder="data_docs")
    parameters = scratch / PARAMS
    parameters.write_text(yaml.safe_dump(context.params, sort_keys=False), encoding="utf-8")
    yield Attachment(path=parameters)
    document = {**lineage, "dvc": context.data_digests}
    origin = scratch / "lineage.json"
    origin.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))
    yield Attachment(path=origin)
