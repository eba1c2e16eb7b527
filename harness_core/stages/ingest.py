"""Stage `ingest`: landed logs in, the tables of trajectories, steps and tasks out.

What cannot be read goes to the quarantine, one file a source; good records are kept. A source of
which too much cannot be read stops the run, after its quarantine was written.
"""

import logging
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson

from harness_core.errors import ImportFormatError, NoDataError, ParameterError
from harness_core.importers.base import (
    SOURCE_FILE,
    ImportContext,
    Importer,
    Tally,
    is_log,
)
from harness_core.importers.config import IngestConfig
from harness_core.importers.decision_marks import is_own, within_share
from harness_core.importers.rejects import Reject
from harness_core.importers.sniff import importer_named, sniffed
from harness_core.importers.tasks import TaskBook
from harness_core.stages.dag import QUARANTINE, RAW, STEPS, TASKS, TRAJECTORIES, Workspace
from harness_core.stages.report import StageReport
from harness_core.tables import publish_bytes
from harness_core.trajectories.schema import TaskSpec, Trajectory
from harness_core.trajectories.store import write_tasks, write_trajectories

_LOG: Final = logging.getLogger("harness")
_INDEX: Final = "index.json"
_MAX_LISTED: Final = 100_000
"""Rejects of one source that are written out; all are counted."""
_N_TOLD: Final = 5
_READABLE: Final = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS


@dataclass(slots=True)
class _Source:
    """What was read of one landed source."""

    name: str
    importer: str
    tally: Tally
    trajectories: dict[str, Trajectory] = field(default_factory=dict)
    tasks: TaskBook = field(default_factory=TaskBook)
    rejects: list[Reject] = field(default_factory=list)
    by_rule: Counter[str] = field(default_factory=Counter)
    n_duplicates: int = 0
    n_conflicts: int = 0

    def take(self, item: Trajectory | TaskSpec | Reject) -> None:
        """Sort in one item of the importer."""
        if isinstance(item, Trajectory):
            known = self.trajectories.setdefault(item.trajectory_id, item)
            self.n_duplicates += known is not item
        elif isinstance(item, TaskSpec):
            self.n_conflicts += bool(self.tasks.add(item))
        else:
            self.by_rule[item.rule_id] += 1
            if len(self.rejects) < _MAX_LISTED:
                self.rejects.append(item)

    @property
    def n_rejected(self) -> int:
        return self.by_rule.total()

    @property
    def reject_rate(self) -> float:
        return self.n_rejected / max(1, self.tally.n_records)

    def figures(self) -> dict[str, Any]:
        """Counts, as they stand in the report."""
        return {
            "importer": self.importer,
            "n_records": self.tally.n_records,
            "n_trajectories": len(self.trajectories),
            "n_tasks": sum(1 for _ in self.tasks),
            "n_rejected": self.n_rejected,
            "n_duplicates": self.n_duplicates,
            "n_task_conflicts": self.n_conflicts,
            "rejects_by_rule": dict(sorted(self.by_rule.items())),
            "warnings_by_rule": dict(sorted(self.tally.warnings.items())),
        }


def run(ingest: IngestConfig, workspace: Workspace) -> StageReport:
    """Read every landed source and write the three interim tables and the quarantine.

    Raises:
        NoDataError: no source has landed, nothing in them is a trajectory, or all are the
            controller's own and may not be.
        ImportFormatError: a source has more rejects than `max_reject_rate`.
    """
    sources = [
        _read(folder, ingest) for folder in _folders(workspace.path(RAW), wanted=ingest.sources)
    ]
    _write_quarantine(workspace.path(QUARANTINE), sources)
    _refuse(sources, ingest, workspace)
    told = [item for source in sources for item in source.trajectories.values()]
    if not told:
        raise NoDataError(f"no trajectory in {', '.join(source.name for source in sources)}")
    trajectories = within_share(told, ingest.max_controller_share)
    if not trajectories:
        raise NoDataError(
            f"all {len(told)} trajectories are the controller's own decisions, and "
            f"ingest.max_controller_share is {ingest.max_controller_share}; land logs of others "
            "too, or raise it to 1"
        )
    write_trajectories(
        trajectories,
        trajectories_path=workspace.path(TRAJECTORIES),
        steps_path=workspace.path(STEPS),
    )
    untried = _tasks_of(told) - _tasks_of(trajectories)
    tasks = [task for source in sources for task in source.tasks]
    write_tasks(
        workspace.path(TASKS),
        [task for task in tasks if (task.source, task.task_id) not in untried],
    )
    figures = {source.name: source.figures() for source in sources}
    return StageReport(
        stage="ingest",
        figures={
            "n_trajectories": len(trajectories),
            "n_steps": sum(len(item.steps) for item in trajectories),
            "n_tasks": len(tasks) - len(untried),
            "n_rejected": sum(counts["n_rejected"] for counts in figures.values()),
            "n_of_the_controller": sum(map(is_own, trajectories)),
            "n_of_the_controller_left_out": len(told) - len(trajectories),
            "sources": figures,
        },
    )


def _tasks_of(trajectories: list[Trajectory]) -> set[tuple[str, str]]:
    return {(item.provenance.source, item.task.task_id) for item in trajectories}


def _folders(raw: Path, *, wanted: tuple[str, ...]) -> list[Path]:
    landed = {
        folder.name: folder
        for folder in sorted(raw.glob("*"))
        if folder.is_dir() and not folder.name.startswith(".")
    }
    if not landed:
        raise NoDataError(
            f"no logs below {raw}; land some with --source PATH, or make some with `harness sample`"
        )
    missing = sorted(set(wanted) - landed.keys())
    if missing:
        raise NoDataError(
            f"ingest.sources: {', '.join(missing)} not in {raw}; it holds {[*landed]}"
        )
    return [landed[name] for name in sorted(wanted or landed)]


def _read(folder: Path, config: IngestConfig) -> _Source:
    importer = _importer_of(folder)
    context = ImportContext(source=folder.name, config=config)
    source = _Source(name=folder.name, importer=importer.name, tally=context.tally)
    for item in importer.read(folder, context):
        source.take(item)
    _LOG.info(
        "ingest: %s (%s): %d trajectories, %d rejected",
        *(source.name, source.importer, len(source.trajectories), source.n_rejected),
    )
    return source


def _importer_of(folder: Path) -> Importer:
    """The importer that `source.json` names; a folder put there by hand is sniffed."""
    try:
        description = orjson.loads((folder / SOURCE_FILE).read_bytes())
        return importer_named(description["format"])
    except FileNotFoundError:
        paths = (
            PurePosixPath(path.relative_to(folder).as_posix())
            for path in folder.rglob("*")
            if path.is_file()
        )
        return sniffed(folder, filter(is_log, paths))
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ParameterError(
            f'{folder / SOURCE_FILE}: expected {{"format": "<name>"}}; write it or remove the file'
        ) from error


def _write_quarantine(folder: Path, sources: list[_Source]) -> None:
    """One file a source that has rejects, and an index of all; files of earlier runs go."""
    index = {}
    kept = {_INDEX}
    for source in sources:
        index[source.name] = {
            "n_rejected": source.n_rejected,
            "n_listed": len(source.rejects),
            "by_rule": dict(sorted(source.by_rule.items())),
        }
        if source.rejects:
            kept.add(f"{source.name}.jsonl")
            lines = (reject.model_dump_json().encode() + b"\n" for reject in source.rejects)
            publish_bytes(folder / f"{source.name}.jsonl", b"".join(lines))
    publish_bytes(folder / _INDEX, orjson.dumps(index, option=_READABLE) + b"\n")
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()


def _refuse(sources: list[_Source], config: IngestConfig, workspace: Workspace) -> None:
    for source in sources:
        if source.reject_rate <= config.max_reject_rate:
            continue
        told = "\n".join(f"  {reject.place}" for reject in source.rejects[:_N_TOLD])
        raise ImportFormatError(
            f"{source.name}: {source.n_rejected} of {source.tally.n_records} records cannot be "
            f"read as '{source.importer}' (ingest.max_reject_rate is {config.max_reject_rate}):\n"
            f"{told}\nAll of them are in {workspace.path(QUARANTINE) / source.name}.jsonl"
        )
