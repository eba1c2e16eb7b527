"""From requests to scores: the hard filter, one pass of features for all of them, the networks."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np

from harness_core.controller.combination import combine, success_probability
from harness_core.controller.decision import FilteredCandidate
from harness_core.controller.guard import filter_dangerous, needing_review
from harness_core.controller.manifest import ModelManifest
from harness_core.controller.request import ReadRequest, SelectRequest, read_request
from harness_core.controller.scoring import (
    Critic,
    action_values,
    attempt_logits,
    success_component,
    with_success,
)
from harness_core.controller.selection import Scored
from harness_core.controller.strangeness import KnownStates
from harness_core.errors import ParameterError
from harness_core.features.batch import DecisionGroup, Floats
from harness_core.features.frame import tail_of
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.runtime import Request, featurise_requests, task_text
from harness_core.features.set_relative import set_relative
from harness_core.rewards.tool_policy import ToolPolicy
from harness_core.sandbox.protocol import Sandbox

_MAX_KEPT: Final = 256
"""States whose strangeness is remembered: one is asked about again with every new candidate."""


class Assessed(NamedTuple):
    """A request after the filter and, where anything passed it, the critic."""

    request: ReadRequest
    filtered: tuple[FilteredCandidate, ...]
    needs_review: tuple[FilteredCandidate, ...]
    scored: Scored | None
    timings_s: Mapping[str, float]


class _Screened(NamedTuple):
    request: ReadRequest
    filtered: tuple[FilteredCandidate, ...]
    needs_review: tuple[FilteredCandidate, ...]
    kept: Sequence[int]
    filter_s: float


class Assessor:
    """Scores candidates with a trained model; many threads may use one."""

    def __init__(
        self,
        *,
        manifest: ModelManifest,
        critic: Critic,
        pipeline: FeaturePipeline,
        sandbox: Sandbox | None,
        policy: ToolPolicy,
        known_states: KnownStates | None,
    ) -> None:
        self._manifest = manifest
        self._critic = critic
        self._pipeline = pipeline
        self._sandbox = sandbox
        self._policy = policy
        self._strangeness = _measuring(pipeline, known_states)

    def assess(self, requests: Sequence[SelectRequest]) -> list[Assessed]:
        """Filter and score.

        Raises:
            ParameterError: any request is malformed.
        """
        read = [read_request(request) for request in requests]
        for request in read:
            self._check_goal(request.goal)
        screened = [self._filter(request) for request in read]
        asked = [item for item in screened if item.kept]
        started = perf_counter()
        groups = iter(self._featurise(asked))
        features_s = (perf_counter() - started) / max(len(asked), 1)
        result = []
        for item in screened:
            timings = {"filter": item.filter_s}
            scored = None
            if item.kept:
                started = perf_counter()
                scored = self._score(item, next(groups))
                timings |= {"features": features_s, "score": perf_counter() - started}
            result.append(Assessed(item.request, item.filtered, item.needs_review, scored, timings))
        return result

    def strangeness(self, state: Mapping[str, Any], features: Floats) -> float | None:
        """How strange a state with these features [Ds] is; None where the model cannot tell."""
        content = np.asarray(features, dtype=np.float32).tobytes()
        # What the encoder reads of it: a whole text of any length would be remembered.
        return self._strangeness(tail_of("task", task_text(state)), content)

    def _filter(self, request: ReadRequest) -> _Screened:
        started = perf_counter()
        filtered = filter_dangerous(request.actions, language=request.language, policy=self._policy)
        review = needing_review(request.actions, policy=self._policy)
        out = {item.index for item in filtered}
        kept = [index for index in range(len(request.actions)) if index not in out]
        return _Screened(request, filtered, review, kept, perf_counter() - started)

    def _featurise(self, screened: Sequence[_Screened]) -> list[DecisionGroup]:
        if not screened:
            return []
        requests = [
            Request(item.request.state, [item.request.candidates[index] for index in item.kept])
            for item in screened
        ]
        return featurise_requests(self._pipeline, requests, sandbox=self._sandbox)

    def _score(self, item: _Screened, group: DecisionGroup) -> Scored:
        combination = self._manifest.combination
        relative = set_relative(group.signals)
        logits = attempt_logits(self._critic, group, relative)
        probability = success_probability(combination, logits)
        values = action_values(self._critic, group, relative)
        components = self._components(item.request, values, probability)
        goal = item.request.goal
        return Scored(
            request=item.request,
            kept=item.kept,
            filtered=item.filtered,
            needs_review=item.needs_review,
            scores=combine(combination, logits, group.signals, relative)
            if goal is None
            else self._under_goal(components, goal),
            probability=probability,
            value=np.asarray(values.sum(axis=1), dtype=np.float32),
            components=components,
            state=group.before[0],
            strangeness=self.strangeness(item.request.state, group.before[0]),
        )

    def _components(
        self, request: ReadRequest, values: Floats, probability: Floats
    ) -> list[dict[str, float]]:
        """Expected weighted reward by component; success comes from the calibrated head."""
        names = self._manifest.components
        rows = with_success(
            values,
            probability,
            components=names,
            weights=self._manifest.weights,
            success=success_component(request.language),
        )
        return [dict(zip(names, map(float, row), strict=True)) for row in rows]

    def _under_goal(
        self, components: Sequence[Mapping[str, float]], goal: Mapping[str, float]
    ) -> Floats:
        factors = {
            name: goal.get(name, weight) / (weight or 1.0)
            for name, weight in self._manifest.weights.items()
        }
        total = [sum(factors[name] * value for name, value in row.items()) for row in components]
        return np.asarray(total, dtype=np.float32)

    def _check_goal(self, goal: Mapping[str, float] | None) -> None:
        unknown = sorted((goal or {}).keys() - self._manifest.weights.keys())
        if unknown:
            known = ", ".join(self._manifest.components)
            raise ParameterError(f"goal: unknown component {unknown[0]}; there are {known}")


def _measuring(
    pipeline: FeaturePipeline, known_states: KnownStates | None
) -> Callable[[str, bytes], float | None]:
    # Not a method: what remembers itself is not let go of, and neither are the encoders it has.
    @lru_cache(maxsize=_MAX_KEPT)
    def measure(task: str, features: bytes) -> float | None:
        if known_states is None:
            return None
        (vector,) = pipeline.task_vectors([task])
        return known_states.strangeness(np.frombuffer(features, dtype=np.float32), vector)

    return measure
