"""Goals move the choice along the front of correctness against length, without a new training.

One small critic is trained on tasks whose right programs are longer than a wrong one. What must
hold for every request, whatever the critic learnt: scores are linear in the weight of length, so as
that weight grows, the length that the pick is expected to pay for never grows, and what it is
expected to earn otherwise never grows either. What must hold on average over held-out tasks,
because this critic knows length and correctness: picks get shorter, and no more of them are right.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.controller import Controller
from harness_core.controller.decision import Decision
from harness_core.controller.manifest import ModelManifest
from harness_core.features.batch import DecisionGroup, TransitionArrays
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.runtime import featurise_request
from harness_core.features.set_relative import SET_RELATIVE, set_relative
from harness_core.learners.checkpoint import Critic
from harness_core.learners.data import TrainingData, group_pool, transition_pool
from harness_core.learners.networks import NetworkSpec
from harness_core.learners.trainer import fit
from harness_core.params import Params
from harness_core.rewards.programs import excess_lines
from harness_core.trajectories.schema import (
    Action,
    Agent,
    Outcome,
    Provenance,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import ActionKind, GroupKind, Language, Split
from tests.features.test_runtime import InProcessSandbox
from tests.features.world import InProcessRunner, World, make_config

COMPONENTS = ("all_tests", "visible_tests", "excess_lines")
N_TASKS = 25
LENGTH_WEIGHTS = (0.0, -0.01, -0.3, -1.0, -3.0, -30.0)
"""From length that costs nothing to length that costs more than anything else is worth."""


@dataclass(frozen=True)
class Candidate:
    """A program, what is true of it, and its length above what is allowed."""

    program: str
    is_right: bool
    n_visible: int
    excess: float


def candidates_of(number: int) -> list[Candidate]:
    """Three right programs and two wrong ones for clamped multiples, the shortest of them wrong."""
    low, factor = number % 7 + 1, number % 5 + 2
    reference = f"def f(x):\n    return {low} if x < {low} else x * {factor}\n"
    right_middle = (
        f"def f(x):\n    if x < {low}:\n        return {low}\n    y = x * {factor}\n    return y\n"
    )
    loop = (
        f"    total = 0\n    step = 0\n    while step < {factor}:\n        total = total + x\n"
        "        step = step + 1\n    result = total\n    return result\n"
    )
    clamp = f"    limit = {low}\n    if x < limit:\n        return limit\n"
    texts = [
        (right_middle, True),
        (f"def f(x):\n{clamp}{loop}", True),
        (
            f"def f(x):\n    unused = 0\n{clamp}    y = x\n    y = y * {factor}\n    return y\n",
            True,
        ),
        (f"def f(x):\n    return x * {factor}\n", False),
        (f"def f(x):\n{loop}", False),
    ]
    order = np.random.default_rng(number).permutation(len(texts))
    found = []
    for text, is_right in (texts[place] for place in order):
        excess = excess_lines(text, reference, length_slack=1.0)
        assert excess is not None
        found.append(Candidate(text, is_right, 2 if is_right else 1, excess))
    return found


def spec_of(number: int) -> TaskSpec:
    low, factor = number % 7 + 1, number % 5 + 2
    checks = (f"assert f({low + 1}) == {(low + 1) * factor}", f"assert f({low - 1}) == {low}")
    return TaskSpec(
        task_id=f"clamp/{number}",
        source="clamp",
        family="clamp",
        description=f"Multiply by {factor}, but give {low} below {low}.",
        language=Language.PYTHON,
        entry_point="f",
        visible_checks=checks,
        hidden_checks=(f"assert f({low - 2}) == {low}",),
        reference=None,
    )


def trajectory_of(number: int, program: str, *, is_right: bool) -> Trajectory:
    spec = spec_of(number)
    return Trajectory(
        task=TaskRef(task_id=spec.task_id, family=spec.family, description=spec.description),
        agent=Agent(name="coder", model="m1"),
        steps=(Step(index=0, action=Action(kind=ActionKind.CODE, text=program)),),
        outcome=Outcome(success=is_right, score=float(is_right)),
        terminated=True,
        truncated=False,
        provenance=Provenance(
            importer="native", source="clamp", path="a.jsonl", source_sha256="0" * 64, line=1
        ),
    )


def is_held_out(number: int) -> bool:
    """As in `World`: every fifth task is of the test slice, which the pipeline is not fitted on."""
    return number % 5 == 4


HELD_OUT = [number for number in range(N_TASKS) if is_held_out(number)]
LEARNT = [number for number in range(N_TASKS) if not is_held_out(number)]


def request_of(number: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    spec = spec_of(number)
    state = {
        "source": spec.source,
        "description": spec.description,
        "language": "python",
        "entry_point": spec.entry_point,
        "visible_checks": spec.visible_checks,
    }
    return state, [{"kind": "code", "text": item.program} for item in candidates_of(number)]


@pytest.fixture(scope="module")
def sandbox(params: Params) -> InProcessSandbox:
    return InProcessSandbox(params.sandbox)


@pytest.fixture(scope="module")
def controller(params: Params, sandbox: InProcessSandbox) -> Controller:
    world = World(
        trajectories=tuple(
            trajectory_of(number, item.program, is_right=item.is_right)
            for number in range(N_TASKS)
            for item in candidates_of(number)
        ),
        tasks=tuple(map(spec_of, range(N_TASKS))),
    )
    pipeline = FeaturePipeline.fit(world.tables(), make_config(), runner=InProcessRunner())
    weights = {name: getattr(params.rewards.weights, name) for name in COMPONENTS}
    return Controller(
        manifest=ModelManifest(
            learner="iql",
            components=COMPONENTS,
            weights=weights,
            feature_fingerprint=pipeline.schema.fingerprint,
            encoders=pipeline.schema.encoders,
            combination=CRITIC_ALONE,
            controller=params.controller,
            k_max=8,
            development_tasks=tuple(spec_of(number).task_id for number in LEARNT),
            files={},
        ),
        critic=_critic([_group(pipeline, sandbox, number) for number in LEARNT], weights, params),
        pipeline=pipeline,
        sandbox=sandbox,
    )


def _group(pipeline: FeaturePipeline, sandbox: InProcessSandbox, number: int) -> DecisionGroup:
    """The candidates as they look at run time, with what is true of them."""
    group = featurise_request(pipeline, *request_of(number), sandbox=sandbox)
    success = [float(item.is_right) for item in candidates_of(number)]
    return replace(
        group,
        group_id=spec_of(number).task_id,
        task_id=spec_of(number).task_id,
        split=Split.TRAIN,
        fold=0,
        success=np.array(success, dtype=np.float32),
    )


def _critic(groups: Sequence[DecisionGroup], weights: dict[str, float], params: Params) -> Critic:
    config = params.train.model_copy(
        update={
            "accelerator": "cpu",
            "hidden_sizes": (32,),
            "dropout": 0.0,
            "batch_size": 32,
            "n_groups": 8,
            "group_sizes": (2, 4),
            "max_updates": 150,
            "check_every": 150,
            "learning_rate": 0.01,
        }
    )
    spec = NetworkSpec(
        n_state=groups[0].after.shape[1],
        n_action=groups[0].action.shape[1],
        n_relative=len(SET_RELATIVE),
        hidden_sizes=config.hidden_sizes,
        n_members=1,
        components=COMPONENTS,
        weights=tuple(weights.values()),
    )
    attempts = group_pool(
        groups,
        kind=GroupKind.ATTEMPT,
        set_relative=set_relative,
        group_sizes=config.group_sizes,
        seed=0,
    )
    data = TrainingData(
        transitions=transition_pool(_arrays(groups), spec, batch_size=config.batch_size),
        attempts=attempts,
        steps=None,
    )
    return Critic(fit(data, spec, config, seed=0).network)


def _arrays(groups: Sequence[DecisionGroup]) -> TransitionArrays:
    """Every candidate as one action that ends its task and is paid at once."""
    paid = [
        (float(item.is_right), float(item.n_visible), item.excess)
        for number in LEARNT
        for item in candidates_of(number)
    ]
    state = np.concatenate([group.before for group in groups])
    n = len(state)
    return TransitionArrays(
        trajectory=np.arange(n),
        step_index=np.zeros(n, dtype=np.int64),
        state=state,
        action=np.concatenate(
            [np.hstack([group.action, set_relative(group.signals)]) for group in groups]
        ),
        next_state=np.zeros_like(state),
        rewards=np.array(paid, dtype=np.float32),
        discount=np.zeros(n, dtype=np.float32),
        fold=np.zeros(n, dtype=np.int64),
        split=np.full(n, Split.TRAIN.value),
        task_id=np.repeat([group.task_id for group in groups], [group.size for group in groups]),
    )


@pytest.fixture(scope="module")
def swept(controller: Controller) -> dict[float, list[Decision]]:
    """Decisions on the held-out tasks under each weight of length, the lightest first."""
    return {
        weight: [
            controller.select(*request_of(number), {"excess_lines": weight}) for number in HELD_OUT
        ]
        for weight in LENGTH_WEIGHTS
    }


def picked(decisions: Sequence[Decision]) -> list[Candidate]:
    found = []
    for number, decision in zip(HELD_OUT, decisions, strict=True):
        assert decision.chosen_index is not None
        found.append(candidates_of(number)[decision.chosen_index])
    return found


def expected(decision: Decision) -> tuple[float, float]:
    """What the pick is expected to earn for its length, and for all else, as trained."""
    assert decision.chosen_index is not None
    components = decision.component_scores[decision.chosen_index]
    length = components["excess_lines"]
    return length, sum(components.values()) - length


def test_a_heavier_length_never_picks_what_is_expected_to_be_longer_nor_better(
    swept: dict[float, list[Decision]],
) -> None:
    for column in zip(*swept.values(), strict=True):
        lengths, rests = np.array([expected(decision) for decision in column]).T
        assert np.all(np.diff(lengths) >= 0)
        assert np.all(np.diff(rests) <= 0)


def test_the_front_moves_from_right_and_long_to_wrong_and_short(
    swept: dict[float, list[Decision]],
) -> None:
    lines = [np.mean([item.excess for item in picked(found)]) for found in swept.values()]
    right = [np.mean([item.is_right for item in picked(found)]) for found in swept.values()]
    assert np.all(np.diff(lines) <= 0)
    assert np.all(np.diff(right) <= 0)
    # Not only in principle: both ends are reached, with points between them.
    assert right[0] == 1.0
    assert right[-1] == 0.0
    assert lines[-1] == 0.0
    assert len({round(float(value), 6) for value in lines}) > 2


def test_the_same_model_decides_under_every_goal(swept: dict[float, list[Decision]]) -> None:
    assert len({item.model_digest for found in swept.values() for item in found}) == 1
    for column in zip(*swept.values(), strict=True):
        assert len({tuple(map(tuple, map(dict.items, d.component_scores))) for d in column}) == 1


def test_without_a_goal_no_weight_moves_the_choice(controller: Controller) -> None:
    heavy = controller.manifest.model_copy(
        update={"weights": {**controller.manifest.weights, "excess_lines": LENGTH_WEIGHTS[-1]}}
    )
    other = Controller(
        manifest=heavy,
        critic=controller._critic,
        pipeline=controller._pipeline,
        sandbox=controller._sandbox,
    )
    for number in HELD_OUT:
        one, two = (item.select(*request_of(number)) for item in (controller, other))
        assert one.chosen_index == two.chosen_index
        assert one.scores == two.scores
