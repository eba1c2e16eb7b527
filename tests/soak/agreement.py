"""Agreement with the labels on every program of four published packs, not on a sample.

python -m tests.soak.agreement

Prints the table, each disagreement with its reason and the tasks that are left out. Where the
verdict differs, a second opinion is asked for: program and tests together in one process, as the
labels were made. Exit code 1 if that agrees with the label. Takes about ten minutes on two cores.
"""

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from harness_core.params import load_params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.protocol import ProgramJob, Sandbox
from harness_core.sandbox.result import CallStatus, ProgramRun
from tests.sandbox.agreement import (
    HEADING,
    UNGRADABLE,
    Compared,
    Labelled,
    Tally,
    classeval_candidates,
    classeval_references,
    codet_candidates,
    compare,
    humaneval_references,
    ldb_attempts,
    reason_of,
)

_ROOT: Final = Path(__file__).parents[2]
_PACKS: Final = ("humaneval", "codet", "classeval", "ldb", "all")
_BATCH: Final = 500
_PASSED: Final = "passed"


def main() -> int:
    packs = Path(os.environ.get("HARNESS_DATA_PACKS", _ROOT.parent / "shared" / "data"))
    limits = load_params(_ROOT / "params.yaml").sandbox
    with tempfile.TemporaryDirectory() as work, open_sandbox(limits) as sandbox:
        grader = Grader(sandbox)
        references = _graded(grader, classeval_references(packs))
        failing = {item.labelled.key for item in references if not item.agrees}
        compared = _graded(grader, humaneval_references(packs))
        compared += _graded(grader, codet_candidates(packs, Path(work)))
        compared += _graded(grader, ldb_attempts(packs))
        candidates = _graded(grader, classeval_candidates(packs, with_timeouts=True))
        compared += [item for item in candidates if item.task not in failing]
        left_out = [item for item in candidates if item.task in failing]
        differing = [item for item in compared if not item.agrees]
        opinions = list(map(_opinion, _together(sandbox, differing)))
    lines = [HEADING, *(Tally.of(pack, compared).line() for pack in _PACKS)]
    lines.append(f"references of classeval that pass: {len(references) - len(failing)}")
    lines.append(f"left out: {len(left_out)}, of which agree {sum(i.agrees for i in left_out)}")
    lines += [f"  {task}: {UNGRADABLE.get(task)}" for task in sorted(failing)]
    for item, opinion in zip(differing, opinions, strict=True):
        lines.append(f"{_told(item)}; together: {opinion}")
    lines.append("only the number of passed tests differs:")
    lines += [_told(item) for item in compared if item.agrees and not item.counts_agree]
    sys.stdout.write("\n".join([*lines, ""]))
    agree_with_label = [
        (opinion == _PASSED) == item.labelled.success
        for item, opinion in zip(differing, opinions, strict=True)
    ]
    return int(any(agree_with_label))


def _graded(grader: Grader, programs: Iterable[Labelled]) -> list[Compared]:
    waiting = list(programs)
    graded: list[Compared] = []
    for start in range(0, len(waiting), _BATCH):
        graded += compare(grader, waiting[start : start + _BATCH])
        sys.stderr.write(f"{waiting[0].pack}: {len(graded)} of {len(waiting)}\n")
    return graded


def _together(sandbox: Sandbox, items: Iterable[Compared]) -> list[ProgramRun]:
    jobs = [item.labelled.job for item in items]
    return sandbox.run_programs(
        [
            ProgramJob("\n".join([job.program, *job.checks, _call(job)]), (f"{_PASSED!r}",))
            for job in jobs
        ]
    )


def _call(job: GradeJob) -> str:
    is_defined = any("def check(" in check for check in job.checks)
    return f"check({job.entry_point})" if is_defined else ""


def _opinion(run: ProgramRun) -> str:
    (call,) = run.calls
    return str(call.value) if call.status is CallStatus.VALUE else f"{call.status} {call.detail}"


def _told(item: Compared) -> str:
    known, verdict = item.labelled, item.verdict
    said = f"label {known.success} {known.n_passed}, here {verdict.all_passed} {verdict.n_passed}"
    return f"  {known.pack} {known.key}: {said}: {reason_of(item)}"


if __name__ == "__main__":
    sys.exit(main())
