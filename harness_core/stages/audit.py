"""Stage `audit`: no cheat may earn as much as an honest attempt, or no model is trained.

It looks at problems that ship with the library and at tasks of the logs, with the grader, the cache
of verdicts and the weights of the stage `rewards`. Logs without Python programs need no sandbox
here either: then only what graded turns pay is audited. What was found is published even when the
stage stops.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import orjson

from harness_core.rewards.audit import audit_rewards, literal_scheme, refuse_if_broken
from harness_core.rewards.audit_cases import AuditCase, grade_cases, weakness
from harness_core.rewards.audit_report import AuditReport
from harness_core.rewards.config import RewardConfig
from harness_core.rewards.grading import Facts, Judge
from harness_core.rewards.judge import open_judge
from harness_core.rewards.probes_graded import graded_case
from harness_core.sandbox.config import SandboxConfig
from harness_core.stages import dag
from harness_core.stages.audit_guard import scheme_digest
from harness_core.stages.audit_tasks import logged_cases, our_cases
from harness_core.stages.report import StageReport
from harness_core.tables import publish_bytes
from harness_core.trajectories.schema import TaskSpec
from harness_core.trajectories.store import read_tasks
from harness_core.trajectories.vocabulary import Language

_LOG: Final = logging.getLogger("harness")
_N_OURS: Final = 10
_N_LOGGED: Final = 3
_DIGITS: Final = 6

OpenJudge = Callable[[], AbstractContextManager[Judge]]


def run(rewards: RewardConfig, sandbox: SandboxConfig, workspace: dag.Workspace) -> StageReport:
    """Audit the rewards and publish the table of probes.

    Raises:
        AuditFailed: a probe earns as much as an honest attempt.
        IsolationUnavailable: no sandbox is strong enough.
    """
    return run_with(rewards, lambda: open_judge(sandbox, cache=workspace.cache), workspace)


def run_with(
    rewards: RewardConfig,
    opened: OpenJudge,
    workspace: dag.Workspace,
    *,
    n_ours: int | None = None,
) -> StageReport:
    """Audit the rewards, judged by whatever `opened` gives, on `n_ours` problems of ours."""
    tasks = _tasks(workspace)
    logged = logged_cases(tasks or (), _N_LOGGED)
    ours = [graded_case()]
    facts = Facts(visible={}, hidden={}, clean=frozenset())
    if tasks is None or any(task.language is Language.PYTHON for task in tasks):
        ours += our_cases(n_ours or _N_OURS)
        _LOG.info("audit: %d tasks of ours, %d of the logs", len(ours), len(logged))
        with opened() as judge:
            facts = grade_cases([*ours, *logged], judge, rewards)
    weak = _weak(logged, facts)
    cases = [*ours, *(case for case in logged if case.task.task_id not in weak)]
    present = audit_rewards(cases, facts, rewards)
    schemes = {"present": present, "literal": audit_rewards(cases, facts, literal_scheme(rewards))}
    _publish(schemes, weak, workspace)
    refuse_if_broken(present)
    return StageReport(stage="audit", figures=_figures(present, weak, rewards))


def read_table(workspace: dag.Workspace) -> dict[str, Any]:
    """The table of probes as the last audit published it, by scheme."""
    content: dict[str, Any] = orjson.loads(workspace.path(dag.AUDIT_TABLE).read_bytes())
    return content


def _tasks(workspace: dag.Workspace) -> list[TaskSpec] | None:
    """The tasks of the logs. None without any: weights can be audited before there are logs."""
    path = workspace.path(dag.TASKS)
    return list(read_tasks(path).values()) if path.exists() else None


def _weak(cases: Sequence[AuditCase], facts: Facts) -> dict[str, str]:
    """Tasks of the logs whose own checks tell nothing, by id: that is no fault of the weights."""
    reasons = {case.task.task_id: weakness(case, facts) for case in cases}
    weak = {name: reason for name, reason in reasons.items() if reason is not None}
    for name, reason in weak.items():
        _LOG.warning("audit: the task %s is left out: %s", name, reason)
    return weak


def _publish(
    schemes: Mapping[str, AuditReport], weak: Mapping[str, str], workspace: dag.Workspace
) -> None:
    content = {
        **{name: report.figures() for name, report in schemes.items()},
        "tasks": list(schemes["present"].tasks),
        "weak_tasks": dict(weak),
    }
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    publish_bytes(workspace.path(dag.AUDIT_TABLE), orjson.dumps(content, option=options))


def _figures(report: AuditReport, weak: Mapping[str, str], rewards: RewardConfig) -> dict[str, Any]:
    margins = {item.probe: item.strict_margin for item in report.probes}
    strict = {probe: margin for probe, margin in margins.items() if margin is not None}
    closest = min(strict, key=strict.__getitem__, default=None)
    return {
        "passed": report.passed,
        "scheme": scheme_digest(rewards),
        "n_tasks": len(report.tasks),
        "n_probes": len(report.probes),
        "n_comparisons": report.n_comparisons,
        "weak_tasks": dict(weak),
        "closest_probe": closest,
        "closest_margin": None if closest is None else round(strict[closest], _DIGITS),
    }
