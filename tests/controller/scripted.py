"""A controller whose critic is scripted, so that a test says what it believes."""

from typing import Any

import numpy as np

from harness_core.controller.abstention import Abstention
from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.config import ControllerConfig
from harness_core.controller.controller import Controller
from harness_core.controller.guidance import GuidanceChooser
from harness_core.controller.manifest import ModelManifest
from harness_core.controller.strangeness import KnownStates
from harness_core.features.batch import Floats
from harness_core.features.pipeline import FeaturePipeline
from harness_core.rewards.tool_policy import PolicyRule, ToolPolicy

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


def controller(
    pipeline: FeaturePipeline,
    critic: ScriptedCritic,
    policy: ToolPolicy = POLICY,
    *,
    abstention: Abstention | None = None,
    guidance: GuidanceChooser | None = None,
    known_states: KnownStates | None = None,
    version: str | None = None,
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
        abstention=abstention,
        development_tasks=("a",),
        files={},
    )
    return Controller(
        manifest=manifest,
        critic=critic,
        pipeline=pipeline,
        policy=policy,
        guidance=guidance,
        known_states=known_states,
        version=version,
    )
