"""Decision groups: attempts at a task, candidates of a state."""

from typing import Any

import pytest

from harness_core.trajectories.vocabulary import Split
from harness_core.transitions.groups import candidate_rows
from harness_core.transitions.recorded import Recorded, Row
from harness_core.transitions.splits import Assignment

PLACES = {task: Assignment(Split.TEST, -1) for task in ("t", "u")}


def reward(candidate: int, *, taken: bool = True, **known: Any) -> Row:
    return {
        "step_index": 0,
        "candidate_index": candidate,
        "is_taken": taken,
        "outcome": None,
        "danger": float(known.get("ends_here", False)),
        "solved": None,
        "ends_here": False,
        "trusted": True,
        **known,
    }


def attempt(
    name: str, *rewards: tuple[Row, ...], task: str = "t", propensities: tuple[float, ...] = ()
) -> Recorded:
    steps = [
        {
            "action_kind": "code",
            "completion_tokens": 5 if index else None,
            "candidates": [{"propensity": value} for value in propensities],
        }
        for index in range(len(rewards))
    ]
    row = {"trajectory_id": name, "source": "s", "task_id": task, "family": "f"}
    return Recorded(
        {**row, "agent_name": "a", "model": "m", "n_steps": len(rewards), "terminated": True},
        tuple(steps),
        tuple(
            tuple({**row, "step_index": index} for row in group)
            for index, group in enumerate(rewards)
        ),
    )


def grouped(*items: Recorded, max_group_size: int = 100) -> list[Row]:
    return candidate_rows(items, PLACES, max_group_size=max_group_size)


def test_attempts_at_one_task_of_one_source_make_a_group() -> None:
    rows = grouped(
        attempt("b", (reward(0),), (reward(0, solved=True),)),
        attempt("a", (reward(0, outcome=0.25),)),
        attempt("c", (reward(0),), task="u"),
    )
    assert [(row["group_id"], row["candidate_index"], row["trajectory_id"]) for row in rows] == [
        ("attempt:s:t", 0, "a"),
        ("attempt:s:t", 1, "b"),
        ("attempt:s:u", 0, "c"),
    ]
    assert [row["success"] for row in rows] == [0.25, 1.0, None]
    assert [row["step_index"] for row in rows] == [0, 1, 0]
    assert [row["n_tokens"] for row in rows] == [0, 5, 0]
    assert [(row["split"], row["fold"]) for row in rows] == [("test", -1)] * 3


def test_what_was_graded_overrides_what_was_logged() -> None:
    (row,) = grouped(attempt("a", (reward(0, solved=False, outcome=1.0),)))
    assert row["success"] == 0.0


def test_an_attempt_is_dangerous_when_any_action_taken_was() -> None:
    harmless = attempt("a", (reward(0),), (reward(0),))
    dangerous = attempt("b", (reward(0, ends_here=True),), (reward(0),))
    assert [row["dangerous"] for row in grouped(harmless, dangerous)] == [False, True]


def test_a_group_keeps_the_lowest_ids() -> None:
    items = [attempt(f"{number:02}", (reward(0),)) for number in (3, 1, 2, 0)]
    rows = grouped(*items, max_group_size=2)
    assert [row["trajectory_id"] for row in rows] == ["00", "01"]


CANDIDATES = (
    reward(0, taken=False, solved=True),
    reward(1, taken=False, solved=False, danger=1.0),
    reward(2, solved=False),
)


def test_logged_candidates_of_a_state_make_a_group() -> None:
    item = attempt("a", CANDIDATES, propensities=(0.5, 0.25, 0.25))
    rows = [row for row in grouped(item) if row["kind"] == "step"]
    assert [row["group_id"] for row in rows] == ["a:0"] * 3
    assert [row["success"] for row in rows] == [1.0, 0.0, 0.0]
    assert [row["dangerous"] for row in rows] == [False, True, False]
    assert [row["is_taken"] for row in rows] == [False, False, True]
    assert [row["propensity"] for row in rows] == [0.5, 0.25, 0.25]
    assert {row["n_steps"] for row in rows} == {1}


def test_a_capped_group_never_loses_the_action_taken() -> None:
    item = attempt("a", CANDIDATES, propensities=(0.5, 0.25, 0.25))
    rows = [row for row in grouped(item, max_group_size=2) if row["kind"] == "step"]
    assert [row["step_candidate"] for row in rows] == [0, 2]
    assert [row["candidate_index"] for row in rows] == [0, 1]


@pytest.mark.parametrize("ends_here", [True, False])
def test_states_behind_a_dangerous_action_are_not_decided_on(*, ends_here: bool) -> None:
    item = attempt(
        "a", (reward(0, ends_here=ends_here),), CANDIDATES, propensities=(0.5, 0.25, 0.25)
    )
    rows = [row for row in grouped(item) if row["kind"] == "step"]
    assert bool(rows) is not ends_here
