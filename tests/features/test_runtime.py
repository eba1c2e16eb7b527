import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import orjson
import pytest

from harness_core.errors import ParameterError
from harness_core.features.batch import DecisionGroup
from harness_core.features.load import groups_from
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.runtime import featurise_request
from harness_core.features.set_relative import set_relative
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.protocol import CheckJob, ProgramJob
from harness_core.sandbox.result import CheckRun, ProgramRun
from harness_core.trajectories.schema import Step, TaskSpec, Trajectory
from harness_core.trajectories.vocabulary import GroupKind, Language
from tests.features.world import InProcessRunner, World


class InProcessSandbox:
    """A sandbox for the harmless programs of these tests."""

    layers: tuple[str, ...] = ()
    trusted = True

    def __init__(self, config: SandboxConfig) -> None:
        self.config = config

    def run_programs(self, jobs: Sequence[ProgramJob]) -> list[ProgramRun]:
        return InProcessRunner().run(jobs)

    def run_checks(self, jobs: Sequence[CheckJob]) -> list[CheckRun]:
        assert not jobs
        return []

    def close(self) -> None:
        """Nothing to end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture(scope="module")
def pipeline(world, config) -> FeaturePipeline:
    return FeaturePipeline.fit(world.tables(), config, runner=InProcessRunner())


@pytest.fixture(scope="module")
def groups(world, pipeline) -> list[DecisionGroup]:
    tables = pipeline.transform(world.tables(), runner=InProcessRunner())
    return groups_from(world.candidates(), tables.states, tables.actions, tables.signals)


def request_step(step: Step) -> dict[str, Any]:
    tokens = step.usage.completion_tokens
    return {
        "kind": step.action.kind.value,
        "text": step.action.text,
        "arguments": step.action.arguments,
        "observation": step.observation,
        "result": step.result,
        "is_error": step.is_error,
        "n_tokens": tokens,
    }


def request_state(task: TaskSpec, attempts: list[Trajectory]) -> dict[str, Any]:
    shared = attempts[0]
    return {
        "task_id": task.task_id,
        "source": task.source,
        "description": task.description,
        "language": task.language.value,
        "entry_point": task.entry_point,
        "visible_checks": list(task.visible_checks),
        "generated_checks": list(task.generated_checks),
        "agent": {"name": shared.agent.name, "model": shared.agent.model},
        "history": [request_step(step) for step in shared.steps[:-1]],
    }


@pytest.mark.parametrize("task_id", ["code/4", "code/9", "sql/4", "tools/9"])
def test_a_request_has_the_same_numbers_as_a_log_of_it(
    world: World, params, pipeline, groups, task_id
):
    # Only test tasks: their prior is the all-development one, as at run time.
    task = next(item for item in world.tasks if item.task_id == task_id)
    group = next(g for g in groups if g.task_id == task_id and g.kind is GroupKind.ATTEMPT)
    attempts = [
        item
        for item in sorted(world.trajectories, key=lambda t: t.trajectory_id)
        if item.task.task_id == task_id
    ]
    for number, attempt in enumerate(attempts):
        found = featurise_request(
            pipeline,
            orjson.loads(orjson.dumps(request_state(task, [attempt]))),
            [request_step(attempt.steps[-1])],
            sandbox=InProcessSandbox(params.sandbox),
        )
        np.testing.assert_allclose(found.before[0], group.before[number], atol=1e-5)
        np.testing.assert_allclose(found.after[0], group.after[number], atol=1e-5)
        np.testing.assert_allclose(found.action[0], group.action[number], atol=1e-5)
        logged = group.signals.take(np.array([number]))
        for name in ("n_chars", "text_key", "answer_key", "visible_rate", "agent_prior"):
            np.testing.assert_array_equal(getattr(found.signals, name), getattr(logged, name))
        np.testing.assert_array_equal(found.signals.generated_passed, logged.generated_passed)
        np.testing.assert_array_equal(found.signals.outputs, logged.outputs)


def test_candidates_of_one_request_are_compared_with_each_other(world, params, pipeline):
    task = next(item for item in world.tasks if item.task_id == "code/4")
    programs = ["def add(a, b): return a + b", "def add(a, b): return b + a", "def add(a, b): 1"]
    group = featurise_request(
        pipeline,
        {
            "description": task.description,
            "language": "python",
            "entry_point": "add",
            "visible_checks": list(task.visible_checks),
            "generated_checks": list(task.generated_checks),
        },
        [{"kind": "code", "text": text} for text in programs],
        sandbox=InProcessSandbox(params.sandbox),
    )
    assert group.size == 3
    assert group.signals.visible_rate.tolist() == [1.0, 1.0, 0.0]
    assert (group.signals.outputs[0] == group.signals.outputs[1]).all()
    assert set_relative(group.signals)[0].any()
    assert np.isnan(group.success).all()


def test_without_a_sandbox_a_request_is_still_answered(pipeline):
    group = featurise_request(
        pipeline,
        {"description": "Add two numbers.", "language": "python", "visible_checks": ["assert f()"]},
        [{"kind": "code", "text": "def f(): return 1"}],
        sandbox=None,
    )
    assert math.isnan(group.signals.visible_rate[0])
    assert np.isfinite(group.after).all()


def test_the_least_request_is_a_description_and_a_text(pipeline):
    group = featurise_request(
        pipeline, {"description": "Say hello."}, [{"kind": "message", "text": "hi"}], sandbox=None
    )
    assert group.before.shape == (1, len(pipeline.schema.state))
    assert group.action.shape == (1, len(pipeline.schema.action))


@pytest.mark.parametrize(
    ("state", "candidate", "named"),
    [
        ({"language": "klingon"}, {"kind": "message"}, "state.language"),
        ({}, {"kind": "shout"}, "candidates.kind"),
        ({}, {"text": "no kind"}, "'kind'"),
        ({"history": [{"kind": "shout"}]}, {"kind": "message"}, "history.kind"),
    ],
)
def test_an_unknown_word_is_named(pipeline, state, candidate, named):
    with pytest.raises(ParameterError, match=named):
        featurise_request(pipeline, state, [candidate], sandbox=None)


def test_every_language_is_served(pipeline):
    for language in Language:
        group = featurise_request(
            pipeline,
            {"description": "Do it.", "language": language.value},
            [{"kind": "code", "text": "SELECT 1 | grep x"}],
            sandbox=None,
        )
        assert np.isfinite(group.action).all()
