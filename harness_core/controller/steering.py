"""Which intervention comes next: the actor's choice among the legal ones, or handing in.

Handing in is decided by the calibrated probability that the best attempt so far succeeds: from the
fitted threshold on it is handed in, below it the actor chooses among the ways to go on. Without a
fitted threshold the actor decides that, too.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np

from harness_core.controller.decision import Decision, Reason
from harness_core.controller.manifest import ModelManifest
from harness_core.controller.scoring import Critic, attempt_logits
from harness_core.controller.stopping import Acceptance, best_so_far
from harness_core.errors import ModelError, ParameterError
from harness_core.features.batch import Flags, Floats
from harness_core.features.runtime import RunFeatures
from harness_core.trajectories.vocabulary import INTERVENTIONS, ActionKind
from harness_core.transitions.interventions import Situation

SteeringPolicy = Literal["model", "forced_check"]
"""`forced_check` is a baseline: whatever is about to be handed in is tested once before."""

_KINDS: Final = tuple(ActionKind)


class Actor(Critic, Protocol):
    """What steering needs of trained networks."""

    def policy(self, state: Floats, legal: Flags) -> Floats:
        """Log-probability of each intervention, [K, kinds], −∞ for an illegal one."""
        ...


class Choice(NamedTuple):
    """The next intervention and how likely it was to be chosen."""

    intervention: ActionKind
    reason: Reason
    propensity: float


def legal_here(situation: Situation, offered: Sequence[str] | None) -> tuple[ActionKind, ...]:
    """What makes sense in the situation and is offered by the harness, in the order of the words.

    Raises:
        ParameterError: something that is offered is no intervention.
    """
    if offered is None:
        return situation.legal()
    for word in offered:
        if word not in INTERVENTIONS:
            known = ", ".join(kind.value for kind in _KINDS if kind in INTERVENTIONS)
            raise ParameterError(f"legal: {word!r} is none of {known}")
    return tuple(kind for kind in situation.legal() if kind in offered)


def probabilities(
    actor: Actor, state: Floats, legal: Sequence[ActionKind]
) -> Mapping[ActionKind, float]:
    """The actor's probability of each legal intervention in one state [Ds]."""
    mask = np.zeros((1, len(_KINDS)), dtype=np.bool_)
    mask[0, [_KINDS.index(kind) for kind in legal]] = True
    policy = np.exp(actor.policy(state[None, :], mask))[0]
    return {kind: float(policy[_KINDS.index(kind)]) for kind in legal}


def choose(
    policy: Mapping[ActionKind, float],
    *,
    acceptance: Acceptance | None,
    success_probability: float | None,
    exploration: float,
    rng: np.random.Generator,
) -> Choice:
    """The next intervention among the legal ones, which `policy` names and is not empty."""
    if len(policy) == 1:
        return Choice(next(iter(policy)), Reason.ONLY_CANDIDATE, 1.0)
    open_to = dict(policy)
    reason = Reason.POLICY
    if ActionKind.SUBMIT in policy and acceptance is not None and success_probability is not None:
        if success_probability >= acceptance.accept_at:
            return Choice(ActionKind.SUBMIT, Reason.GOOD_ENOUGH, 1.0)
        del open_to[ActionKind.SUBMIT]
        reason = Reason.NOT_GOOD_ENOUGH
    best = max(open_to, key=lambda kind: open_to[kind])
    if not exploration or len(open_to) == 1:
        return Choice(best, reason, 1.0)
    chances = np.full(len(open_to), exploration / len(open_to))
    words = list(open_to)
    chances[words.index(best)] += 1.0 - exploration
    drawn = int(rng.choice(len(words), p=chances))
    found = words[drawn]
    reason = reason if found is best else Reason.EXPLORATION
    return Choice(found, reason, float(chances[drawn]))


def forced_check(chosen: ActionKind, *, is_tested: bool, legal: Sequence[ActionKind]) -> ActionKind:
    """The choice, but a test first where something untested is about to be handed in."""
    must_test = chosen is ActionKind.SUBMIT and ActionKind.TEST in legal and not is_tested
    return ActionKind.TEST if must_test else chosen


def steer(
    manifest: ModelManifest,
    actor: Actor,
    run: RunFeatures,
    offered: Sequence[str] | None,
    *,
    policy: SteeringPolicy,
    exploration: float,
    rng: np.random.Generator,
) -> Decision:
    """Decide on the next intervention of a run.

    Raises:
        ModelError: the model was made before there were interventions.
        ParameterError: something that is offered is no intervention.
    """
    if manifest.steering is None:
        raise ModelError("this model has learnt no interventions; train it again to steer by it")
    legal = legal_here(run.situation, offered)
    acceptance = manifest.steering.acceptance
    success = _success_probability(manifest, actor, run)
    chances = probabilities(actor, run.state, legal) if legal else {}
    choice: Choice | None = None
    if legal:
        choice = choose(
            chances,
            acceptance=acceptance,
            success_probability=success,
            exploration=exploration,
            rng=rng,
        )
        if policy == "forced_check":
            choice = _forced(choice, run.situation, legal)
    return Decision(
        decision_id=uuid.uuid4().hex,
        chosen_index=None if choice is None else legal.index(choice.intervention),
        scores=tuple(chances[kind] for kind in legal),
        component_scores=({},) * len(legal),
        success_probability=success,
        risk=None if success is None else 1.0 - success,
        reason=Reason.NOTHING_LEGAL if choice is None else choice.reason,
        fallback=None,
        filtered=(),
        propensity=1.0 if choice is None else choice.propensity,
        model_digest=manifest.digest,
        feature_fingerprint=manifest.feature_fingerprint,
        legal=legal,
        intervention=None if choice is None else choice.intervention,
    )


def _success_probability(manifest: ModelManifest, actor: Actor, run: RunFeatures) -> float | None:
    """Probability that the best attempt so far succeeds; None before there is any."""
    assert manifest.steering is not None
    acceptance = manifest.steering.acceptance
    if run.attempts is None or acceptance is None:
        return None
    logits = attempt_logits(actor, run.attempts)
    best = best_so_far(manifest.combination, logits, run.attempts)
    return float(acceptance.probability(best.signals))


def _forced(choice: Choice, situation: Situation, legal: Sequence[ActionKind]) -> Choice:
    chosen = forced_check(choice.intervention, is_tested=situation.is_tested, legal=legal)
    if chosen is choice.intervention:
        return choice
    return Choice(chosen, Reason.FORCED_CHECK, choice.propensity)
