"""Programs to grade and the tests to grade them on, from the data pack `codet`."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness_core.errors import ParameterError
from harness_core.importers.base import ImportContext
from harness_core.importers.codet import CodetImporter
from harness_core.importers.config import IngestConfig
from harness_core.rewards.danger import danger_rules
from harness_core.trajectories.schema import TaskSpec, Trajectory
from harness_core.trajectories.vocabulary import ActionKind, Language

_INGEST: Final = IngestConfig(
    sources=(),
    max_reject_rate=0.0,
    max_record_bytes=1 << 24,
    max_depth=64,
    max_generated_checks=1,
    max_controller_share=1.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One program with its hidden tests."""

    name: str
    program: str
    entry_point: str
    checks: tuple[str, ...]
    label: bool | None = None
    """What the pack says of it."""

    @property
    def test(self) -> str:
        """The checks as one source that defines `check(candidate)`."""
        source = "\n".join(self.checks)
        if "def check(" in source:
            return source
        body = "".join(f"    {line}\n" for line in source.splitlines())
        return f"def check(candidate):\n{body}"


def codet_candidates(packs: Path, *, n: int, seed: int) -> list[Candidate]:
    """Some programs of the pack, drawn at random, harmless as far as the danger rules know.

    Raises:
        ParameterError: there is no such pack.
    """
    folder = packs / "codet"
    if not folder.is_dir():
        raise ParameterError(
            f"no data pack at {folder}: name the folder that holds `codet` with --packs or in the "
            "environment variable HARNESS_DATA_PACKS"
        )
    items = list(CodetImporter().read(folder, ImportContext(source="codet", config=_INGEST)))
    tasks = {item.task_id: item for item in items if isinstance(item, TaskSpec)}
    runs = [item for item in items if isinstance(item, Trajectory)]
    random.Random(seed).shuffle(runs)
    found: list[Candidate] = []
    for run in runs:
        program = run.steps[0].action.text
        # The other methods run it bare, on the machine of whoever measures.
        if not danger_rules(Language.PYTHON, ActionKind.CODE, program):
            found.append(_candidate(run, tasks[run.task.task_id], program))
        if len(found) == n:
            break
    return found


def _candidate(run: Trajectory, task: TaskSpec, program: str) -> Candidate:
    assert task.entry_point is not None
    return Candidate(
        name=f"{task.task_id}#{run.extra['sample']}",
        program=program,
        entry_point=task.entry_point,
        checks=task.hidden_checks,
        label=run.outcome.success,
    )
