"""A run with everything that it was made of, written to a tracker in a fixed order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness_core.registry.measures import flat_metrics, flat_params
from harness_core.registry.runs import DatasetUse, RunContext, RunTracker
from harness_core.registry.versions import RUN_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file, or a folder's content, and the folder of the run that it goes to."""

    path: Path
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """What one stage reported."""

    stage: str
    key: str
    figures: Mapping[str, Any]
    report: Path
    prefix: str
    """First part of the names of its metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContents:
    """What a run leaves behind."""

    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    datasets: Sequence[DatasetUse]
    attachments: Sequence[Attachment]
    stages: Sequence[StageRecord]


def log_run(tracker: RunTracker, context: RunContext, contents: RunContents) -> str:
    """Record a run once; a key that is recorded already only has its tags renewed.

    A run that was interrupted is closed as killed and recorded anew. Call it under the store's
    lock: runs that are open then have lost their process.
    """
    tags = {**contents.tags, RUN_KEY: context.run_key}
    finished = tracker.find(context.run_key)
    if finished is not None:
        tracker.tag(finished, tags)
        return finished
    tracker.close_dead()
    run_id = tracker.start(context.run_name, tags=tags)
    for record in contents.stages:
        _log_stage(tracker, record, parent=run_id, run_key=context.run_key)
    figures = {
        name: value for record in contents.stages for name, value in _stage_metrics(record).items()
    }
    tracker.log(
        run_id,
        params=flat_params(context.params),
        # Shown in this order: what people look for comes first.
        metrics={**contents.metrics, **figures},
        datasets=contents.datasets,
    )
    for item in contents.attachments:
        tracker.attach(run_id, item.path, folder=item.folder)
    tracker.finish(run_id)
    return run_id


def _log_stage(tracker: RunTracker, record: StageRecord, *, parent: str, run_key: str) -> None:
    # A key of its own, so that looking for the run finds the parent only.
    tags = {"stage": record.stage, "stage_key": record.key, RUN_KEY: f"{run_key}/{record.stage}"}
    run_id = tracker.start(record.stage, tags=tags, parent=parent)
    tracker.log(run_id, metrics=_stage_metrics(record))
    tracker.attach(run_id, record.report)
    tracker.finish(run_id)


def _stage_metrics(record: StageRecord) -> dict[str, float]:
    return flat_metrics(record.figures, prefix=f"{record.prefix}/{record.stage}")
