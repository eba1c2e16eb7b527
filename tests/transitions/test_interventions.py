"""What a logged step amounts to, and what is legal where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.trajectories.vocabulary import INTERVENTIONS, ActionKind, Language
from harness_core.transitions.interventions import Harness, Situation, StepFacts

CODE, CALL, SAY = ActionKind.CODE, ActionKind.TOOL_CALL, ActionKind.MESSAGE


def start(language: Language, *tools: str, has_checks: bool = False, **rest) -> Situation:
    return Situation(
        harness=Harness(language=language, has_checks=has_checks, tools=frozenset(tools), **rest)
    )


def words(situation: Situation, *steps: StepFacts) -> list[str]:
    found = []
    for step in steps:
        found.append(situation.intervention_of(step).value)
        situation = situation.after(step)
    return found


def test_the_first_program_is_a_draft_and_another_one_a_revision() -> None:
    steps = [StepFacts(CODE, "x = 1"), StepFacts(CODE, "x = 2"), StepFacts(CODE, "x  =  1")]
    assert words(start(Language.PYTHON), *steps) == ["draft", "revise", "retry"]


def test_looking_round_in_a_database_is_no_draft() -> None:
    steps = [StepFacts(CODE, "SHOW TABLES"), StepFacts(CODE, "desc t"), StepFacts(CODE, "SELECT 1")]
    assert words(start(Language.SQL), *steps) == ["retrieve", "retrieve", "draft"]


def test_the_same_words_are_an_answer_where_there_is_no_shell() -> None:
    assert words(start(Language.TEXT), StepFacts(CODE, "ls")) == ["draft"]
    assert words(start(Language.SHELL), StepFacts(CODE, "ls -l")) == ["retrieve"]


def test_tools_are_told_apart_by_what_they_do() -> None:
    steps = [
        StepFacts(CALL, tool="get_user_details", arguments="{1}"),
        StepFacts(CALL, tool="calculate", arguments="{2}"),
        StepFacts(CALL, tool="book_reservation", arguments="{3}"),
        StepFacts(CALL, tool="cancel_reservation", arguments="{4}", is_error=True),
        StepFacts(CALL, tool="cancel_reservation", arguments="{5}"),
        StepFacts(CALL, tool="transfer_to_human_agents"),
    ]
    found = words(start(Language.TOOLS), *steps)
    assert found == ["retrieve", "test", "draft", "revise", "retry", "escalate"]


def test_a_service_agent_that_asks_its_user_retrieves() -> None:
    steps = [StepFacts(SAY, "What is your id?"), StepFacts(SAY, "It is done.")]
    assert words(start(Language.TOOLS), *steps) == ["retrieve", "draft"]
    assert words(start(Language.TEXT), steps[0]) == ["draft"]


def test_an_intervention_in_the_log_stands_for_itself() -> None:
    assert words(start(Language.SQL), StepFacts(ActionKind.SUBMIT)) == ["submit"]


def test_there_is_nothing_to_hand_in_or_revise_before_a_first_attempt() -> None:
    legal = start(Language.PYTHON, has_checks=True).legal()
    assert legal == (ActionKind.DRAFT,)


def test_a_program_can_be_tested_only_where_there_are_checks_or_a_tool_that_runs_it() -> None:
    step = StepFacts(CODE, "x = 1")
    assert ActionKind.TEST not in start(Language.PYTHON).after(step).legal()
    assert ActionKind.TEST in start(Language.PYTHON, has_checks=True).after(step).legal()
    assert ActionKind.TEST in start(Language.PYTHON, "python").legal()


def test_looking_up_needs_something_to_look_up_in() -> None:
    assert ActionKind.RETRIEVE not in start(Language.PYTHON).legal()
    assert ActionKind.RETRIEVE in start(Language.TOOLS, "get_order").legal()
    assert ActionKind.RETRIEVE in start(Language.SQL).legal()


def test_no_attempt_is_asked_for_when_none_is_left() -> None:
    step = StepFacts(CODE, "x = 1")
    for attempts_left, is_legal in ((None, True), (2, True), (0, False)):
        situation = start(Language.PYTHON, attempts_left=attempts_left).after(step)
        assert (ActionKind.RETRY in situation.legal()) is is_legal


def test_it_is_escalated_only_where_the_harness_allows_it() -> None:
    assert ActionKind.ESCALATE not in start(Language.TOOLS, "get_order").legal()
    assert ActionKind.ESCALATE in start(Language.TOOLS, may_escalate=True).legal()


def test_a_revision_has_to_be_tested_anew() -> None:
    situation = start(Language.PYTHON, "python", has_checks=True).after(StepFacts(CODE, "x"))
    assert not situation.is_tested
    tested = situation.after(StepFacts(CALL, tool="python"))
    assert tested.is_tested
    assert not tested.after(StepFacts(CODE, "y")).is_tested


steps = st.builds(
    StepFacts,
    kind=st.sampled_from([CODE, CALL, SAY]),
    text=st.sampled_from(["", "ls", "SHOW x", "why?", "x = 1", "x = 2"]),
    tool=st.sampled_from(["python", "get_x", "book_x", "transfer"]),
    is_error=st.sampled_from([None, True, False]),
)


@given(
    log=st.lists(steps, max_size=8),
    language=st.sampled_from(list(Language)),
    has_checks=st.booleans(),
    may_escalate=st.booleans(),
)
def test_every_logged_action_of_an_agent_is_legal_where_it_was_taken(
    *, log: list[StepFacts], language: Language, has_checks: bool, may_escalate: bool
) -> None:
    tools = ["python", "get_x", "book_x"]
    log = [step if step.kind is CALL else step._replace(tool="") for step in log]
    if not may_escalate:
        log = [step for step in log if step.tool != "transfer"]
    situation = start(language, *tools, has_checks=has_checks, may_escalate=may_escalate)
    for step in log:
        legal = situation.legal()
        assert set(legal) <= INTERVENTIONS
        assert situation.intervention_of(step) in legal
        situation = situation.after(step)


@pytest.mark.parametrize("kind", sorted(INTERVENTIONS))
def test_no_word_is_legal_everywhere(kind: ActionKind) -> None:
    nowhere = start(Language.TEXT, attempts_left=0)
    drafted = nowhere.after(StepFacts(SAY, "x"))
    assert not (kind in nowhere.legal() and kind in drafted.legal())
