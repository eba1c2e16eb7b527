"""Guidance in features: an attribute of the action, and the steps that gains are learnt from."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import orjson
import pytest

from harness_core.features.contents import ActionContent, StepContent, TaskContent
from harness_core.features.execution import UNKNOWN
from harness_core.features.guided import GuidedSteps, load_guided_steps
from harness_core.features.history import NUMERIC, History
from harness_core.features.load import read_schema
from harness_core.features.summary import SUMMARY, summarise
from harness_core.stages import features
from harness_core.stages.dag import Workspace
from harness_core.trajectories.guidance import Guided, with_guidance
from harness_core.trajectories.schema import Step, Trajectory
from harness_core.trajectories.vocabulary import ActionKind
from tests.features.world import World, make_config
from tests.stages.small_run import world_without_programs

TASK = TaskContent(task_id="t", source="s", description="d")


def action(template_id: str | None = None) -> ActionContent:
    guided = None if template_id is None else Guided(id=template_id, propensity=0.5)
    arguments = orjson.dumps(with_guidance({}, guided)).decode()
    return ActionContent(kind=ActionKind.MESSAGE, text="hello", arguments=arguments)


def summary(template_id: str | None) -> Mapping[str, float]:
    row = summarise(action(template_id), TASK, seen="")
    return dict(zip(SUMMARY, row.tolist(), strict=True))


def test_the_template_is_an_attribute_of_the_action() -> None:
    plain, one, other = summary(None), summary("edge-cases"), summary("list-rules")
    assert plain["is_guided"] == 0.0
    assert one["is_guided"] == other["is_guided"] == 1.0
    assert one != other
    assert {name for name in plain if plain[name] != one[name]} == {
        "is_guided",
        *(name for name in one if name.startswith("guidance_bucket_") and one[name]),
    }


def test_the_same_action_under_other_guidance_is_a_repeat() -> None:
    history = History()
    for template_id in (None, "edge-cases"):
        history.add(StepContent(actions=(action(template_id),)), UNKNOWN)
    numbers = dict(zip(NUMERIC, history.numbers(), strict=True))
    assert numbers["last_is_repeat"] == 1.0


def guided_step(step: Step, template_id: str | None) -> Step:
    guided = Guided(id=template_id, propensity=0.25)
    told = with_guidance(step.action.arguments, guided)
    action = step.action.model_copy(update={"arguments": told})
    candidates = tuple(
        item.model_copy(update={"action": item.action.model_copy(update={"arguments": told})})
        for item in step.candidates
    )
    return step.model_copy(update={"action": action, "candidates": candidates})


def guided_world() -> World:
    """The first step of every second run was guided, of every other one it might have been."""
    world = world_without_programs()

    def guide(number: int, trajectory: Trajectory) -> Trajectory:
        first = guided_step(trajectory.steps[0], "edge-cases" if number % 2 else None)
        return trajectory.model_copy(update={"steps": (first, *trajectory.steps[1:])})

    trajectories = tuple(guide(*pair) for pair in enumerate(world.trajectories))
    return World(trajectories=trajectories, tasks=world.tasks)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, params) -> Workspace:
    workspace = guided_world().write(tmp_path_factory.mktemp("guided"))
    features.run(make_config(), params.sandbox, workspace)
    return workspace


@pytest.fixture(scope="module")
def steps(workspace: Workspace) -> GuidedSteps:
    return load_guided_steps(workspace)


def test_every_step_with_a_draw_and_a_label_is_there_once(steps: GuidedSteps) -> None:
    trajectories = guided_world().trajectories
    assert 0 < len(steps) <= len(trajectories)
    assert steps.is_first.all()
    assert set(steps.template.tolist()) == {"", "edge-cases"}
    assert np.allclose(steps.propensity, 0.25)
    assert np.isfinite(steps.success).all()
    assert ((steps.success >= 0) & (steps.success <= 1)).all()
    assert len(steps.take(steps.template == "")) == int((steps.template == "").sum())


def test_the_state_is_the_one_before_the_step(workspace: Workspace, steps: GuidedSteps) -> None:
    names = read_schema(workspace).state
    last_action = [place for place, name in enumerate(names) if name.startswith("last_action.")]
    assert steps.state.shape == (len(steps), len(names))
    assert not steps.state[:, last_action].any()


def test_logs_without_guidance_hold_none(tmp_path: Path, params) -> None:
    workspace = world_without_programs().write(tmp_path)
    features.run(make_config(), params.sandbox, workspace)
    assert len(load_guided_steps(workspace)) == 0
