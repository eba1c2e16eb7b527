"""How the components of one action become one number, and the rows of one trajectory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness_core.rewards.config import RewardConfig
from harness_core.rewards.danger import danger_rules
from harness_core.rewards.grading import Facts, actions_of, program_of, submitted_program
from harness_core.rewards.programs import (
    ProcessTerms,
    excess_lines,
    gate_is_open,
    gated,
    has_valid_syntax,
    visible_tests,
)
from harness_core.rewards.table import COMPONENTS
from harness_core.rewards.tools import (
    action_key,
    claims_to_pass,
    logged_outcome,
    logged_success,
    progress_of,
    repeated_action,
    token_cost,
)
from harness_core.sandbox.result import Verdict
from harness_core.trajectories.schema import Action, Step, TaskSpec, Trajectory
from harness_core.trajectories.vocabulary import Language

Row = dict[str, Any]


def reward_of(row: Mapping[str, Any], config: RewardConfig) -> float:
    """The weighted sum of the components of a row; a null component adds nothing."""
    weights = config.weights
    return float(
        sum(getattr(weights, name) * row[name] for name in COMPONENTS if row.get(name) is not None)
    )


class Ending(NamedTuple):
    """What the last action of a trajectory is paid; None where nothing is known."""

    all_tests: float | None
    outcome: float | None
    solved: bool | None
    verdict: Verdict | None
    contradicts_log: bool


def ending_of(trajectory: Trajectory, task: TaskSpec, facts: Facts) -> Ending:
    """How a trajectory ended. What we computed always overrides what the log claims.

    A run that submits no program at a task with hidden checks passes none of them.
    """
    submitted = submitted_program(trajectory.steps, task)
    verdict = None if submitted is None else facts.hidden_verdict(submitted, task)
    solved = _solved(verdict)
    if submitted is None and task.language is Language.PYTHON and task.hidden_checks:
        solved = False
    if solved is None:
        return Ending(None, logged_outcome(trajectory.outcome), None, verdict, False)
    claimed = logged_success(trajectory.outcome)
    contradicts = claimed is not None and claimed != solved
    return Ending(float(solved), None, solved, verdict, contradicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trajectory:
    """A trajectory with what its rows share."""

    trajectory_id: str
    task: TaskSpec
    facts: Facts
    config: RewardConfig
    ending: Ending
    submitted: str | None
    n_steps: int
    extra: Mapping[str, Any]


def reward_rows(
    trajectory: Trajectory, task: TaskSpec, facts: Facts, config: RewardConfig
) -> Iterator[Row]:
    """The rows of one trajectory, in the order of their key."""
    shared = _Trajectory(
        trajectory_id=trajectory.trajectory_id,
        task=task,
        facts=facts,
        config=config,
        ending=ending_of(trajectory, task, facts),
        submitted=submitted_program(trajectory.steps, task),
        n_steps=len(trajectory.steps),
        extra=trajectory.extra,
    )
    progress = None
    if not _is_test_graded(task):
        progress = progress_of([step.logged_reward for step in trajectory.steps])
    earlier: set[str] = set()
    for step in trajectory.steps:
        taken = step.chosen_index or 0
        for index, action in enumerate(actions_of(step)):
            is_taken = index == taken
            row = _row(shared, step, action, is_taken=is_taken)
            row["candidate_index"] = index
            row["repeated_action"] = repeated_action(action, earlier)
            if is_taken and progress is not None:
                row["progress"] = progress[step.index]
            yield row
        earlier.add(action_key(step.action))


def _row(shared: _Trajectory, step: Step, action: Action, *, is_taken: bool) -> Row:
    task, facts = shared.task, shared.facts
    is_last = is_taken and step.index == shared.n_steps - 1
    program = program_of(action, task)
    visible = None if program is None else facts.visible_verdict(program, task)
    hidden = None
    if program is not None and (step.candidates or program == shared.submitted):
        hidden = facts.hidden_verdict(program, task)
    elif is_last:
        hidden = shared.ending.verdict
    solved = shared.ending.solved if is_last else _solved(hidden)
    rules = danger_rules(task.language, action.kind, action.text)
    terms = _process_terms(shared, program, visible, solved=solved)
    verdicts = [verdict for verdict in (visible, hidden) if verdict is not None]
    return {
        "trajectory_id": shared.trajectory_id,
        "step_index": step.index,
        "is_taken": is_taken,
        **dict.fromkeys(COMPONENTS),
        **terms._asdict(),
        "visible_tests": visible_tests(visible),
        "all_tests": shared.ending.all_tests if is_last else None,
        "outcome": shared.ending.outcome if is_last else None,
        "danger": float(bool(rules)),
        "invalid_call": float(step.is_error) if is_taken and step.is_error is not None else None,
        "step_cost": 1.0,
        "token_cost": token_cost(step.usage) if is_taken else None,
        "solved": solved,
        "n_hidden_passed": None if hidden is None else hidden.n_passed,
        "n_hidden_total": None if hidden is None else hidden.n_usable,
        "danger_rules": list(rules),
        "ends_here": is_taken and bool(rules),
        "trusted": all(verdict.trusted for verdict in verdicts),
        "isolation": _isolation(verdicts),
        "contradicts_log": (is_last and shared.ending.contradicts_log)
        or (is_taken and _belies_claim(shared, step, visible, solved=solved)),
    }


def _belies_claim(
    shared: _Trajectory, step: Step, visible: Verdict | None, *, solved: bool | None
) -> bool:
    """Whether the log says that the tests of this step passed, and they don't."""
    if not claims_to_pass(shared.extra, step.index):
        return False
    if visible is not None and visible.n_usable:
        return not visible.all_passed
    return solved is False


def _process_terms(
    shared: _Trajectory, program: str | None, visible: Verdict | None, *, solved: bool | None
) -> ProcessTerms:
    if program is None:
        return ProcessTerms(None, None, None)
    config = shared.config
    terms = ProcessTerms(
        syntax=float(has_valid_syntax(program)),
        excess_lines=excess_lines(program, shared.task.reference, length_slack=config.length_slack),
        style=float(program in shared.facts.clean),
    )
    if not config.gate_process:
        return terms
    return gated(terms, is_open=gate_is_open(visible, solved=solved))


def _solved(verdict: Verdict | None) -> bool | None:
    if verdict is None or not verdict.n_usable:
        return None
    return verdict.all_passed and not verdict.tampered


def _is_test_graded(task: TaskSpec) -> bool:
    """Whether our own tests pay progress already; then a log's graded turns would pay it twice."""
    has_checks = bool(task.visible_checks or task.hidden_checks)
    return task.language is Language.PYTHON and has_checks


def _isolation(verdicts: list[Verdict]) -> str:
    return ",".join(dict.fromkeys(layer for verdict in verdicts for layer in verdict.layers))
