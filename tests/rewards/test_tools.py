"""What an action earns by the log alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.rewards.tools import (
    action_key,
    logged_outcome,
    logged_success,
    progress_of,
    repeated_action,
    token_cost,
)
from harness_core.trajectories.schema import Action, Outcome, Usage
from harness_core.trajectories.vocabulary import INTERVENTIONS, ActionKind


@given(st.lists(st.one_of(st.none(), st.floats(-2, 2)), min_size=1))
def test_progress_telescopes_to_the_value_a_run_ends_with(graded: list[float | None]) -> None:
    progress = progress_of(graded)
    known = [value for value in graded if value is not None]
    if not known:
        assert progress is None
        return
    assert progress is not None
    assert len(progress) == len(graded)
    assert sum(progress) == pytest.approx(min(1.0, max(0.0, known[-1])))
    assert all(-1 <= value <= 1 for value in progress)


def test_progress_is_the_difference_of_graded_turns() -> None:
    assert progress_of([0.25, None, 0.75, 0.5, 7.0]) == [0.25, 0.0, 0.5, -0.25, 0.5]


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(0, 1))
def test_going_back_and_forth_pays_nothing(graded: list[float], detour: float) -> None:
    straight, around = progress_of(graded), progress_of([*graded, detour, graded[-1]])
    assert straight is not None
    assert around is not None
    assert sum(around) == pytest.approx(sum(straight))


def call(text: str, kind: ActionKind = ActionKind.TOOL_CALL, **arguments: object) -> Action:
    return Action(kind=kind, text=text, arguments=dict(arguments))


def test_the_same_action_counts_as_repeated_up_to_blanks() -> None:
    earlier = {action_key(call("look  at\nit"))}
    assert repeated_action(call("look at it "), earlier) == 1
    assert repeated_action(call("look at that"), earlier) == 0
    assert repeated_action(call("look at it", ActionKind.MESSAGE), earlier) == 0
    assert repeated_action(call("look at it", id=3), earlier) == 0


def test_indentation_tells_two_programs_apart() -> None:
    one, two = "if x:\n    a()\nb()", "if x:\n    a()\n    b()"
    assert action_key(call(one, ActionKind.CODE)) != action_key(call(two, ActionKind.CODE))
    assert action_key(call(one, ActionKind.CODE)) == action_key(
        call("if x:  \n\n    a()\nb()\n", ActionKind.CODE)
    )


@pytest.mark.parametrize("kind", sorted(INTERVENTIONS))
def test_an_intervention_repeats_nothing(kind: ActionKind) -> None:
    assert repeated_action(Action(kind=kind), {action_key(Action(kind=kind))}) is None


def test_tokens_are_counted_in_thousands_where_the_log_counts_them() -> None:
    assert token_cost(Usage(prompt_tokens=1500, completion_tokens=500)) == 2.0
    assert token_cost(Usage(completion_tokens=500)) == 0.5
    assert token_cost(Usage()) is None


@pytest.mark.parametrize(
    ("outcome", "value", "success"),
    [
        (Outcome(), None, None),
        (Outcome(success=True), 1.0, True),
        (Outcome(success=False), 0.0, False),
        (Outcome(score=0.4), 0.4, False),
        (Outcome(score=1.7), 1.0, True),
        (Outcome(score=-1.0), 0.0, False),
        (Outcome(success=True, score=0.9), 0.9, True),
    ],
)
def test_an_outcome_is_its_score_within_bounds_else_its_success(
    outcome: Outcome, value: float | None, *, success: bool | None
) -> None:
    assert logged_outcome(outcome) == value
    assert logged_success(outcome) is success
