"""Runs as rows of a native log: the article's JSON and our additions to it.

Nothing in a row tells how a program does on the hidden checks; the row only carries the checks and
the reference of its task, for the grader.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import orjson

from harness_core.simulation.runs import DIGITS, Run, Turn
from harness_core.trajectories.guidance import with_guidance

FORMAT: Final = "native"
NOTHING: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


def log_bytes(runs: Iterable[Run], generated: Mapping[str, tuple[str, ...]] = NOTHING) -> bytes:
    """The runs as JSON Lines, in the order given; `generated` holds checks by problem id."""
    rows = (log_row(run, generated.get(run.problem.id, ())) for run in runs)
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def log_row(run: Run, generated_checks: tuple[str, ...] = ()) -> dict[str, Any]:
    """One run."""
    problem, last = run.problem, run.turns[-1].feedback
    return {
        "problem_id": problem.id,
        "problem_description": problem.prompt,
        "initial_state": problem.skeleton,
        "family": problem.family,
        "language": "python",
        "entry_point": problem.entry_point,
        "visible_checks": problem.visible_checks,
        "generated_checks": generated_checks,
        "hidden_checks": problem.hidden_checks,
        "reference": problem.reference,
        "agent": {
            "name": run.agent.name,
            "version": run.agent.version,
            "model": run.agent.model,
        },
        "run": run.number,
        "action_sequence": [_action(turn) for turn in run.turns],
        # The log's own claim. It knows the visible checks only, so it is often wrong.
        "reward": round(last.n_passed / last.n_total, DIGITS),
        "terminal": run.has_passed,
        "truncated": not run.has_passed,
    }


def _action(turn: Turn) -> dict[str, Any]:
    propensity = round(1 / len(turn.proposals), DIGITS)
    # Without guidance there is no key: logs of agents that know none stay as they were.
    arguments = with_guidance({}, turn.guided)
    told = {"arguments": arguments} if arguments else {}
    return {
        "kind": "code",
        "observation": turn.observation,
        "thought": turn.chosen.thought,
        "code_generated": turn.chosen.code,
        **told,
        "test_executed": {
            "passed": turn.feedback.n_passed,
            "total": turn.feedback.n_total,
            "output": turn.feedback.output,
        },
        "result": turn.feedback.output,
        "candidates": [
            {"code_generated": proposal.code, **told, "propensity": propensity}
            for proposal in turn.proposals
        ],
        "chosen_index": turn.chosen_index,
        "propensity": propensity,
        "usage": {"completion_tokens": sum(item.n_tokens for item in turn.proposals)},
    }
