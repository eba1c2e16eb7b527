"""Stage `validate`: the data gate. Critical failures stop the run, warnings reach the report."""

import logging
import shutil
import tempfile
from pathlib import Path
from typing import Final

from harness_core.errors import ValidationFailed
from harness_core.stages.dag import DATA_DOCS, STEPS, TASKS, TRAJECTORIES, Workspace
from harness_core.stages.report import StageReport
from harness_core.tables import read_table
from harness_core.trajectories import arrow
from harness_core.validation.config import ValidationConfig
from harness_core.validation.invariants import step_facts, task_facts, trajectory_facts
from harness_core.validation.report import write_summary
from harness_core.validation.verdicts import critical_failures, oddities, warnings_of

_LOG: Final = logging.getLogger("harness")


def run(validation: ValidationConfig, workspace: Workspace) -> StageReport:
    """Check the interim tables and publish what was found, whether or not it is good.

    Raises:
        ValidationFailed: a critical expectation failed; the message names table, expectation,
            column, number of rows and an id.
    """
    # Great Expectations takes seconds to import, and only this stage needs it.
    from harness_core.validation.suite import check_tables  # noqa: PLC0415

    trajectories = read_table(workspace.path(TRAJECTORIES), arrow.TRAJECTORIES)
    steps = read_table(workspace.path(STEPS), arrow.STEPS)
    tasks = read_table(workspace.path(TASKS), arrow.TASKS)
    facts = {
        "trajectories": trajectory_facts(trajectories, steps=steps, tasks=tasks),
        "steps": step_facts(steps, trajectories=trajectories),
        "tasks": task_facts(tasks, trajectories=trajectories),
    }
    counts = {name: table.num_rows for name, table in facts.items()}
    docs = workspace.path(DATA_DOCS)
    docs.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".tmp-", dir=docs.parent) as scratch:
        built = Path(scratch) / docs.name
        verdicts = check_tables(facts, validation, docs_folder=built)
        warnings = [*warnings_of(verdicts), *oddities(trajectories)]
        write_summary(built, verdicts, counts=counts, warnings=warnings)
        shutil.rmtree(docs, ignore_errors=True)
        built.replace(docs)
    for warning in warnings:
        _LOG.warning("validate: %s", warning)
    failures = critical_failures(verdicts)
    if failures:
        found = "\n".join(f"- {failure.sentence}" for failure in failures)
        raise ValidationFailed(
            f"{len(failures)} critical expectations failed "
            f"(see {DATA_DOCS}/summary.html below the working folder):\n{found}"
        )
    return StageReport(
        stage="validate",
        figures={
            **{f"n_{name}": n for name, n in counts.items()},
            "n_expectations": len(verdicts),
            "n_failed": sum(not item.passed for item in verdicts),
            "unknown_outcome_rate": _mean(facts["trajectories"]["outcome_unknown"].to_pylist()),
            "error_rate": _mean(facts["steps"]["failed"].to_pylist()),
            "warnings": warnings,
        },
    )


def _mean(flags: list[int]) -> float:
    return sum(flags) / len(flags) if flags else 0.0
