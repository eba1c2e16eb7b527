"""Guidance in the closed loop: who submits what, on rounds and choices of our own."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from benchmarks.guided import BOTH, GUIDANCE, SELECTION, WITHOUT, play_scene, summarise_guidance
from benchmarks.judges import FROZEN, Judges
from benchmarks.rounds import Round, play_rounds
from harness_core.controller.decision import Decision, Reason
from harness_core.controller.guidance import GuidanceChoice, GuidanceReason
from harness_core.errors import NoDataError
from harness_core.simulation.agent import Proposal
from harness_core.simulation.problems import load_problems
from harness_core.trajectories.guidance import guidance_of
from harness_core.trajectories.guidance_library import GuidanceTemplate
from tests.benchmarks.test_closed_loop_bench import SaysOne
from tests.simulation.conftest import KnowingGrader

PROBLEMS = load_problems()


def decision(chosen: int) -> Decision:
    return Decision(
        decision_id="d",
        chosen_index=chosen,
        scores=(0.0, 0.0),
        component_scores=({}, {}),
        success_probability=0.5,
        reason=Reason.BEST_SCORE,
        fallback=None,
        filtered=(),
        propensity=1.0,
        model_digest="m",
        feature_fingerprint="f",
    )


class Guiding:
    """Gives a fixed template, and picks the last proposal."""

    def __init__(self, template_id: str | None) -> None:
        self._template_id = template_id
        self.asked: list[Sequence[Mapping[str, Any]]] = []

    def guide(self, state: Mapping[str, Any]) -> GuidanceChoice:
        assert "hidden_checks" not in state
        return GuidanceChoice(
            decision_id="g",
            template_id=self._template_id,
            text="",
            expected_gain=0.0 if self._template_id is None else 0.25,
            considered=(),
            reason=GuidanceReason.BEST_GAIN,
            propensity=1.0,
            model_digest="m",
            feature_fingerprint="f",
        )

    def select(self, state: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> Decision:
        self.asked.append(candidates)
        return decision(len(candidates) - 1)


def made(template_id: str | None, solved: Sequence[float], *, right_rate: float) -> Round:
    return Round(
        problem=PROBLEMS[0],
        seed=1,
        agent="simulated-coder",
        model="sim-small",
        proposals=tuple(Proposal(thought="", code=f"# {n}", n_tokens=1) for n in range(2)),
        written_checks=(),
        solved=np.array(solved, dtype=np.float64),
        dangerous=np.zeros(2),
        visible=np.ones(2),
        written=np.zeros((2, 0), dtype=np.bool_),
        template_id=template_id,
        right_rate=right_rate,
    )


ROUNDS = (
    made(None, (1, 0), right_rate=0.4),
    made("lucky", (1, 1), right_rate=0.3),
    made("likely", (0, 1), right_rate=0.9),
)


def figures(template_id: str | None) -> dict[str, Any]:
    judges = Judges(by_fold={FROZEN: Guiding(template_id)}, fold_of={})
    return summarise_guidance([play_scene(ROUNDS, judges, decision(0))])


def rate(found: Mapping[str, Any], name: str) -> float:
    return float(found["first_pass"][name]["value"])


def test_every_way_to_guide_is_worth_what_it_submits() -> None:
    found = figures("likely")
    assert rate(found, WITHOUT) == 0.5
    assert rate(found, "random_template") == 0.75
    assert rate(found, GUIDANCE) == 0.5
    assert rate(found, "oracle_template") == 0.5  # it knows the rates, not the luck of the draw
    assert rate(found, SELECTION) == 1.0
    assert rate(found, BOTH) == 1.0
    assert found["given"] == {"likely": 1.0}
    assert found["expected_gain"] == 0.25
    assert found["gain"]["random_template"]["value"] == 0.25
    assert json.loads(json.dumps(found)) == found


def test_without_guidance_both_is_selection() -> None:
    found = figures(None)
    assert rate(found, GUIDANCE) == rate(found, WITHOUT)
    assert rate(found, BOTH) == rate(found, SELECTION)
    assert found["gain"]["guidance_on_top_of_selection"]["value"] == 0.0


def test_candidates_say_what_they_were_proposed_under() -> None:
    controller = Guiding("likely")
    play_scene(ROUNDS, Judges(by_fold={FROZEN: controller}, fold_of={}), decision(0))
    ((one, other),) = controller.asked
    for candidate in (one, other):
        guided = guidance_of(candidate["arguments"])
        assert guided is not None
        assert guided.id == "likely"


def test_guidance_that_was_not_played_is_refused() -> None:
    with pytest.raises(NoDataError, match=r"'gone', which guidance.yaml"):
        figures("gone")


def test_templates_are_played_by_agents_of_the_same_luck() -> None:
    template = GuidanceTemplate(id="plain-function", text="Only compute.")
    grader = KnowingGrader(frozenset(problem.reference for problem in PROBLEMS))
    one, other = (
        play_rounds(
            PROBLEMS[:3], seed=1, turn=0, k=6, grader=grader, runner=SaysOne(), templates=templates
        )
        for templates in ((None,), (None, template))
    )
    assert [item.template_id for item in other] == [None, "plain-function"] * 3
    assert [item.proposals for item in one] == [item.proposals for item in other[::2]]
    assert all(0 < item.right_rate < 1 for item in other)
    # It makes dangers rare and nothing else, so whoever draws no danger draws the same.
    assert sum(item.dangerous.sum() for item in other[1::2]) <= sum(
        item.dangerous.sum() for item in one
    )
