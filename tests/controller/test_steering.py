"""Which intervention comes next."""

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.config import ControllerConfig
from harness_core.controller.controller import Controller
from harness_core.controller.decision import Reason
from harness_core.controller.manifest import ModelManifest, file_digests, write_manifest
from harness_core.controller.request import SteerRequest
from harness_core.controller.steering import choose, forced_check, probabilities
from harness_core.controller.stopping import SIGNALS, Acceptance, Steering
from harness_core.errors import ModelError, ParameterError
from harness_core.features.batch import Flags, Floats
from harness_core.features.pipeline import FeaturePipeline
from harness_core.learners.checkpoint import save_critic
from harness_core.learners.networks import CriticNetwork, NetworkSpec
from harness_core.trajectories.vocabulary import INTERVENTIONS, ActionKind
from tests.features.world import make_config, make_world

KINDS = list(ActionKind)
STATE = {
    "description": "Add two numbers.",
    "language": "python",
    "entry_point": "add",
    "visible_checks": ["assert add(1, 2) == 3"],
}
PROGRAM = {"kind": "code", "text": "def add(a, b):\n    return a + b\n"}


class ScriptedActor:
    """Likes the words in this order; thinks the same of every attempt."""

    def __init__(self, *favourites: ActionKind, logit: float = 0.0) -> None:
        self.favourites = favourites
        self.logit = logit

    def terminal(self, x: Floats) -> Floats:
        return np.full(len(x), self.logit, dtype=np.float32)

    def q(self, state: Floats, action: Floats) -> Floats:
        return np.zeros((len(state), 1), dtype=np.float32)

    def running(self, state: Floats) -> Floats:
        total: Floats = self.value(state).sum(axis=1)
        return total

    def value(self, state: Floats) -> Floats:
        return np.zeros((len(state), 1), dtype=np.float32)

    def policy(self, state: Floats, legal: Flags) -> Floats:
        liking = np.full(len(KINDS), -5.0)
        for rank, kind in enumerate(self.favourites):
            liking[KINDS.index(kind)] = -float(rank)
        allowed = np.where(legal, liking, -np.inf)
        norm = np.log(np.exp(allowed).sum(axis=1, keepdims=True))
        return (allowed - norm).astype(np.float32)


def acceptance(accept_at: float) -> Acceptance:
    """The probability is σ(critic's logit)."""
    weights = {**dict.fromkeys(SIGNALS, 0.0), "critic": 1.0}
    return Acceptance(weights=weights, intercept=0.0, accept_at=accept_at)


@pytest.fixture(scope="module")
def pipeline() -> FeaturePipeline:
    return FeaturePipeline.fit(make_world().tables(), make_config())


def controller(
    pipeline: FeaturePipeline,
    actor: ScriptedActor,
    *,
    accept_at: float | None = 0.5,
    has_steering: bool = True,
    exploration: float = 0.0,
) -> Controller:
    fitted = None if accept_at is None else acceptance(accept_at)
    manifest = ModelManifest(
        learner="iql",
        components=("all_tests",),
        weights={"all_tests": 1.0},
        feature_fingerprint=pipeline.schema.fingerprint,
        encoders=pipeline.schema.encoders,
        combination=CRITIC_ALONE,
        controller=ControllerConfig(
            min_success_probability=0.0, fallback="first", exploration=exploration
        ),
        k_max=8,
        development_tasks=(),
        steering=Steering(actor="awr", acceptance=fitted) if has_steering else None,
        files={},
    )
    return Controller(manifest=manifest, critic=actor, pipeline=pipeline, actor=actor)


def after_a_program(**more: Any) -> dict[str, Any]:
    return {**STATE, "history": [PROGRAM], **more}


def test_before_the_first_attempt_only_a_draft_is_legal(pipeline) -> None:
    decision = controller(pipeline, ScriptedActor(ActionKind.SUBMIT)).steer(STATE)
    assert decision.intervention is ActionKind.DRAFT
    assert decision.legal == (ActionKind.DRAFT,)
    assert decision.reason is Reason.ONLY_CANDIDATE
    assert decision.success_probability is None


def test_an_attempt_that_is_likely_to_succeed_is_handed_in(pipeline) -> None:
    decision = controller(pipeline, ScriptedActor(ActionKind.REVISE, logit=2.0)).steer(
        after_a_program()
    )
    assert decision.intervention is ActionKind.SUBMIT
    assert decision.reason is Reason.GOOD_ENOUGH
    assert decision.success_probability == pytest.approx(1 / (1 + np.exp(-2.0)), abs=1e-6)


def test_below_the_threshold_the_actor_says_how_to_go_on(pipeline) -> None:
    actor = ScriptedActor(ActionKind.SUBMIT, ActionKind.RETRY, logit=-2.0)
    decision = controller(pipeline, actor).steer(after_a_program())
    assert decision.intervention is ActionKind.RETRY
    assert decision.reason is Reason.NOT_GOOD_ENOUGH
    assert decision.chosen_index == decision.legal.index(ActionKind.RETRY)


def test_when_no_attempt_is_left_and_nothing_else_is_offered_it_is_handed_in(pipeline) -> None:
    steered = controller(pipeline, ScriptedActor(ActionKind.RETRY, logit=-2.0))
    decision = steered.steer(after_a_program(attempts_left=0), legal=["retry", "submit"])
    assert decision.intervention is ActionKind.SUBMIT
    assert decision.reason is Reason.ONLY_CANDIDATE


def test_without_a_threshold_the_actor_decides_alone(pipeline) -> None:
    actor = ScriptedActor(ActionKind.SUBMIT, logit=-2.0)
    decision = controller(pipeline, actor, accept_at=None).steer(after_a_program())
    assert decision.intervention is ActionKind.SUBMIT
    assert decision.reason is Reason.POLICY


def test_scores_are_probabilities_of_the_legal_interventions(pipeline) -> None:
    decision = controller(pipeline, ScriptedActor(ActionKind.TEST)).steer(after_a_program())
    assert len(decision.scores) == len(decision.legal)
    assert sum(score or 0.0 for score in decision.scores) == pytest.approx(1.0, abs=1e-5)


def test_forced_check_tests_once_before_handing_in(pipeline) -> None:
    steered = controller(pipeline, ScriptedActor(logit=2.0))
    first = steered.steer(after_a_program(), policy="forced_check")
    assert first.intervention is ActionKind.TEST
    assert first.reason is Reason.FORCED_CHECK
    tested = {**STATE, "history": [PROGRAM, {"kind": "test"}]}
    assert steered.steer(tested, policy="forced_check").intervention is ActionKind.SUBMIT


def test_what_was_seen_of_earlier_attempts_counts_and_their_order_is_the_callers(pipeline) -> None:
    steered = controller(pipeline, ScriptedActor(logit=2.0))
    decision = steered.steer({**STATE, "attempts": [{"history": [PROGRAM, PROGRAM]}]})
    # The present attempt has not begun, but there is one that can be handed in.
    assert decision.success_probability is not None
    assert decision.legal == (ActionKind.DRAFT,)


def test_nothing_is_chosen_when_nothing_offered_makes_sense(pipeline) -> None:
    decision = controller(pipeline, ScriptedActor()).steer(STATE, legal=["submit", "revise"])
    assert decision.intervention is None
    assert decision.chosen_index is None
    assert decision.reason is Reason.NOTHING_LEGAL


def test_an_unknown_word_is_refused_with_those_there_are(pipeline) -> None:
    with pytest.raises(ParameterError, match="'code' is none of draft"):
        controller(pipeline, ScriptedActor()).steer(STATE, legal=["code"])


def test_a_model_without_interventions_says_so(pipeline) -> None:
    with pytest.raises(ModelError, match="train it again"):
        controller(pipeline, ScriptedActor(), has_steering=False).steer(STATE)


def test_a_model_folder_alone_is_enough_to_steer_by(pipeline, tmp_path) -> None:
    schema = pipeline.schema
    pipeline.save(tmp_path / "pipeline")
    spec = NetworkSpec(
        n_state=len(schema.state),
        n_action=len(schema.action),
        n_relative=len(schema.set_relative),
        hidden_sizes=(4,),
        n_members=1,
        components=("all_tests",),
        weights=(1.0,),
    )
    save_critic(tmp_path, CriticNetwork(spec))
    scripted = controller(pipeline, ScriptedActor(), accept_at=0.4)
    manifest = scripted.manifest.model_copy(update={"files": file_digests(tmp_path)})
    write_manifest(tmp_path, manifest)
    decision = Controller.load(tmp_path).steer(after_a_program())
    # An untrained critic gives every attempt an even chance, which is enough here.
    assert decision.intervention is ActionKind.SUBMIT
    assert decision.success_probability == pytest.approx(0.5)
    assert decision.model_digest == manifest.digest


def test_exploration_logs_the_chance_of_what_it_chose(pipeline) -> None:
    actor = ScriptedActor(ActionKind.RETRY, logit=-2.0)
    steered = controller(pipeline, actor, exploration=0.3)
    rng = np.random.default_rng(0)
    decisions = [steered.steer(after_a_program(), rng=rng) for _ in range(40)]
    # test, revise and retry are the ways to go on.
    for decision in decisions:
        expected = 0.8 if decision.intervention is ActionKind.RETRY else 0.1
        assert decision.propensity == pytest.approx(expected)
    assert {decision.reason for decision in decisions} == {
        Reason.NOT_GOOD_ENOUGH,
        Reason.EXPLORATION,
    }


@given(
    st.lists(st.floats(-50, 50), min_size=len(KINDS), max_size=len(KINDS)),
    st.sets(st.sampled_from(sorted(INTERVENTIONS)), min_size=1),
    st.floats(0, 1),
    st.floats(0, 0.99),
    st.integers(0, 100),
)
def test_no_illegal_intervention_is_ever_chosen_whatever_the_weights(
    liking: list[float], words: set[ActionKind], success: float, exploration: float, seed: int
) -> None:
    class Weighted(ScriptedActor):
        def policy(self, state: Floats, legal: Flags) -> Floats:
            allowed = np.where(legal, np.array(liking), -np.inf)
            peak = allowed.max(axis=1, keepdims=True)
            norm = peak + np.log(np.exp(allowed - peak).sum(axis=1, keepdims=True))
            return (allowed - norm).astype(np.float32)

    legal = tuple(kind for kind in KINDS if kind in words)
    choice = choose(
        probabilities(Weighted(), np.zeros(1, dtype=np.float32), legal),
        acceptance=acceptance(0.5),
        success_probability=success,
        exploration=exploration,
        rng=np.random.default_rng(seed),
    )
    assert choice.intervention in legal
    assert 0.0 < choice.propensity <= 1.0
    assert forced_check(choice.intervention, is_tested=False, legal=legal) in legal


def test_several_runs_together_are_told_what_each_is_told_alone(pipeline) -> None:
    asked = controller(pipeline, ScriptedActor(ActionKind.SUBMIT, logit=1.0))
    other = {"description": "Say hello.", "language": "text", "tools": ["search"]}
    requests = [
        SteerRequest(STATE),
        SteerRequest(after_a_program(attempts=[{"history": [PROGRAM, PROGRAM]}])),
        SteerRequest(other, ["draft", "escalate"]),
        SteerRequest(after_a_program(attempts_left=0)),
        SteerRequest({**STATE, "attempts": [{"history": [PROGRAM]}]}),
    ]
    together = asked.steer_many(requests)
    for request, decision in zip(requests, together, strict=True):
        alone = asked.steer(request.state, request.legal)
        assert decision.intervention is alone.intervention
        assert decision.legal == alone.legal
        assert decision.scores == pytest.approx(alone.scores)
        assert decision.success_probability == alone.success_probability
        assert decision.ran_programs is False
    assert asked.steer_many([]) == []


def test_where_one_run_makes_no_sense_none_is_decided(pipeline) -> None:
    asked = controller(pipeline, ScriptedActor(ActionKind.SUBMIT))
    with pytest.raises(ParameterError, match="history"):
        asked.steer_many([SteerRequest(STATE), SteerRequest({**STATE, "history": [{"text": "?"}]})])


def test_an_event_loop_can_ask(pipeline) -> None:
    asked = controller(pipeline, ScriptedActor(ActionKind.SUBMIT))
    decision = asyncio.run(asked.asteer(STATE, ["draft"]))
    assert decision.intervention is ActionKind.DRAFT
