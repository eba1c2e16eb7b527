"""How the components of one action become one number, and the rows of one trajectory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness_core.rewards.config import RewardConfig
from harness_core.rewards.grading import Facts, actions_of, program_of, submitted_program
from harness_core.rewards.hard_coding import foul_play
from harness_core.rewards.programs import (
    ProcessTerms,
    excess_lines,
    gate_is_open,
    gated,
    has_valid_syntax,
    visible_tests,
)
from harness_core.rewards.scopes import SCOPES
from harness_core.rewards.suspicion import suspicions
from harness_core.rewards.table import COMPONENTS, OF_A_PROGRAM, OF_THE_END
from harness_core.rewards.tool_policy import action_danger
from harness_core.rewards.tools import (
    action_key,
    claims_to_pass,
    logged_outcome,
    logged_success,
    progress_of,
    repeated_action,
    token_cost,
)
from harness_core.sandbox.result import Evidence, Verdict
from harness_core.trajectories.schema import Action, Step, TaskSpec, Trajectory
from harness_core.trajectories.vocabulary import ActionKind, Language

Row = dict[str, Any]


def reward_of(row: Mapping[str, Any], config: RewardConfig) -> float:
    """The weighted sum of the components of a row; a null component adds nothing.

    An action that ended its trajectory (danger, tampering) is not paid for success: nothing can
    make up for it.
    """
    weights = config.weights
    names = set(COMPONENTS) - (set(OF_THE_END) if row.get("ends_here") else set())
    return float(
        sum(
            getattr(weights, name) * row[name]
            for name in COMPONENTS
            if name in names and row.get(name) is not None
        )
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
    if facts.is_quarantined(task):
        return Ending(None, None, None, None, False)
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
    """The rows of one trajectory, in the order of their key.

    What a program is worth is paid as the difference to the program taken before it, so that the
    sum telescopes to the worth of the last one: to submit it again, or bit by bit, pays nothing.
    """
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
    worth: Row = {}
    for step in trajectory.steps:
        taken, before = step.chosen_index or 0, worth
        for index, action in enumerate(actions_of(step)):
            is_taken = index == taken
            row = _row(shared, step, action, is_taken=is_taken)
            row["candidate_index"] = index
            row["repeated_action"] = repeated_action(action, earlier)
            if is_taken and progress is not None:
                row["progress"] = progress[step.index]
            # Null where the form pays nothing yet; such a program leaves the worth as it was.
            if is_taken and row["syntax"] is not None:
                worth = {name: row[name] for name in OF_A_PROGRAM}
            yield row | _gained(row, before) | _not_understood(task.language, action.kind)
        earlier.add(action_key(step.action))


def _gained(row: Row, before: Row) -> Row:
    """What a program is worth beyond the one before it; what it can't be judged by counts 0."""
    if row["syntax"] is None:
        return {}
    return {
        name: (row[name] or 0.0) - (before.get(name) or 0.0)
        for name in OF_A_PROGRAM
        if row[name] is not None or before.get(name)
    }


def _not_understood(language: Language, kind: ActionKind) -> Row:
    """Null for every component that does not understand such an action."""
    return {name: None for name, understands in SCOPES.items() if not understands(language, kind)}


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
    rules = action_danger(action, task.language, facts.policy)
    allowed = facts.policy.judge(action)
    verdicts = [verdict for verdict in (visible, hidden) if verdict is not None]
    tampered = any(verdict.tampered for verdict in verdicts)
    foul = None if program is None else foul_play(program, task.visible_checks, task.entry_point)
    # Whoever solves the task has understood it, whatever the program looks like.
    is_foul = (foul is not None and not solved) or not all(v.is_honest for v in verdicts)
    is_foul |= bool(rules)
    n_visible = visible_tests(visible, is_foul=is_foul)
    terms = _process_terms(shared, program, n_visible, solved=solved)
    return {
        "trajectory_id": shared.trajectory_id,
        "step_index": step.index,
        "is_taken": is_taken,
        **dict.fromkeys(COMPONENTS),
        **terms._asdict(),
        "visible_tests": n_visible,
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
        "ends_here": is_taken and (bool(rules) or tampered),
        "trusted": all(verdict.trusted for verdict in verdicts),
        "isolation": _isolation(verdicts),
        "contradicts_log": (is_last and shared.ending.contradicts_log)
        or (is_taken and _belies_claim(shared, step, visible, solved=solved)),
        "evidence": _evidence(verdicts),
        "tampered": tampered,
        "stateful": any(verdict.stateful for verdict in verdicts),
        "suspicions": [] if program is None else _flags(program, foul),
        "policy": None if allowed is None else allowed.effect,
        "quarantined": facts.is_quarantined(task),
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
    shared: _Trajectory, program: str | None, visible: float | None, *, solved: bool | None
) -> ProcessTerms:
    if program is None:
        return ProcessTerms(None, None, None)
    config = shared.config
    terms = ProcessTerms(
        syntax=float(has_valid_syntax(program)),
        excess_lines=excess_lines(
            program,
            shared.task.reference,
            length_slack=config.length_slack,
            limit=config.max_excess_lines,
        ),
        style=float(program in shared.facts.clean),
    )
    if not config.gate_process:
        return terms
    return gated(terms, is_open=gate_is_open(visible, solved=solved))


def _solved(verdict: Verdict | None) -> bool | None:
    if verdict is None or not verdict.n_usable:
        return None
    return verdict.all_passed and verdict.is_honest


def _is_test_graded(task: TaskSpec) -> bool:
    """Whether our own tests pay progress already; then a log's graded turns would pay it twice."""
    has_checks = bool(task.visible_checks or task.hidden_checks)
    return task.language is Language.PYTHON and has_checks


def _flags(program: str, foul: str | None) -> list[str]:
    """What of a program looks as if it were meant for the grader rather than the task."""
    return sorted({*suspicions(program), *(() if foul is None else (foul,))})


def _evidence(verdicts: list[Verdict]) -> str:
    """What the verdicts rest on: one word, `mixed`, or "" where nothing was run."""
    kinds = {kind for verdict in verdicts for kind in verdict.evidence} - {Evidence.NONE}
    return "mixed" if len(kinds) > 1 else "".join(kinds)


def _isolation(verdicts: list[Verdict]) -> str:
    return ",".join(dict.fromkeys(layer for verdict in verdicts for layer in verdict.layers))
