"""From scores to a decision: the best candidate, an explored one, or the fallback."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness_core.controller.abstention import Abstention
from harness_core.controller.config import ControllerConfig
from harness_core.controller.decision import Decision, FilteredCandidate, GuidanceRetry, Reason
from harness_core.controller.fallback import guidance_retry, most_conservative
from harness_core.controller.guidance import GuidanceChooser
from harness_core.controller.request import ReadRequest
from harness_core.errors import ModelError
from harness_core.features.batch import Floats


class Identity(NamedTuple):
    """Who decides."""

    model_digest: str
    model_version: str | None
    feature_fingerprint: str
    k_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds that a pick must keep to be accepted; None where there is none."""

    min_probability: float
    above_probability: float | None = None
    is_infeasible: bool = False
    """No threshold reaches the risk that is asked for."""
    min_value: float | None = None
    max_strangeness: float = 1.0

    @classmethod
    def of(cls, config: ControllerConfig, abstention: Abstention | None) -> "Limits":
        """The bounds of a configuration for a model.

        Raises:
            ModelError: the model was made before it could be calibrated for abstention.
        """
        simple = cls(
            min_probability=config.min_success_probability, max_strangeness=config.max_strangeness
        )
        if config.abstention == "none":
            return simple
        if abstention is None:
            raise ModelError(
                f"controller.abstention is {config.abstention}, and this model was trained before "
                "that was calibrated; train it again, or set it to none"
            )
        if config.abstention == "mean_share":
            return cls(
                min_probability=simple.min_probability,
                min_value=_share_of(abstention.mean_value, config.mean_share),
                is_infeasible=abstention.mean_value is None,
                max_strangeness=simple.max_strangeness,
            )
        point = (
            abstention.with_confidence(config.max_risk, confidence=config.confidence)
            if config.abstention == "risk"
            else abstention.on_average(config.max_risk)
        )
        return cls(
            min_probability=simple.min_probability,
            above_probability=None if point is None else point.threshold,
            is_infeasible=point is None,
            max_strangeness=simple.max_strangeness,
        )


def _share_of(mean: float | None, share: float) -> float | None:
    """As much below the mean as the share says; for a positive mean that is share × mean."""
    return None if mean is None else mean - (1.0 - share) * abs(mean)


class Rules(NamedTuple):
    """How a controller decides; all of it is fixed before any request comes."""

    config: ControllerConfig
    limits: Limits
    guidance: GuidanceChooser | None
    who: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What is known of the candidates before one is chosen; K of them passed the filter."""

    request: ReadRequest
    kept: Sequence[int]  # [K] places among all candidates
    filtered: tuple[FilteredCandidate, ...]
    needs_review: tuple[FilteredCandidate, ...]
    scores: Floats  # [K]
    probability: Floats  # [K] calibrated, of success
    value: Floats  # [K] Q, summed over components
    components: Sequence[dict[str, float]]
    state: Floats  # [Ds]
    strangeness: float | None


class _Objection(NamedTuple):
    reason: Reason
    threshold: float | None


class _Choice(NamedTuple):
    place: int | None  # among the K
    reason: Reason
    fallback: str | None = None
    propensity: float = 1.0
    threshold: float | None = None
    guidance: GuidanceRetry | None = None


def decide(scored: Scored, rules: Rules, rng: np.random.Generator | None) -> Decision:
    """Choose among the candidates that passed the hard filter, of which there is at least one."""
    who = rules.who
    best = int(np.argmax(scored.scores))
    objection = _objection(scored, best, rules.limits)
    if objection is not None:
        choice = _stand_aside(scored, objection, rules)
    elif len(scored.kept) == 1:
        choice = _Choice(best, Reason.ONLY_CANDIDATE)
    elif rules.config.exploration > 0:
        choice = _explored(best, len(scored.kept), rules.config.exploration, rng)
    else:
        choice = _Choice(best, Reason.BEST_SCORE)
    judged = best if choice.place is None else choice.place
    chosen_index = None if choice.place is None else scored.kept[choice.place]
    return Decision(
        decision_id=uuid.uuid4().hex,
        chosen_index=chosen_index,
        scores=_by_candidate(scored, scored.scores),
        component_scores=_components(scored),
        success_probability=float(scored.probability[best]),
        success_probabilities=_by_candidate(scored, scored.probability),
        risk=1.0 - float(scored.probability[judged]),
        out_of_distribution=scored.strangeness,
        reason=choice.reason,
        fallback=choice.fallback,
        threshold=choice.threshold,
        guidance=choice.guidance,
        filtered=scored.filtered,
        needs_review=scored.needs_review,
        review=chosen_index in {item.index for item in scored.needs_review},
        beyond_k_max=len(scored.kept) > who.k_max,
        propensity=choice.propensity,
        model_digest=who.model_digest,
        model_version=who.model_version,
        feature_fingerprint=who.feature_fingerprint,
    )


def nobody(
    request: ReadRequest,
    filtered: tuple[FilteredCandidate, ...],
    needs_review: tuple[FilteredCandidate, ...],
    *,
    who: Identity,
) -> Decision:
    """The decision where the hard filter takes all candidates out."""
    n_candidates = len(request.candidates)
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
        model_digest=who.model_digest,
        model_version=who.model_version,
        feature_fingerprint=who.feature_fingerprint,
    )


def _objection(scored: Scored, best: int, limits: Limits) -> _Objection | None:
    """Why the best candidate is not accepted; None where it is."""
    probability = float(scored.probability[best])
    strangeness = scored.strangeness
    if strangeness is not None and strangeness > limits.max_strangeness:
        return _Objection(Reason.OUT_OF_DISTRIBUTION, limits.max_strangeness)
    if limits.is_infeasible:
        return _Objection(Reason.RISK_TOO_HIGH, None)
    if limits.above_probability is not None and probability <= limits.above_probability:
        return _Objection(Reason.RISK_TOO_HIGH, limits.above_probability)
    if limits.min_value is not None and float(scored.value[best]) < limits.min_value:
        return _Objection(Reason.LOW_CONFIDENCE, limits.min_value)
    if probability < limits.min_probability:
        return _Objection(Reason.LOW_CONFIDENCE, limits.min_probability)
    return None


def _stand_aside(scored: Scored, objection: _Objection, rules: Rules) -> _Choice:
    reason, threshold = objection
    fallback: str = rules.config.fallback
    if fallback == "guidance":
        retry = guidance_retry(
            rules.guidance,
            scored.state,
            scored.request.state.get("history") or (),
            max_rounds=rules.config.max_guidance_rounds,
        )
        if retry is not None:
            return _Choice(None, reason, fallback, threshold=threshold, guidance=retry)
        fallback = "first"
    place: int | None = None
    if fallback == "first":
        place = 0
    elif fallback == "conservative":
        asked = {item.index for item in scored.needs_review}
        place = most_conservative(
            [scored.request.actions[index] for index in scored.kept],
            needs_review=[index in asked for index in scored.kept],
        )
    return _Choice(place, reason, fallback, threshold=threshold)


def _explored(
    best: int, n_allowed: int, exploration: float, rng: np.random.Generator | None
) -> _Choice:
    """ε-greedy choice and its probability."""
    probabilities: npt.NDArray[np.float64] = np.full(n_allowed, exploration / n_allowed)
    probabilities[best] += 1.0 - exploration
    chosen = int((rng or np.random.default_rng()).choice(n_allowed, p=probabilities))
    reason = Reason.BEST_SCORE if chosen == best else Reason.EXPLORATION
    return _Choice(chosen, reason, propensity=float(probabilities[chosen]))


def _by_candidate(scored: Scored, values: Floats) -> tuple[float | None, ...]:
    """Values [K] by candidate; None for one that was filtered."""
    found = dict(zip(scored.kept, map(float, values), strict=True))
    return tuple(found.get(index) for index in range(len(scored.request.candidates)))


def _components(scored: Scored) -> tuple[dict[str, float], ...]:
    found: Mapping[int, dict[str, float]] = dict(zip(scored.kept, scored.components, strict=True))
    return tuple(found.get(index, {}) for index in range(len(scored.request.candidates)))
