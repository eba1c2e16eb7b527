"""Transitions of one trajectory: discounts, the outcome's own row, and where a run ends."""

from typing import Any

import pytest

from harness_core.rewards.table import COMPONENTS
from harness_core.trajectories.vocabulary import Split
from harness_core.transitions.builder import transition_rows
from harness_core.transitions.recorded import Recorded, Row
from harness_core.transitions.splits import Assignment

PLACES = {"t": Assignment(Split.TRAIN, 2)}
GAMMA = 0.9


def reward(index: int, **known: Any) -> Row:
    return {
        "step_index": index,
        "candidate_index": 0,
        "is_taken": True,
        **dict.fromkeys(COMPONENTS),
        "step_cost": 1.0,
        "danger": 0.0,
        "solved": None,
        "ends_here": False,
        "trusted": True,
        **known,
    }


def recorded(*kinds: str, terminated: bool = True, **last: Any) -> Recorded:
    """A run of actions of these kinds; `last` is what the last one earned."""
    n_steps = len(kinds)
    row = {"trajectory_id": "x", "source": "s", "task_id": "t", "family": "f"}
    return Recorded(
        {**row, "agent_name": "a", "model": "m", "n_steps": n_steps, "terminated": terminated},
        tuple({"action_kind": kind, "completion_tokens": 5, "candidates": []} for kind in kinds),
        tuple((reward(i, **(last if i == n_steps - 1 else {})),) for i in range(n_steps)),
    )


def built(item: Recorded) -> list[Row]:
    return list(transition_rows([item], PLACES, discount_factor=GAMMA))


def test_a_known_outcome_is_paid_by_a_virtual_submit() -> None:
    first, second, submit = built(recorded("code", "code", all_tests=1.0))
    assert [row["discount"] for row in (first, second, submit)] == [GAMMA, GAMMA, 0.0]
    assert [row["reward_all_tests"] for row in (first, second, submit)] == [None, None, 1.0]
    assert [row["reward_step_cost"] for row in (first, second, submit)] == [1.0, 1.0, None]
    assert [row["is_virtual"] for row in (first, second, submit)] == [False, False, True]
    assert (submit["step_index"], submit["action_kind"]) == (2, "submit")
    assert (submit["split"], submit["fold"], submit["task_id"]) == ("train", 2, "t")


def test_a_run_that_submits_itself_keeps_its_outcome_where_it_is() -> None:
    first, last = built(recorded("code", "submit", outcome=0.5))
    assert (last["reward_outcome"], last["discount"], last["is_virtual"]) == (0.5, 0.0, False)
    assert first["discount"] == GAMMA


@pytest.mark.parametrize("kind", ["code", "submit"])
def test_a_run_that_was_cut_off_without_an_outcome_goes_on(kind: str) -> None:
    rows = built(recorded("code", kind, terminated=False))
    assert [row["discount"] for row in rows] == [GAMMA, GAMMA]


def test_a_run_that_was_cut_off_and_graded_is_judged_as_it_stood() -> None:
    rows = built(recorded("code", terminated=False, all_tests=0.0))
    assert [row["discount"] for row in rows] == [GAMMA, 0.0]
    assert rows[-1]["is_virtual"]


def test_a_run_that_ended_without_an_outcome_ends_with_its_last_action() -> None:
    assert [row["discount"] for row in built(recorded("code", "message"))] == [GAMMA, 0.0]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_dangerous_action_ends_the_run_and_nothing_is_submitted(at: int) -> None:
    item = recorded("code", "code", "submit", all_tests=1.0)
    rewards = list(item.rewards)
    rewards[at] = ({**rewards[at][0], "danger": 1.0, "ends_here": True},)
    rows = built(Recorded(item.row, item.steps, tuple(rewards)))
    assert [row["step_index"] for row in rows] == list(range(at + 1))
    assert [row["discount"] for row in rows] == [GAMMA] * at + [0.0]
    assert [row["reward_danger"] for row in rows] == [0.0] * at + [1.0]
    assert all(row["reward_all_tests"] is None for row in rows)


@pytest.mark.parametrize("outcome", [0.0, 1.0])
@pytest.mark.parametrize("kinds", [("code",), ("code", "code"), ("code", "submit")])
def test_what_the_transitions_pay_is_what_the_trajectory_earned(
    kinds: tuple[str, ...], outcome: float
) -> None:
    rows = built(recorded(*kinds, outcome=outcome, progress=0.25, terminated=False))
    for name in COMPONENTS:
        paid = sum(row[f"reward_{name}"] or 0.0 for row in rows)
        earned = {"outcome": outcome, "progress": 0.25, "step_cost": len(kinds)}.get(name, 0.0)
        assert paid == earned
