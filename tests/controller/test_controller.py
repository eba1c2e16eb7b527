import numpy as np
import pytest

from harness_core.controller.controller import Controller
from harness_core.controller.decision import Reason
from harness_core.errors import FingerprintMismatch, ParameterError
from tests.controller.scripted import (
    BAD,
    GOOD,
    LONG,
    STATE,
    TOOLS,
    ScriptedCritic,
    call,
    controller,
)


def test_the_highest_score_is_chosen(pipeline):
    decision = controller(pipeline, ScriptedCritic()).select(STATE, [GOOD, LONG, GOOD])
    assert decision.chosen_index == 2
    assert decision.reason is Reason.BEST_SCORE
    assert decision.propensity == 1.0
    assert [score is not None for score in decision.scores] == [True] * 3


def test_a_dangerous_candidate_is_never_chosen_whatever_its_score(pipeline):
    decision = controller(pipeline, ScriptedCritic()).select(STATE, [GOOD, LONG, BAD])
    assert decision.chosen_index == 1
    assert decision.scores[2] is None
    assert [item.index for item in decision.filtered] == [2]


def test_when_all_are_dangerous_nobody_is_chosen(pipeline):
    decision = controller(pipeline, ScriptedCritic()).select(STATE, [BAD, BAD])
    assert decision.chosen_index is None
    assert decision.reason is Reason.ALL_FILTERED


@pytest.mark.parametrize(("fallback", "chosen"), [("first", 1), ("abstain", None)])
def test_below_the_threshold_the_fallback_decides(pipeline, fallback, chosen):
    critic = ScriptedCritic(slope=0.01)
    asked = controller(pipeline, critic, min_success_probability=0.9, fallback=fallback)
    decision = asked.select(STATE, [BAD, GOOD, LONG])
    assert decision.chosen_index == chosen
    assert decision.reason is Reason.LOW_CONFIDENCE
    assert decision.fallback == fallback


def test_a_goal_changes_the_choice_without_retraining(pipeline):
    asked = controller(pipeline, ScriptedCritic(slope=0.1, lengths=(-0.01, -0.05)))
    assert asked.select(STATE, [GOOD, LONG]).chosen_index == 1
    brief = asked.select(STATE, [GOOD, LONG], goal={"excess_lines": -10.0})
    assert brief.chosen_index == 0


def test_a_goal_with_an_unknown_component_is_refused(pipeline):
    with pytest.raises(ParameterError, match="unknown component beauty"):
        controller(pipeline, ScriptedCritic()).select(STATE, [GOOD], goal={"beauty": 1.0})


@pytest.mark.parametrize(
    ("state", "candidates", "message"),
    [
        (STATE, [], "at least one"),
        (STATE, [{"code": "x"}], "`text`"),
        ({**STATE, "language": "cobol"}, [GOOD], "state.language"),
        (STATE, [{**GOOD, "kind": "dance"}], "'dance'"),
    ],
)
def test_a_malformed_request_is_refused_with_its_reason(pipeline, state, candidates, message):
    with pytest.raises(ParameterError, match=message):
        controller(pipeline, ScriptedCritic()).select(state, candidates)


def test_exploration_keeps_its_propensity(pipeline):
    asked = controller(pipeline, ScriptedCritic(), exploration=0.4)
    rng = np.random.default_rng(0)
    decisions = [asked.select(STATE, [GOOD, LONG], rng=rng) for _ in range(60)]
    expected = {0: 0.2, 1: 0.8}
    assert all(d.propensity == pytest.approx(expected[d.chosen_index or 0]) for d in decisions)
    assert {d.chosen_index for d in decisions} == {0, 1}


def test_a_decision_among_more_candidates_than_k_max_says_so_and_leaves_nobody_out(pipeline):
    asked = controller(pipeline, ScriptedCritic())
    assert not asked.select(STATE, [GOOD] * 8).beyond_k_max
    decision = asked.select(STATE, [GOOD] * 9)
    assert decision.beyond_k_max
    assert decision.chosen_index == 8
    # What the hard filter takes out was never chosen from.
    assert not asked.select(STATE, [BAD, *[GOOD] * 8]).beyond_k_max


def test_another_pipeline_than_that_of_training_is_refused(pipeline):
    asked = controller(pipeline, ScriptedCritic())
    manifest = asked.manifest.model_copy(update={"feature_fingerprint": "0" * 64})
    with pytest.raises(FingerprintMismatch, match="0000"):
        Controller(manifest=manifest, critic=ScriptedCritic(), pipeline=pipeline)


def test_a_call_that_the_policy_denies_is_never_chosen(pipeline):
    decision = controller(pipeline, ScriptedCritic()).select(
        TOOLS, [call("find_user", id=1), call("delete_user", id=1)]
    )
    assert decision.chosen_index == 0
    assert [(item.index, item.rules) for item in decision.filtered] == [(1, ("policy:no-deletes",))]
    assert not decision.review


def test_a_choice_that_needs_review_says_so_and_stays_the_choice(pipeline):
    asked = controller(pipeline, ScriptedCritic())
    decision = asked.select(TOOLS, [call("find_user", id=1), call("refund", amount=9)])
    assert decision.chosen_index == 1
    assert decision.review
    assert [(item.index, item.rules) for item in decision.needs_review] == [(1, ("policy:money",))]
    assert decision.scores[1] is not None
    other = asked.select(TOOLS, [call("refund", amount=9), call("find_user", id=1)])
    assert other.chosen_index == 1
    assert other.needs_review
    assert not other.review
