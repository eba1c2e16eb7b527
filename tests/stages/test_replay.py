from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness_core.controller.abstention import ACCEPTS_ALL, Abstention, RiskPoint
from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.config import ControllerConfig
from harness_core.controller.controller import Controller
from harness_core.controller.manifest import ModelManifest
from harness_core.errors import ModelError, NoDataError, ParameterError
from harness_core.features.batch import Floats
from harness_core.features.pipeline import FeaturePipeline
from harness_core.serving.decision_log import DecisionLog
from harness_core.serving.outcomes import DecisionStory, report_outcome
from harness_core.stages.dag import CANDIDATE_MODEL
from harness_core.stages.replay import ReplaySettings, replay, replay_folder
from harness_core.stages.replay_words import as_table, notes
from harness_core.trajectories.decision_log import LoggedDecision, LoggedOutcome
from harness_core.trajectories.schema import Usage
from tests.features.world import make_config, make_world
from tests.stages.small_run import finished_run

STATE = {"description": "List the singers.", "language": "sql"}
CANDIDATES = tuple({"text": f"SELECT {n}", "kind": "code"} for n in range(4))
AS_IT_IS = ReplaySettings()


class Scripted:
    """A critic whose scores of candidates rise, or fall, with their place."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def terminal(self, x: Floats) -> Floats:
        return (self.slope * np.arange(len(x))).astype(np.float32)

    def q(self, state: Floats, action: Floats) -> Floats:
        return np.zeros((len(state), 2), dtype=np.float32)

    def value(self, state: Floats) -> Floats:
        return np.zeros((len(state), 2), dtype=np.float32)

    def running(self, state: Floats) -> Floats:
        return np.zeros(len(state), dtype=np.float32)


@pytest.fixture(scope="module")
def pipeline() -> FeaturePipeline:
    return FeaturePipeline.fit(make_world().tables(), make_config())


def make_controller(
    pipeline: FeaturePipeline,
    *,
    slope: float = 1.0,
    abstention: Abstention | None = None,
    **settings: Any,
) -> Controller:
    defaults: dict[str, Any] = {
        "min_success_probability": 0.0,
        "fallback": "first",
        "exploration": 0.0,
    }
    manifest = ModelManifest(
        learner="iql",
        components=("all_tests", "outcome"),
        weights={"all_tests": 10.0, "outcome": 10.0},
        feature_fingerprint=pipeline.schema.fingerprint,
        encoders=pipeline.schema.encoders,
        combination=CRITIC_ALONE,
        controller=ControllerConfig(**(defaults | settings)),
        k_max=8,
        development_tasks=(),
        abstention=abstention,
        files={},
    )
    return Controller(manifest=manifest, critic=Scripted(slope), pipeline=pipeline)


def logged(controller: Controller, *, n: int = 5, **changes: Any) -> list[DecisionStory]:
    stories = []
    for seed in range(n):
        decision = controller.select(STATE, CANDIDATES, rng=np.random.default_rng(seed))
        values: dict[str, Any] = {
            "decision_id": decision.decision_id,
            "decided_at": datetime(2026, 3, 4, tzinfo=UTC),
            "mode": "rerank",
            "state": STATE,
            "candidates": CANDIDATES,
            "decision": decision.model_dump(mode="json"),
            "answered_index": decision.chosen_index,
            "propensity": decision.propensity,
            "usage": Usage(completion_tokens=100),
        }
        stories.append(DecisionStory(decision=LoggedDecision(**(values | changes))))
    return stories


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"exploration": 0.9},
        {"min_success_probability": 0.99},
        {"min_success_probability": 0.99, "fallback": "abstain"},
    ],
    ids=str,
)
def test_the_same_model_with_the_same_settings_changes_nothing(pipeline, settings):
    controller = make_controller(pipeline, **settings)
    result = replay(logged(controller), controller, AS_IT_IS)
    assert result["n_replayed"] == 5
    assert result["n_picks_changed"] == 0
    assert result["changed"] == []
    for name in ("abstained", "candidates_filtered", "expected_success", "completion_tokens"):
        assert result[name]["before"] == result[name]["after"]


def test_another_model_picks_others(pipeline):
    stories = logged(make_controller(pipeline))
    result = replay(stories, make_controller(pipeline, slope=-1.0), AS_IT_IS)
    assert result["n_picks_changed"] == 5
    assert [item["before"]["pick"] for item in result["changed"]] == [3] * 5
    assert [item["after"]["pick"] for item in result["changed"]] == [0] * 5


def test_a_threshold_stands_aside_and_leaves_the_controller_as_it_was(pipeline):
    controller = make_controller(pipeline, fallback="abstain")
    stories = logged(controller)
    result = replay(stories, controller, ReplaySettings(min_success_probability=0.999))
    assert (result["abstained"]["before"], result["abstained"]["after"]) == (0, 5)
    assert result["settings"]["min_success_probability"] == 0.999
    assert controller.config.min_success_probability == 0.0


def test_fewer_candidates_cost_fewer_tokens_and_expect_less(pipeline):
    controller = make_controller(pipeline)
    result = replay(logged(controller), controller, ReplaySettings(k=2))
    assert [item["after"]["pick"] for item in result["changed"]] == [1] * 5
    assert (result["completion_tokens"]["before"], result["completion_tokens"]["after"]) == (
        500,
        250,
    )
    assert result["expected_success"]["after"] < result["expected_success"]["before"]


def test_only_answers_that_stay_the_same_keep_what_was_reported(pipeline):
    controller = make_controller(pipeline)
    stories = [
        DecisionStory(
            decision=story.decision,
            outcomes=(
                LoggedOutcome(
                    outcome_id=str(number),
                    decision_id=story.decision.decision_id,
                    reported_at=datetime(2026, 3, 5, tzinfo=UTC),
                    source="tests",
                    success=number > 0,
                ),
            ),
        )
        for number, story in enumerate(logged(controller))
    ]
    same = replay(stories, controller, AS_IT_IS)["reported_success"]
    assert (same["n_same_answer"], same["rate"], same["rate_same_answer"]) == (5, 0.8, 0.8)
    others = replay(stories, make_controller(pipeline, slope=-1.0), AS_IT_IS)["reported_success"]
    assert (others["n_same_answer"], others["rate_same_answer"]) == (0, None)


def test_a_decision_that_was_never_made_is_made_now(pipeline):
    controller = make_controller(pipeline)
    stories = logged(controller, n=1, decision=None, failure="timeout", answered_index=0)
    result = replay(stories, controller, AS_IT_IS)
    assert (result["n_picks_changed"], result["abstained"]) == (1, {"before": 1, "after": 0})


def test_what_cannot_be_decided_is_counted_with_its_reason(pipeline):
    controller = make_controller(pipeline)
    result = replay(logged(controller, candidates=(), answered_index=None), controller, AS_IT_IS)
    assert (result["n_decisions"], result["n_replayed"]) == (5, 0)
    assert result["skipped"] == {"candidates: expected at least one": 5}


def test_a_risk_that_the_model_was_not_calibrated_for_is_refused(pipeline):
    controller = make_controller(pipeline)
    with pytest.raises(ModelError, match="--max-risk: the model knows no risk curve"):
        replay(logged(controller), controller, ReplaySettings(max_risk=0.1))


def curve(*points: tuple[float, int, int]) -> Abstention:
    """A risk curve of thresholds, how many of 200 picks were above each, how many failed."""
    return Abstention(
        n_tasks=200,
        group_size=4,
        n_looks=len(points),
        points=tuple(
            RiskPoint(threshold=threshold, n_accepted=n_accepted, n_failed=n_failed)
            for threshold, n_accepted, n_failed in points
        ),
        mean_value=0.0,
        spread=(),
    )


def growing(controller: Controller) -> list[DecisionStory]:
    """Decisions between one candidate, two, three and four: the best one is ever better."""
    stories = []
    for k in range(1, 5):
        candidates = CANDIDATES[:k]
        decision = controller.select(STATE, candidates)
        said = {"decision": decision.model_dump(mode="json"), "candidates": candidates}
        (story,) = logged(controller, n=1, answered_index=k - 1, **said)
        stories.append(story)
    return stories


def test_under_a_risk_those_picks_are_accepted_that_the_curve_vouches_for(pipeline):
    controller = make_controller(pipeline, fallback="first")
    stories = growing(controller)
    chances = [(story.decision.decision or {})["success_probability"] for story in stories]
    assert chances == sorted(set(chances))
    points = (chances[1], 100, 4), (ACCEPTS_ALL, 200, 90)
    calibrated = make_controller(pipeline, fallback="first", abstention=curve(*points))

    strict = replay(stories, calibrated, ReplaySettings(max_risk=0.1))
    assert strict["abstained"] == {"before": 0, "after": 2}
    assert [item["after"]["pick"] for item in strict["changed"]] == [0]
    assert strict["changed"][0]["before"]["pick"] == 1
    assert strict["risk"]["n_after"] == 2
    assert strict["risk"]["after"] == pytest.approx(1 - sum(chances[2:]) / 2)
    assert strict["risk"]["after"] < strict["risk"]["before"] == pytest.approx(1 - sum(chances) / 4)
    assert "takes standing aside in 50 % of 200 calibration tasks" in strict["promise"]

    lax = replay(stories, calibrated, ReplaySettings(max_risk=0.6))
    assert (lax["abstained"]["after"], lax["n_picks_changed"]) == (0, 0)
    everything = replay(stories, calibrated, AS_IT_IS)
    assert (everything["promise"], everything["n_picks_changed"]) == (None, 0)


def test_a_risk_that_nothing_can_promise_is_said_to_mean_always_standing_aside(pipeline):
    controller = make_controller(pipeline, abstention=curve((ACCEPTS_ALL, 200, 90)))
    result = replay(growing(controller), controller, ReplaySettings(max_risk=0.01))
    assert result["abstained"]["after"] == 4
    assert result["risk"]["after"] is None
    assert "always stand aside" in notes(result | {"damaged_lines": []})[0]
    assert as_table(result).row_count == 8


def test_decisions_that_are_worse_than_those_of_calibration_are_pointed_out(pipeline):
    controller = make_controller(pipeline, slope=-5.0, abstention=curve((ACCEPTS_ALL, 200, 1)))
    result = replay(growing(controller), controller, ReplaySettings(max_risk=0.1))
    assert result["risk"]["after"] > 0.1
    said = notes(result | {"damaged_lines": []})
    assert "not like those of calibration" in said[1]


@pytest.mark.parametrize(("k", "expected"), [(None, 5), (2, 0)])
def test_scores_that_the_same_model_does_not_give_again_are_pointed_out(
    pipeline, k: int | None, expected: int
):
    controller = make_controller(pipeline)
    stories = logged(controller)
    for story in stories:
        (story.decision.decision or {})["scores"] = [1.0, 2.0, 3.0, 4.0]
    result = replay(stories, controller, ReplaySettings(k=k))
    assert result["n_other_scores"] == expected
    said = notes(result | {"damaged_lines": []})
    assert [("programs were run then" in one) for one in said] == [True] * (expected > 0)


def test_what_is_expected_is_that_of_the_answer_and_not_of_the_best(pipeline):
    controller = make_controller(pipeline, min_success_probability=0.999, fallback="first")
    stories = logged(controller, n=1)
    answer = stories[0].decision.decision or {}
    assert answer["chosen_index"] == 0
    result = replay(stories, controller, AS_IT_IS)
    assert result["expected_success"]["after"] == answer["success_probabilities"][0]
    assert result["expected_success"]["after"] < answer["success_probability"]
    assert result["risk"]["n_after"] == 0


@pytest.mark.parametrize("wrong", [{"k": 0}, {"max_risk": 1.0}, {"min_success_probability": 2.0}])
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ParameterError):
        ReplaySettings(**wrong)


def test_a_log_is_replayed_by_a_model_of_the_working_folder(tmp_path: Path, params):
    workspace = finished_run(tmp_path / "run", params)
    controller = Controller.load(workspace.path(CANDIDATE_MODEL))
    stories = logged(controller, n=3)
    with pytest.raises(NoDataError, match="no decision"):
        replay_folder(tmp_path / "log", params, workspace, model="candidate", settings=AS_IT_IS)
    with DecisionLog(tmp_path / "log") as log:
        for story in stories:
            log.append(story.decision)
        report_outcome(log, stories[0].decision.decision_id, source="user", success=True)
    result = replay_folder(
        tmp_path / "log", params, workspace, model="candidate", settings=AS_IT_IS
    )
    assert (result["n_replayed"], result["n_picks_changed"]) == (3, 0)
    assert result["model_digest"] == controller.manifest.digest
    assert result["reported_success"]["n_reported"] == 1
