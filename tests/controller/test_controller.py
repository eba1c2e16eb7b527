from typing import Any

import numpy as np
import pytest

from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.config import ControllerConfig
from harness_core.controller.controller import Controller
from harness_core.controller.decision import Reason
from harness_core.controller.manifest import ModelManifest
from harness_core.errors import FingerprintMismatch, ParameterError
from harness_core.features.batch import Floats
from harness_core.features.pipeline import FeaturePipeline
from harness_core.rewards.tool_policy import PolicyRule, ToolPolicy
from tests.features.world import make_config, make_world

COMPONENTS = ("all_tests", "outcome", "excess_lines")
WEIGHTS = {"all_tests": 10.0, "outcome": 10.0, "excess_lines": -0.01}
STATE = {"description": "Add two numbers.", "language": "python", "entry_point": "add"}
GOOD = {"text": "def add(a, b):\n    return a + b\n"}
LONG = {"text": "def add(a, b):\n    c = a\n    c = c + b\n    d = c\n    return d\n"}
BAD = {"text": "import os\n\n\ndef add(a, b):\n    os.system('id')\n    return a + b\n"}


class ScriptedCritic:
    """Prefers later candidates by a step of `slope`; a long program is worth less in length."""

    def __init__(self, *, slope: float = 1.0, lengths: tuple[float, ...] = ()) -> None:
        self.slope = slope
        self.lengths = lengths

    def terminal(self, x: Floats) -> Floats:
        return (self.slope * np.arange(len(x))).astype(np.float32)

    def q(self, state: Floats, action: Floats) -> Floats:
        values = np.zeros((len(state), len(COMPONENTS)), dtype=np.float32)
        if self.lengths:
            values[:, 2] = self.lengths
        return values

    def running(self, state: Floats) -> Floats:
        total: Floats = self.value(state).sum(axis=1)
        return total

    def value(self, state: Floats) -> Floats:
        return np.zeros((len(state), len(COMPONENTS)), dtype=np.float32)


@pytest.fixture(scope="module")
def pipeline() -> FeaturePipeline:
    return FeaturePipeline.fit(make_world().tables(), make_config())


POLICY = ToolPolicy(
    version=1,
    default="allow",
    rules=(
        PolicyRule(id="no-deletes", tool=("delete_*",), effect="deny"),
        PolicyRule(id="money", tool=("*refund*",), effect="needs_review", reason="moves money"),
    ),
)
TOOLS = {"description": "Help the customer.", "language": "tools"}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "text": name,
        "kind": "tool_call",
        "arguments": {"name": name, "arguments": arguments},
    }


def _controller(
    pipeline: FeaturePipeline,
    critic: ScriptedCritic,
    policy: ToolPolicy = POLICY,
    **settings: Any,
) -> Controller:
    defaults = {"min_success_probability": 0.0, "fallback": "first", "exploration": 0.0}
    manifest = ModelManifest(
        learner="iql",
        components=COMPONENTS,
        weights=WEIGHTS,
        feature_fingerprint=pipeline.schema.fingerprint,
        encoders=pipeline.schema.encoders,
        combination=CRITIC_ALONE,
        controller=ControllerConfig(**{**defaults, **settings}),
        k_max=8,
        development_tasks=("a",),
        files={},
    )
    return Controller(manifest=manifest, critic=critic, pipeline=pipeline, policy=policy)


def test_the_highest_score_is_chosen(pipeline):
    decision = _controller(pipeline, ScriptedCritic()).select(STATE, [GOOD, LONG, GOOD])
    assert decision.chosen_index == 2
    assert decision.reason is Reason.BEST_SCORE
    assert decision.propensity == 1.0
    assert [score is not None for score in decision.scores] == [True] * 3


def test_a_dangerous_candidate_is_never_chosen_whatever_its_score(pipeline):
    decision = _controller(pipeline, ScriptedCritic()).select(STATE, [GOOD, LONG, BAD])
    assert decision.chosen_index == 1
    assert decision.scores[2] is None
    assert [item.index for item in decision.filtered] == [2]


def test_when_all_are_dangerous_nobody_is_chosen(pipeline):
    decision = _controller(pipeline, ScriptedCritic()).select(STATE, [BAD, BAD])
    assert decision.chosen_index is None
    assert decision.reason is Reason.ALL_FILTERED


@pytest.mark.parametrize(("fallback", "chosen"), [("first", 1), ("abstain", None)])
def test_below_the_threshold_the_fallback_decides(pipeline, fallback, chosen):
    critic = ScriptedCritic(slope=0.01)
    controller = _controller(pipeline, critic, min_success_probability=0.9, fallback=fallback)
    decision = controller.select(STATE, [BAD, GOOD, LONG])
    assert decision.chosen_index == chosen
    assert decision.reason is Reason.LOW_CONFIDENCE
    assert decision.fallback == fallback


def test_a_goal_changes_the_choice_without_retraining(pipeline):
    controller = _controller(pipeline, ScriptedCritic(slope=0.1, lengths=(-0.01, -0.05)))
    assert controller.select(STATE, [GOOD, LONG]).chosen_index == 1
    brief = controller.select(STATE, [GOOD, LONG], goal={"excess_lines": -10.0})
    assert brief.chosen_index == 0


def test_a_goal_with_an_unknown_component_is_refused(pipeline):
    with pytest.raises(ParameterError, match="unknown component beauty"):
        _controller(pipeline, ScriptedCritic()).select(STATE, [GOOD], goal={"beauty": 1.0})


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
        _controller(pipeline, ScriptedCritic()).select(state, candidates)


def test_exploration_keeps_its_propensity(pipeline):
    controller = _controller(pipeline, ScriptedCritic(), exploration=0.4)
    rng = np.random.default_rng(0)
    decisions = [controller.select(STATE, [GOOD, LONG], rng=rng) for _ in range(60)]
    expected = {0: 0.2, 1: 0.8}
    assert all(d.propensity == pytest.approx(expected[d.chosen_index or 0]) for d in decisions)
    assert {d.chosen_index for d in decisions} == {0, 1}


def test_a_decision_among_more_candidates_than_k_max_says_so_and_leaves_nobody_out(pipeline):
    controller = _controller(pipeline, ScriptedCritic())
    assert not controller.select(STATE, [GOOD] * 8).beyond_k_max
    decision = controller.select(STATE, [GOOD] * 9)
    assert decision.beyond_k_max
    assert decision.chosen_index == 8
    # What the hard filter takes out was never chosen from.
    assert not controller.select(STATE, [BAD, *[GOOD] * 8]).beyond_k_max


def test_another_pipeline_than_that_of_training_is_refused(pipeline):
    controller = _controller(pipeline, ScriptedCritic())
    manifest = controller.manifest.model_copy(update={"feature_fingerprint": "0" * 64})
    with pytest.raises(FingerprintMismatch, match="0000"):
        Controller(manifest=manifest, critic=ScriptedCritic(), pipeline=pipeline)


def test_a_call_that_the_policy_denies_is_never_chosen(pipeline):
    decision = _controller(pipeline, ScriptedCritic()).select(
        TOOLS, [call("find_user", id=1), call("delete_user", id=1)]
    )
    assert decision.chosen_index == 0
    assert [(item.index, item.rules) for item in decision.filtered] == [(1, ("policy:no-deletes",))]
    assert not decision.review


def test_a_choice_that_needs_review_says_so_and_stays_the_choice(pipeline):
    controller = _controller(pipeline, ScriptedCritic())
    decision = controller.select(TOOLS, [call("find_user", id=1), call("refund", amount=9)])
    assert decision.chosen_index == 1
    assert decision.review
    assert [(item.index, item.rules) for item in decision.needs_review] == [(1, ("policy:money",))]
    assert decision.scores[1] is not None
    other = controller.select(TOOLS, [call("refund", amount=9), call("find_user", id=1)])
    assert other.chosen_index == 1
    assert other.needs_review
    assert not other.review
