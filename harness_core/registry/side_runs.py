"""A run beside the flywheel's own: figures, a table and pictures, and never a model version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness_core.registry.lineage import Attachment
from harness_core.registry.measures import flat_metrics, flat_params
from harness_core.registry.runs import RunTracker
from harness_core.registry.versions import RUN_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRun:
    """What such a run leaves behind."""

    kind: str
    """What it is: value of the tag `kind`, and first part of name, key and metrics."""
    key: str
    """Identity: the same one is recorded once."""
    params: Mapping[str, Any]
    figures: Mapping[str, Any]
    note: str
    """Description in Markdown, read first."""
    attachments: Sequence[Attachment] = ()


def log_side_run(tracker: RunTracker, run: SideRun) -> str:
    """Record a run and return its id. Call it under the store's lock, as `log_run`."""
    # No run of the flywheel has such a key, so that neither is ever taken for the other.
    key = f"{run.kind}/{run.key}"
    tags = {
        RUN_KEY: key,
        "kind": run.kind,
        "mlflow.note.content": run.note,
        "mlflow.source.name": "harness",
    }
    finished = tracker.find(key)
    if finished is not None:
        tracker.tag(finished, tags)
        return finished
    tracker.close_dead()
    run_id = tracker.start(f"{run.kind}-{run.key[:8]}", tags=tags)
    tracker.log(
        run_id, params=flat_params(run.params), metrics=flat_metrics(run.figures, prefix=run.kind)
    )
    for item in run.attachments:
        tracker.attach(run_id, item.path, folder=item.folder)
    tracker.finish(run_id)
    return run_id
