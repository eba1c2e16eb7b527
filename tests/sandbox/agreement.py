"""Programs whose outcome is known: references and candidates of published packs with labels.

The labels were made by running program and tests together in a plain interpreter for at most 5 s
of wall time. `EXPLAINED` holds every case known in which this grader says otherwise.
"""

import functools
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness_core.importers.assertions import hidden_checks
from harness_core.importers.base import ImportContext
from harness_core.importers.catalogue import IMPORTERS
from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.result import Evidence, Verdict
from harness_core.trajectories.schema import TaskSpec, Trajectory
from tests.importers.conftest import CONFIG

CODET_STRIDE: Final = 18
"""Every so manieth of the 13,000 candidates: 5 or 6 of each task."""
CLASSEVAL_STRIDE: Final = 4
"""Every so manieth of the candidates of tasks that can be graded here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A program, its checks, and what is known of it."""

    pack: str
    key: str
    """Task, run and number of the sample."""
    job: GradeJob
    success: bool
    n_passed: int | None = None
    """Number of tests that passed, where the label counts them."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A program and what was said of it."""

    labelled: Labelled
    verdict: Verdict

    @property
    def task(self) -> str:
        return self.labelled.key.partition(" ")[0]

    @property
    def agrees(self) -> bool:
        return self.labelled.success == self.verdict.all_passed

    @property
    def counts_agree(self) -> bool:
        return self.labelled.n_passed in {None, self.verdict.n_passed}


@dataclass(frozen=True, slots=True)
class Tally:
    """One line of the table."""

    pack: str
    n_programs: int
    n_agree: int
    n_counts_agree: int
    n_in_box: int
    """Verdicts that rest on a test's own word, at least in part."""

    @classmethod
    def of(cls, pack: str, compared: Iterable[Compared]) -> "Tally":
        items = [item for item in compared if pack in {item.labelled.pack, "all"}]
        return cls(
            pack,
            len(items),
            sum(item.agrees for item in items),
            sum(item.counts_agree for item in items),
            sum(Evidence.IN_BOX in item.verdict.evidence for item in items),
        )

    def line(self) -> str:
        share = 100 * self.n_agree / max(self.n_programs, 1)
        return (
            f"{self.pack:10} {self.n_programs:8} {self.n_agree:8} {share:7.2f} %"
            f" {self.n_counts_agree:8} {self.n_in_box:8}"
        )


HEADING: Final = f"{'pack':10} {'programs':>8} {'agree':>8} {'':>9} {'counts':>8} {'in box':>8}"


def humaneval_references(packs: Path) -> Iterator[Labelled]:
    """The solutions that the authors of the tasks wrote."""
    with lzma.open(packs / "humaneval" / "HumanEval.jsonl.xz") as lines:
        for row in map(json.loads, lines):
            yield Labelled(
                pack="humaneval",
                key=row["task_id"],
                job=GradeJob(
                    row["prompt"] + row["canonical_solution"],
                    row["entry_point"],
                    hidden_checks(row["test"], row["entry_point"]),
                ),
                success=True,
            )


def codet_candidates(packs: Path, work: Path) -> Iterator[Labelled]:
    """Completions of a model; the model-written tests are left aside, reading them takes long."""
    for path in (packs / "codet").iterdir():
        if "test_case" not in path.name:
            (work / path.name).symlink_to(path)
    yield from _candidates("codet", work)


def classeval_references(packs: Path) -> Iterator[Labelled]:
    """The authors' classes; each passed all tests where the labels were made."""
    for task in _read("classeval", packs / "classeval").tasks.values():
        if task.hidden_checks and task.reference:
            job = GradeJob(task.reference, task.entry_point, task.hidden_checks)
            yield Labelled(pack="classeval", key=task.task_id, job=job, success=True)


def classeval_candidates(packs: Path, *, with_timeouts: bool = False) -> Iterator[Labelled]:
    """Whole classes, with the number of unit tests that each passed.

    Those whose label is a time-out cost long, as each of their tests may run into our limit too.
    """
    for item in _candidates("classeval", packs / "classeval"):
        if (item.pack, item.key) not in _timed_out(packs):
            yield item
        elif with_timeouts:
            yield replace(item, n_passed=None)  # the label does not count what had passed


@functools.cache
def _timed_out(packs: Path) -> frozenset[tuple[str, str]]:
    """Candidates of `classeval` that ran out of their 5 s."""
    with lzma.open(packs / "classeval" / "labels.jsonl.xz") as lines:
        return frozenset(
            ("classeval", f"{row['task_id']} {row['model']} {sample}")
            for row in map(json.loads, lines)
            for sample, error in enumerate(row["error"])
            if error == "timeout"
        )


def ldb_attempts(packs: Path) -> Iterator[Labelled]:
    """The last programs of a debugging agent, and the first ones."""
    yield from _candidates("ldb", packs / "ldb")


def compare(grader: Grader, programs: list[Labelled]) -> list[Compared]:
    """Grade them all and set verdict and label side by side."""
    verdicts = grader.grade([item.job for item in programs])
    return list(map(Compared, programs, verdicts))


@dataclass(frozen=True, slots=True)
class _Read:
    tasks: Mapping[str, TaskSpec]
    attempts: tuple[Trajectory, ...]


@functools.lru_cache(maxsize=4)
def _read(pack: str, folder: Path) -> _Read:
    items = list(IMPORTERS[pack].read(folder, ImportContext(source=pack, config=CONFIG)))
    return _Read(
        {item.task_id: item for item in items if isinstance(item, TaskSpec)},
        tuple(item for item in items if isinstance(item, Trajectory)),
    )


def _candidates(pack: str, folder: Path) -> Iterator[Labelled]:
    read = _read(pack, folder)
    for item in read.attempts:
        task = read.tasks[item.task.task_id]
        if task.hidden_checks:
            run = item.extra.get("run", f"{item.agent.name} {item.agent.model}")
            yield Labelled(
                pack=pack,
                key=f"{task.task_id} {run} {item.extra.get('sample', '')}".strip(),
                job=GradeJob(item.steps[-1].action.text, task.entry_point, task.hidden_checks),
                success=bool(item.outcome.success),
                n_passed=item.outcome.n_tests_passed,
            )


UNGRADABLE: Final[Mapping[str, str]] = {
    "ClassEval_2": "the expected dictionary holds classes (`int`, `bool`), which are no data",
    "ClassEval_18": "`in`, `len` and `[]` of an object of the program's own class",
    "ClassEval_25": "a test reads the file that an earlier test wrote; here each test is alone",
    "ClassEval_50": "the set-up changes the mode of a file, which the box refuses",
    "ClassEval_84": "tests that replace the program's methods, and ask for the type of a value",
    "ClassEval_98": "tests that look into the XML elements that the program returns",
}
"""Tasks of `classeval` whose own reference does not pass here, and why. Nothing is said of their
candidates, as the labels say nothing of tasks whose reference failed where they were made."""

_PACKAGE: Final = "imports numpy, which was there where the labels were made and is in no box"
EXPLAINED: Final[Mapping[tuple[str, str], str]] = {
    **{("classeval", f"ClassEval_81 GPT-4_100_c_5 {sample}"): _PACKAGE for sample in range(5)},
    ("classeval", "ClassEval_46 GPT-4_100_c_5 1"): _PACKAGE,
    ("classeval", "ClassEval_36"): "a test expects the second in which it runs itself",
}
"""By pack, and by program or task. For ClassEval and CodeT the verdict on success never differs;
these are the counts of single tests."""


def reason_of(item: Compared) -> str | None:
    """Why the grader says something else than the label, if that is known."""
    pack = item.labelled.pack
    return EXPLAINED.get((pack, item.labelled.key)) or EXPLAINED.get((pack, item.task))
