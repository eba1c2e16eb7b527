"""The controller at run time: filter, score, reweight by goal, select, or stand aside."""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from harness_core.controller.combination import combine, success_probability
from harness_core.controller.decision import Decision, FilteredCandidate, Reason
from harness_core.controller.guard import filter_dangerous, needing_review
from harness_core.controller.guidance import (
    GuidanceChoice,
    GuidanceChooser,
    choose_guidance,
    load_guidance,
)
from harness_core.controller.manifest import POLICY_FILE, ModelManifest, read_manifest
from harness_core.controller.scoring import (
    Critic,
    action_values,
    attempt_logits,
    success_component,
    with_success,
)
from harness_core.controller.steering import Actor, SteeringPolicy, steer
from harness_core.errors import FingerprintMismatch, ModelError, ParameterError
from harness_core.features.batch import DecisionGroup, Floats
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.runtime import featurise_request, featurise_run
from harness_core.features.set_relative import set_relative
from harness_core.learners.checkpoint import load_critic
from harness_core.rewards.tool_policy import ALLOW_ALL, ToolPolicy, load_policy
from harness_core.sandbox.protocol import Sandbox
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import ActionKind, Language

_DEFAULT_KIND: Final = {Language.PYTHON: "code", Language.TOOLS: "tool_call"}


class Controller:
    """Decides between candidate actions with a trained model; needs no server and no network."""

    def __init__(
        self,
        *,
        manifest: ModelManifest,
        critic: Critic,
        pipeline: FeaturePipeline,
        sandbox: Sandbox | None = None,
        policy: ToolPolicy = ALLOW_ALL,
        guidance: GuidanceChooser | None = None,
        actor: Actor | None = None,
    ) -> None:
        if pipeline.schema.fingerprint != manifest.feature_fingerprint:
            raise FingerprintMismatch(
                expected=manifest.feature_fingerprint, found=pipeline.schema.fingerprint
            )
        self.manifest = manifest
        # Made of the whole manifest with all its tasks: too long a way for every decision.
        self._digest = manifest.digest
        self._critic = critic
        self._pipeline = pipeline
        self._sandbox = sandbox
        self._policy = policy
        self._guidance = guidance
        self._actor = actor

    @classmethod
    def load(cls, folder: Path, *, sandbox: Sandbox | None = None) -> Self:
        """Open a model folder.

        Args:
            folder: what training wrote or the registry fetched.
            sandbox: where programs are run for execution signals; without one they are unknown.

        Raises:
            ModelError: the folder is incomplete, damaged or of another format.
            FingerprintMismatch: this machine's encoder is not the one of training.
        """
        manifest = read_manifest(folder)
        has_policy = POLICY_FILE in manifest.files
        critic = load_critic(folder)
        pipeline = FeaturePipeline.load(folder / "pipeline")
        return cls(
            manifest=manifest,
            critic=critic,
            pipeline=pipeline,
            sandbox=sandbox,
            policy=load_policy(folder / POLICY_FILE) if has_policy else ALLOW_ALL,
            guidance=load_guidance(folder, pipeline.schema.state),
            actor=critic,
        )

    def select(
        self,
        state: Mapping[str, Any],
        candidates: Sequence[Mapping[str, Any]],
        goal: Mapping[str, float] | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> Decision:
        """Choose one of K candidates.

        Args:
            state: `description` and, where known, `language`, `entry_point`, `visible_checks`,
                `generated_checks`, `agent` {name, model} and `history` of earlier actions.
            candidates: each with `text` and, where known, `kind`, `result`, `arguments`.
            goal: weight by reward component, instead of the weights of training.
            rng: source of exploration; used only when the model explores.

        Raises:
            ParameterError: no candidate, or a goal names an unknown component.
        """
        if not candidates:
            raise ParameterError("candidates: expected at least one")
        language = _language(state)
        complete = [_complete(candidate, language) for candidate in candidates]
        actions = [_action(item) for item in complete]
        filtered = filter_dangerous(actions, language=language, policy=self._policy)
        review = needing_review(actions, policy=self._policy)
        kept = [i for i in range(len(complete)) if i not in {item.index for item in filtered}]
        if not kept:
            return self._nobody(len(complete), filtered, review)
        group = featurise_request(
            self._pipeline, dict(state), [complete[i] for i in kept], sandbox=self._sandbox
        )
        relative = set_relative(group.signals)
        logits = attempt_logits(self._critic, group, relative)
        probability = success_probability(self.manifest.combination, logits)
        components = self._components(group, relative, probability, language)
        scores = self._scores(logits, group, relative, components, goal)
        scored = _Scored(len(complete), kept, filtered, review, scores, probability, components)
        return self._decide(scored, rng)

    def guide(
        self, state: Mapping[str, Any], *, rng: np.random.Generator | None = None
    ) -> GuidanceChoice:
        """Choose a text to put before the agent's prompt, or none, before it proposes anything.

        Args:
            state: as for `select`; an earlier action that was guided says so in its `arguments`
                (`trajectories.guidance`).
            rng: source of exploration; used only when the model explores.

        Raises:
            ParameterError: a field of the state is no known word.
        """
        history = state.get("history") or ()
        features: Floats | None = None
        if self._guidance is not None and self._guidance.legal(history):
            features = featurise_run(self._pipeline, state, sandbox=self._sandbox).state
        return choose_guidance(
            self._guidance,
            features,
            history,
            exploration=self.manifest.controller.exploration,
            rng=rng,
            model_digest=self._digest,
            feature_fingerprint=self.manifest.feature_fingerprint,
        )

    def steer(
        self,
        state: Mapping[str, Any],
        legal: Sequence[str] | None = None,
        *,
        policy: SteeringPolicy = "model",
        rng: np.random.Generator | None = None,
    ) -> Decision:
        """Choose the next intervention of a run: draft, test, revise, retrieve, retry, submit, ….

        Args:
            state: as for `select`, with the present attempt in `history` and, where known,
                `tools`, `attempts_left` and earlier `attempts` (`features.runtime.featurise_run`).
            legal: what the harness can carry out now; by default whatever makes sense in the state.
            policy: `forced_check` is a baseline that tests once before anything is handed in.
            rng: source of exploration; used only when the model explores.

        Raises:
            ModelError: the model was made before there were interventions.
            ParameterError: a field of the state, or something in `legal`, is no known word.
        """
        if self._actor is None:
            raise ModelError("this model has no actor, so that there is nothing to steer by")
        run = featurise_run(self._pipeline, state, sandbox=self._sandbox)
        return steer(
            self.manifest,
            self._actor,
            run,
            legal,
            policy=policy,
            rng=rng or np.random.default_rng(),
        )

    def _components(
        self, group: DecisionGroup, relative: Floats, probability: Floats, language: Language
    ) -> list[dict[str, float]]:
        """Expected weighted reward by component; success comes from the calibrated head."""
        names = self.manifest.components
        values = with_success(
            action_values(self._critic, group, relative),
            probability,
            components=names,
            weights=self.manifest.weights,
            success=success_component(language),
        )
        return [dict(zip(names, map(float, row), strict=True)) for row in values]

    def _scores(
        self,
        logits: Floats,
        group: DecisionGroup,
        relative: Floats,
        components: Sequence[Mapping[str, float]],
        goal: Mapping[str, float] | None,
    ) -> Floats:
        if goal is None:
            return combine(self.manifest.combination, logits, group.signals, relative)
        unknown = sorted(goal.keys() - self.manifest.weights.keys())
        if unknown:
            known = ", ".join(self.manifest.components)
            raise ParameterError(f"goal: unknown component {unknown[0]}; there are {known}")
        factors = {
            name: goal.get(name, weight) / (weight or 1.0)
            for name, weight in self.manifest.weights.items()
        }
        total = [sum(factors[name] * value for name, value in row.items()) for row in components]
        return np.asarray(total, dtype=np.float32)

    def _decide(self, scored: "_Scored", rng: np.random.Generator | None) -> Decision:
        config = self.manifest.controller
        best = int(np.argmax(scored.scores))
        chosen: int | None = best
        reason, fallback, propensity = Reason.BEST_SCORE, None, 1.0
        if scored.probability[best] < config.min_success_probability:
            reason, fallback = Reason.LOW_CONFIDENCE, config.fallback
            chosen = 0 if config.fallback == "first" else None
        elif len(scored.kept) == 1:
            reason = Reason.ONLY_CANDIDATE
        elif config.exploration > 0:
            chosen, propensity = _explore(
                best, len(scored.kept), config.exploration, rng or np.random.default_rng()
            )
            reason = Reason.BEST_SCORE if chosen == best else Reason.EXPLORATION
        position = dict(zip(scored.kept, range(len(scored.kept)), strict=True))
        indices = range(scored.n_candidates)
        chosen_index = None if chosen is None else scored.kept[chosen]
        return Decision(
            decision_id=uuid.uuid4().hex,
            chosen_index=chosen_index,
            scores=tuple(
                float(scored.scores[position[i]]) if i in position else None for i in indices
            ),
            component_scores=tuple(
                scored.components[position[i]] if i in position else {} for i in indices
            ),
            success_probability=float(scored.probability[best]),
            reason=reason,
            fallback=fallback,
            filtered=scored.filtered,
            needs_review=scored.needs_review,
            review=chosen_index in {item.index for item in scored.needs_review},
            beyond_k_max=len(scored.kept) > self.manifest.k_max,
            propensity=propensity,
            model_digest=self._digest,
            feature_fingerprint=self.manifest.feature_fingerprint,
        )

    def _nobody(
        self,
        n_candidates: int,
        filtered: tuple[FilteredCandidate, ...],
        needs_review: tuple[FilteredCandidate, ...],
    ) -> Decision:
        return Decision(
            decision_id=uuid.uuid4().hex,
            chosen_index=None,
            scores=(None,) * n_candidates,
            component_scores=({},) * n_candidates,
            success_probability=None,
            reason=Reason.ALL_FILTERED,
            fallback=None,
            filtered=filtered,
            needs_review=needs_review,
            propensity=1.0,
            model_digest=self._digest,
            feature_fingerprint=self.manifest.feature_fingerprint,
        )


class _Scored(NamedTuple):
    """What is known of the candidates before one is chosen."""

    n_candidates: int
    kept: Sequence[int]
    filtered: tuple[FilteredCandidate, ...]
    needs_review: tuple[FilteredCandidate, ...]
    scores: Floats
    probability: Floats
    components: Sequence[dict[str, float]]


def _explore(
    best: int, n_allowed: int, exploration: float, rng: np.random.Generator
) -> tuple[int, float]:
    """ε-greedy choice and its probability."""
    probabilities: npt.NDArray[np.float64] = np.full(n_allowed, exploration / n_allowed)
    probabilities[best] += 1.0 - exploration
    chosen = int(rng.choice(n_allowed, p=probabilities))
    return chosen, float(probabilities[chosen])


def _language(state: Mapping[str, Any]) -> Language:
    name = state.get("language", Language.TEXT.value)
    try:
        return Language(name)
    except ValueError as error:
        known = ", ".join(language.value for language in Language)
        raise ParameterError(f"state.language: {name!r} is none of {known}") from error


def _complete(candidate: Mapping[str, Any], language: Language) -> dict[str, Any]:
    if not isinstance(candidate.get("text"), str):
        raise ParameterError("candidates: each needs a `text` (a string)")
    return {"kind": _DEFAULT_KIND.get(language, "message"), **candidate}


def _action(candidate: Mapping[str, Any]) -> Action:
    try:
        kind = ActionKind(candidate["kind"])
    except ValueError as error:
        known = ", ".join(word.value for word in ActionKind)
        raise ParameterError(
            f"candidates: kind {candidate['kind']!r} is none of {known}"
        ) from error
    return Action(kind=kind, text=candidate["text"], arguments=candidate.get("arguments", {}))
