"""The controller at run time: filter, score, reweight by goal, select, or stand aside."""

import asyncio
import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import numpy as np

from harness_core.controller.abstention import ALPHAS, Feasibility
from harness_core.controller.adaptive import expected_gain
from harness_core.controller.assessment import Assessed, Assessor
from harness_core.controller.compaction import plan_text
from harness_core.controller.config import ControllerConfig
from harness_core.controller.decision import Decision, FilteredCandidate
from harness_core.controller.guard import screen
from harness_core.controller.guidance import (
    GuidanceChoice,
    GuidanceChooser,
    choose_guidance,
    load_guidance,
)
from harness_core.controller.manifest import POLICY_FILE, ModelManifest, read_manifest
from harness_core.controller.request import SelectRequest, SteerRequest
from harness_core.controller.scoring import Critic
from harness_core.controller.selection import Identity, Limits, Rules, decide, nobody
from harness_core.controller.steering import Actor, SteeringPolicy, steer
from harness_core.controller.strangeness import KnownStates
from harness_core.errors import FingerprintMismatch, ModelError
from harness_core.features.batch import Floats
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.runtime import featurise_run, featurise_runs
from harness_core.learners.checkpoint import load_critic
from harness_core.rewards.tool_policy import ALLOW_ALL, ToolPolicy, load_policy
from harness_core.sandbox.protocol import Sandbox

Plan = Sequence[Mapping[str, Any] | str] | str


class Controller:
    """Decides between candidate actions with a trained model; needs no server and no network.

    Any number of threads may ask one controller at once.
    """

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
        known_states: KnownStates | None = None,
        version: str | None = None,
    ) -> None:
        if pipeline.schema.fingerprint != manifest.feature_fingerprint:
            raise FingerprintMismatch(
                expected=manifest.feature_fingerprint, found=pipeline.schema.fingerprint
            )
        self.manifest = manifest
        # Made of the whole manifest with all its tasks: too long a way for every decision.
        who = Identity(manifest.digest, version, manifest.feature_fingerprint, manifest.k_max)
        limits = Limits.of(manifest.controller, manifest.abstention)
        self._rules = Rules(manifest.controller, limits, guidance, who)
        self._critic = critic
        self._pipeline = pipeline
        self._sandbox = sandbox
        self._policy = policy
        self._actor = actor
        self._assessor = Assessor(
            manifest=manifest,
            critic=critic,
            pipeline=pipeline,
            sandbox=sandbox,
            policy=policy,
            known_states=known_states,
        )

    @classmethod
    def load(
        cls, folder: Path, *, sandbox: Sandbox | None = None, version: str | None = None
    ) -> Self:
        """Open a model folder.

        Args:
            folder: what training wrote or the registry fetched.
            sandbox: where programs are run for execution signals; without one they are unknown.
            version: of the model in the registry, to be named in decisions.

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
            known_states=KnownStates.load(folder, width=len(pipeline.schema.state)),
            version=version,
        )

    def with_config(self, config: ControllerConfig) -> Self:
        """The same model under other parameters: another risk, fallback or exploration.

        Raises:
            ModelError: it asks for abstention that the model was not calibrated for.
        """
        limits = Limits.of(config, self.manifest.abstention)
        other = copy.copy(self)
        other._rules = self._rules._replace(config=config, limits=limits)
        return other

    @property
    def config(self) -> ControllerConfig:
        """The parameters that decide; those of training unless `with_config` gave others."""
        return self._rules.config

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
        return self.select_many([SelectRequest(state, candidates, goal)], rng=rng)[0]

    async def aselect(
        self,
        state: Mapping[str, Any],
        candidates: Sequence[Mapping[str, Any]],
        goal: Mapping[str, float] | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> Decision:
        """`select` in a worker thread, so that the event loop goes on meanwhile."""
        return await asyncio.to_thread(self.select, state, candidates, goal, rng=rng)

    def select_many(
        self, requests: Sequence[SelectRequest], *, rng: np.random.Generator | None = None
    ) -> list[Decision]:
        """Decide on several requests with one pass of features and encoders.

        Each decision is that of `select` alone, up to rounding of the last digits.

        Raises:
            ParameterError: any request is malformed; then none is decided.
        """
        return [self._decide(item, rng) for item in self._assessor.assess(requests)]

    def screen(
        self, candidates: Sequence[Mapping[str, Any]], *, language: str
    ) -> tuple[FilteredCandidate, ...]:
        """The hard filter alone, under the model's tool policy (`guard.screen`)."""
        return screen(candidates, language=language, policy=self._policy)

    def abstention_table(self, alphas: Sequence[float] = ALPHAS) -> tuple[Feasibility, ...]:
        """What each risk costs: accepted share, bound, and whether it can be promised at all.

        Raises:
            ModelError: the model was trained before that was calibrated.
        """
        if self.manifest.abstention is None:
            raise ModelError("this model knows no risk curve; train it again")
        return self.manifest.abstention.table(alphas, confidence=self.config.confidence)

    def expected_gain(self, decision: Decision) -> float:
        """Gain in probability of success that one more candidate should bring, in [0, 1]."""
        known = [value for value in decision.success_probabilities if value is not None]
        abstention = self.manifest.abstention
        return expected_gain(
            known,
            best=decision.success_probability or 0.0,
            prior=() if abstention is None else abstention.spread,
        )

    def wants_more(self, decision: Decision, *, price: float | None = None) -> bool:
        """Whether one more candidate than those of a decision should be asked for.

        Never beyond `k_max`, and not where its expected gain is below its price: `price`, in
        probability of success, else `candidate_price` of the parameters.
        """
        if len(decision.scores) >= self.manifest.k_max:
            return False
        gain = self.expected_gain(decision)
        return gain > 0 and gain >= (self.config.candidate_price if price is None else price)

    def prefer_rewrite(self, state: Mapping[str, Any], plan: Plan, rewrite: Plan) -> bool:
        """Whether a plan that somebody rewrote is better, as the critic sees it.

        Only a strictly higher score counts, and never a rewrite that the hard filter takes out.
        """
        both = [{"kind": "message", "text": plan_text(item)} for item in (plan, rewrite)]
        before, after = self.select(state, both).scores
        return after is not None and (before is None or after > before)

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
        if self._rules.guidance is not None and self._rules.guidance.legal(history):
            features = featurise_run(self._pipeline, state, sandbox=self._sandbox).state
        return choose_guidance(
            self._rules.guidance,
            features,
            history,
            exploration=self.config.exploration,
            rng=rng,
            model_digest=self._rules.who.model_digest,
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
        return self.steer_many([SteerRequest(state, legal)], policy=policy, rng=rng)[0]

    async def asteer(
        self,
        state: Mapping[str, Any],
        legal: Sequence[str] | None = None,
        *,
        policy: SteeringPolicy = "model",
        rng: np.random.Generator | None = None,
    ) -> Decision:
        """`steer` in a worker thread, so that the event loop goes on meanwhile."""
        return await asyncio.to_thread(self.steer, state, legal, policy=policy, rng=rng)

    def steer_many(
        self,
        requests: Sequence[SteerRequest],
        *,
        policy: SteeringPolicy = "model",
        rng: np.random.Generator | None = None,
    ) -> list[Decision]:
        """Decide for several runs with one pass of features and encoders.

        Each decision is that of `steer` alone, up to rounding of the last digits.

        Raises:
            ModelError: as `steer`.
            ParameterError: any request is malformed; then none is decided.
        """
        actor = self._actor
        if actor is None:
            raise ModelError("this model has no actor, so that there is nothing to steer by")
        drawn = rng or np.random.default_rng()
        states = [request.state for request in requests]
        runs = featurise_runs(self._pipeline, states, sandbox=self._sandbox)
        return [
            steer(
                self.manifest,
                actor,
                run,
                request.legal,
                policy=policy,
                exploration=self.config.exploration,
                rng=drawn,
            ).model_copy(
                update={
                    "model_version": self._rules.who.model_version,
                    "out_of_distribution": self._assessor.strangeness(request.state, run.state),
                    "ran_programs": self._sandbox is not None,
                }
            )
            for request, run in zip(requests, runs, strict=True)
        ]

    def _decide(self, item: Assessed, rng: np.random.Generator | None) -> Decision:
        started = perf_counter()
        if item.scored is None:
            who = self._rules.who
            decision = nobody(item.request, item.filtered, item.needs_review, who=who)
        else:
            decision = decide(item.scored, self._rules, rng)
        timings = {**item.timings_s, "decide": perf_counter() - started}
        told = {"ran_programs": self._sandbox is not None, "timings_s": timings}
        return decision.model_copy(update=told)
