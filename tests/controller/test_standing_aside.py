"""When the controller stands aside, and who acts then."""

from typing import Any

import numpy as np
import pytest

from harness_core.controller.abstention import ACCEPTS_ALL, Abstention, RiskPoint
from harness_core.controller.controller import Controller
from harness_core.controller.decision import Decision, Reason
from harness_core.controller.fallback import guidance_retry, most_conservative
from harness_core.controller.guidance import GuidanceChooser
from harness_core.controller.strangeness import KnownStates, places_of
from harness_core.errors import ModelError
from harness_core.features.pipeline import FeaturePipeline
from harness_core.learners.guidance import GainModel
from harness_core.trajectories.guidance_library import load_library
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import ActionKind
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

HALF, LIKELY = ScriptedCritic(slope=0.0), ScriptedCritic(slope=4.0)
"""The best of two has probability 0.5, or 0.98."""

LIBRARY = """
version: 1
templates:
  - {id: slow, text: Take your time.}
  - {id: twice, text: Read the task twice.}
"""


def curve(*points: tuple[float, int, int], n_tasks: int = 100) -> Abstention:
    """Thresholds, how many were accepted above each, and how many of these failed."""
    return Abstention(
        n_tasks=n_tasks,
        group_size=8,
        n_looks=1,
        points=tuple(
            RiskPoint(threshold=threshold, n_accepted=n, n_failed=k) for threshold, n, k in points
        ),
        mean_value=2.0,
        spread=(),
    )


CURVE = curve((0.9, 40, 0), (0.6, 70, 10), (ACCEPTS_ALL, 100, 30))


def ask(pipeline: FeaturePipeline, critic: ScriptedCritic = HALF, **settings: Any) -> Decision:
    settings = {"abstention": CURVE, **settings}
    return controller(pipeline, critic, **settings).select(STATE, [GOOD, LONG])


def with_risk(built: Controller, **settings: Any) -> Controller:
    config = built.config.model_copy(update={"abstention": "risk", **settings})
    return built.with_config(config)


@pytest.fixture
def calibrated(pipeline):
    def build(critic: ScriptedCritic, **settings: Any) -> Controller:
        return with_risk(controller(pipeline, critic, abstention=CURVE), **settings)

    return build


def test_without_abstention_a_risk_curve_changes_nothing(pipeline):
    assert ask(pipeline).reason is Reason.BEST_SCORE
    assert ask(pipeline).threshold is None


def test_a_pick_that_is_not_surely_good_enough_is_left_to_the_fallback(calibrated):
    doubtful = calibrated(HALF, max_risk=0.1).select(STATE, [GOOD, LONG])
    assert doubtful.reason is Reason.RISK_TOO_HIGH
    assert doubtful.threshold == 0.9
    assert (doubtful.fallback, doubtful.chosen_index) == ("first", 0)
    sure = calibrated(LIKELY, max_risk=0.1).select(STATE, [GOOD, LONG])
    assert sure.reason is Reason.BEST_SCORE
    assert sure.risk == pytest.approx(1 - 1 / (1 + np.exp(-4)), abs=1e-6)


def test_the_risk_is_changed_at_run_time_without_retraining(calibrated):
    built = calibrated(HALF, max_risk=0.1)
    lenient = with_risk(built, max_risk=0.5)
    assert lenient.select(STATE, [GOOD, LONG]).reason is Reason.BEST_SCORE
    assert built.select(STATE, [GOOD, LONG]).reason is Reason.RISK_TOO_HIGH
    assert lenient.manifest == built.manifest


def test_a_risk_out_of_reach_accepts_nobody_and_says_so(calibrated):
    built = calibrated(LIKELY, max_risk=0.01, fallback="abstain")
    decision = built.select(STATE, [GOOD, LONG])
    assert decision.chosen_index is None
    assert decision.reason is Reason.RISK_TOO_HIGH
    assert decision.threshold is None
    assert not built.abstention_table([0.01])[0].is_feasible


def test_on_average_less_is_asked_for(pipeline):
    built = controller(pipeline, ScriptedCritic(slope=1.0), abstention=CURVE)
    on_average = with_risk(built, abstention="expected_risk", max_risk=0.12)
    # Ten failures among a hundred tasks: (10 + 1) / (100 + 1) ≤ 0.12, so 0.6 is the threshold.
    assert on_average.select(STATE, [GOOD, LONG]).reason is Reason.BEST_SCORE
    assert with_risk(built, max_risk=0.12).select(STATE, [GOOD, LONG]).threshold == 0.9


@pytest.mark.parametrize(
    ("lengths", "share", "chosen"), [((0.5, 2.0), 0.5, 1), ((0.0, 0.9), 0.5, 0)]
)
def test_under_a_share_of_the_mean_value_the_fallback_decides(
    calibrated, pipeline, lengths, share, chosen
):
    critic = ScriptedCritic(slope=4.0, lengths=lengths)
    built = with_risk(
        controller(pipeline, critic, abstention=CURVE), abstention="mean_share", mean_share=share
    )
    decision = built.select(STATE, [GOOD, LONG])
    assert decision.chosen_index == chosen
    assert (decision.reason is Reason.LOW_CONFIDENCE) == (chosen == 0)


def test_a_model_without_a_risk_curve_refuses_to_abstain_by_it(pipeline):
    built = controller(pipeline, HALF)
    with pytest.raises(ModelError, match="trained before"):
        with_risk(built)
    with pytest.raises(ModelError, match="no risk curve"):
        built.abstention_table()


class _Foreign(KnownStates):
    def strangeness(self, state: np.ndarray, task_vector: np.ndarray) -> float:
        return 0.97


def strange(pipeline: FeaturePipeline) -> KnownStates:
    nothing = np.zeros(0, dtype=np.float32)
    return _Foreign(
        task=nothing.reshape(0, 1),
        counts=nothing.reshape(0, 1),
        fold=np.zeros(0, dtype=np.int64),
        weight=nothing,
        distance=nothing,
        places=places_of(pipeline.schema.state),
    )


@pytest.mark.parametrize(
    ("allowed", "reason"), [(0.95, Reason.OUT_OF_DISTRIBUTION), (1.0, Reason.BEST_SCORE)]
)
def test_a_strange_state_is_left_to_the_fallback_unless_any_is_allowed(pipeline, allowed, reason):
    decision = ask(pipeline, known_states=strange(pipeline), max_strangeness=allowed)
    assert decision.reason is reason
    assert decision.out_of_distribution == 0.97


def test_a_model_without_known_states_never_finds_one_strange(pipeline):
    decision = ask(pipeline, max_strangeness=0.0)
    assert decision.out_of_distribution is None
    assert decision.reason is Reason.BEST_SCORE


def test_review_and_abstain_choose_nobody_and_say_which(pipeline):
    for fallback in ("review", "abstain"):
        decision = ask(pipeline, min_success_probability=0.9, fallback=fallback)
        assert decision.chosen_index is None
        assert decision.fallback == fallback
        assert decision.risk == pytest.approx(0.5)


def test_the_conservative_fallback_prefers_what_nobody_must_agree_to(pipeline):
    built = controller(
        pipeline, HALF, min_success_probability=0.9, fallback="conservative", abstention=CURVE
    )
    calls = [call("refund", amount=9), call("find_user", id="a long one indeed")]
    assert built.select(TOOLS, calls).chosen_index == 1
    assert built.select(STATE, [BAD, LONG, GOOD]).chosen_index == 2


def test_the_most_conservative_action_does_nothing_outside_and_is_short():
    long, short, run = (
        Action(kind=ActionKind.MESSAGE, text="I would rather ask you first."),
        Action(kind=ActionKind.MESSAGE, text="Which one?"),
        Action(kind=ActionKind.CODE, text="rm"),
    )
    assert most_conservative([run, long, short], needs_review=[False] * 3) == 2
    assert most_conservative([run, long, short], needs_review=[False, False, True]) == 1
    assert most_conservative([short, short], needs_review=[False] * 2) == 0


@pytest.fixture
def chooser(tmp_path, pipeline) -> GuidanceChooser:
    library = tmp_path / "library.yaml"
    library.write_text(LIBRARY)
    weights = np.zeros((2, 2), dtype=np.float32)
    weights[:, 0] = 0.2, 0.1
    one = np.ones(1, dtype=np.float32)
    model = GainModel(
        templates=("slow", "twice"),
        columns=("agent_prior",),
        centre=0 * one,
        scale=one,
        weights=weights,
        resampled=np.repeat(weights[None], 5, axis=0),
    )
    return GuidanceChooser.of(load_library(library), model, pipeline.schema.state)


def guided(template: str) -> dict[str, Any]:
    return {
        "kind": "code",
        "text": f"SELECT '{template}'",
        "arguments": {"guidance": {"id": template, "propensity": 1.0}},
    }


def test_under_guidance_the_agent_is_asked_again_with_what_it_has_not_had(pipeline, chooser):
    built = controller(
        pipeline, HALF, guidance=chooser, min_success_probability=0.9, fallback="guidance"
    )
    first = built.select(STATE, [GOOD, LONG])
    assert first.chosen_index is None
    assert first.guidance is not None
    assert (first.guidance.template_id, first.guidance.text) == ("slow", "Take your time.")
    assert first.guidance.round == 1
    second = built.select({**STATE, "history": [guided("slow")]}, [GOOD, LONG])
    assert second.guidance is not None
    assert (second.guidance.template_id, second.guidance.round) == ("twice", 2)


def test_after_the_last_round_of_guidance_the_first_candidate_is_taken(pipeline, chooser):
    built = controller(
        pipeline,
        HALF,
        guidance=chooser,
        min_success_probability=0.9,
        fallback="guidance",
        max_guidance_rounds=1,
    )
    decision = built.select({**STATE, "history": [guided("slow")]}, [GOOD, LONG])
    assert (decision.fallback, decision.chosen_index, decision.guidance) == ("first", 0, None)


def test_a_model_that_knows_no_guidance_takes_the_first_candidate(pipeline):
    decision = ask(pipeline, min_success_probability=0.9, fallback="guidance")
    assert (decision.fallback, decision.chosen_index) == ("first", 0)


def test_when_every_template_was_tried_nothing_is_left(pipeline, chooser):
    state = np.zeros(len(pipeline.schema.state), dtype=np.float32)
    history = [guided("slow"), guided("twice")]
    assert guidance_retry(chooser, state, history, max_rounds=3) is None


def test_a_decision_survives_json_and_names_model_version_and_timings(pipeline):
    decision = controller(pipeline, HALF, version="7").select(STATE, [GOOD, LONG])
    assert decision.model_version == "7"
    assert set(decision.timings_s) == {"filter", "features", "score", "decide"}
    assert all(seconds >= 0 for seconds in decision.timings_s.values())
    assert Decision.model_validate_json(decision.model_dump_json()) == decision


def test_every_candidate_has_its_probability_and_a_filtered_one_has_none(pipeline):
    decision = controller(pipeline, LIKELY).select(STATE, [BAD, GOOD, LONG])
    assert decision.success_probabilities[0] is None
    assert decision.success_probabilities[2] == decision.success_probability
    assert decision.risk == pytest.approx(1 - (decision.success_probability or 0))
