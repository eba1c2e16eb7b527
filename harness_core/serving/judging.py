"""From candidates to an answer: which ones are given, why, and what the decision log is told."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Protocol

from harness_core.controller.decision import Decision, FilteredCandidate, GuidanceRetry, Reason
from harness_core.serving.config import ProxyMode
from harness_core.serving.conversation import Question
from harness_core.serving.deciding import Wish
from harness_core.serving.scorer import Scored, Scorer, Screened
from harness_core.trajectories.decision_log import LogEntry, LoggedDecision, LoggedRound
from harness_core.trajectories.schema import Usage


class DecisionSink(Protocol):
    """Where decisions are kept."""

    def append(self, entry: LogEntry) -> None:
        """Keep one entry; from any thread."""

    def close(self) -> None:
        """Keep what was appended, and end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is to be answered."""

    order: tuple[int, ...]
    """Candidates that may be answered, the best first; empty if none may."""
    reason: str
    decision: Decision | None = None
    failure: str | None = None
    propensity: float = 1.0
    n_denied: int = 0
    rules: tuple[str, ...] = ()
    """Rules that took candidates out."""
    review: bool = False
    """Whether a person has to agree before the first one is run."""
    wants_more: bool = False
    """Whether one more candidate would be worth its price."""

    @property
    def retry(self) -> GuidanceRetry | None:
        """With what to ask the agent's model again, where the controller would rather do that."""
        decision = self.decision
        if decision is None or decision.chosen_index is not None or not self.order:
            return None
        return decision.guidance

    @property
    def is_open(self) -> bool:
        """Whether the answer is the agent's own because there was no decision to follow."""
        return self.failure is not None or self.reason in _STOOD_ASIDE


_STOOD_ASIDE: Final = frozenset(
    {
        Reason.LOW_CONFIDENCE.value,
        Reason.OUT_OF_DISTRIBUTION.value,
        Reason.RISK_TOO_HIGH.value,
    }
)


async def watch(scorer: Scorer, wish: Wish, *, budget_s: float) -> Judged:
    """What the controller would choose, where the agent has its answer already.

    Without its choice nothing is said of the candidates: rules protect nobody any more.
    """
    scored = await scorer.score(wish, budget_s=budget_s)
    if scored.decision is None:
        return Judged(order=(), reason=scored.failure or "", failure=scored.failure)
    return _judged(scored, scored.decision, len(wish.question.candidates))


async def rank(scorer: Scorer, wish: Wish, *, budget_s: float) -> Judged:
    """Let the controller choose; without its choice, the first candidate that no rule denies."""
    scored = await scorer.score(wish, budget_s=budget_s)
    n = len(wish.question.candidates)
    if scored.decision is None:
        return _first_allowed(await scorer.screen(wish.question), n, failure=scored.failure)
    return _judged(scored, scored.decision, n)


def _judged(scored: Scored, decision: Decision, n: int) -> Judged:
    taken_out = {item.index: item.rules for item in decision.filtered}
    allowed = [index for index in range(n) if index not in taken_out]
    chosen = decision.chosen_index
    if chosen is not None:
        rest = [index for index in allowed if index != chosen]
        allowed = [chosen, *sorted(rest, key=lambda index: -(decision.scores[index] or 0.0))]
    return Judged(
        order=tuple(allowed),
        reason=decision.reason.value,
        decision=decision,
        propensity=1.0 if chosen is None else decision.propensity,
        n_denied=len(taken_out),
        rules=tuple(rule for rules in taken_out.values() for rule in rules),
        review=bool(allowed) and allowed[0] in {item.index for item in decision.needs_review},
        wants_more=scored.wants_more,
    )


async def sift(scorer: Scorer, question: Question) -> Judged:
    """Only the rules: the candidates that none denies, in their order."""
    n = len(question.candidates)
    screened = await scorer.screen(question)
    judged = _first_allowed(screened, n, failure=None)
    decision = Decision(
        decision_id=new_decision_id(),
        chosen_index=judged.order[0] if judged.order else None,
        scores=(None,) * n,
        component_scores=({},) * n,
        success_probability=None,
        reason=Reason(judged.reason),
        fallback=None,
        filtered=_named(screened.denied),
        needs_review=_named(screened.to_review),
        review=judged.review,
        propensity=1.0,
        model_digest="",
        feature_fingerprint="",
    )
    return replace(judged, decision=decision)


def _named(rules: Mapping[int, tuple[str, ...]]) -> tuple[FilteredCandidate, ...]:
    return tuple(FilteredCandidate(index=index, rules=rules[index]) for index in sorted(rules))


def _first_allowed(screened: Screened, n: int, *, failure: str | None) -> Judged:
    allowed = tuple(index for index in range(n) if index not in screened.denied)
    reason = failure or Reason.RULES_ONLY.value
    return Judged(
        order=allowed,
        reason=reason if allowed else Reason.ALL_FILTERED.value,
        failure=failure,
        n_denied=len(screened.denied),
        rules=tuple(rule for rules in screened.denied.values() for rule in rules),
        review=bool(allowed) and allowed[0] in screened.to_review,
    )


def new_decision_id() -> str:
    """A name for a decision, before it is made: the answer's headers carry it."""
    return uuid.uuid4().hex


def log_entry(
    judged: Judged,
    question: Question,
    *,
    decision_id: str,
    mode: ProxyMode,
    session_id: str | None,
    goal: Mapping[str, float] | None,
    answered: Sequence[int],
    usage: Mapping[str, int],
    n_asked: int,
    turned_down: Sequence[tuple[Judged, Question]] = (),
) -> LoggedDecision:
    """What is kept of one request.

    Args:
        judged: the choice.
        question: what it was made of.
        decision_id: its name.
        mode: of the request.
        session_id: run of the agent.
        goal: weights given with the request.
        answered: candidates that the agent got, the first one first.
        usage: tokens of all candidates together.
        n_asked: how many candidates the upstream was asked for.
        turned_down: other tries, and what they were made of.
    """
    decision = judged.decision
    named = decision and decision.model_copy(update={"decision_id": decision_id})
    first = answered[0] if answered else None
    return LoggedDecision(
        decision_id=decision_id,
        decided_at=datetime.now(UTC),
        session_id=session_id,
        mode=mode,
        state=question.state,
        candidates=question.candidates,
        goal=dict(goal) if goal else None,
        decision=named.model_dump(mode="json") if named else None,
        failure=None if named else (judged.failure or judged.reason),
        answered_index=first,
        propensity=None if first is None else judged.propensity,
        n_asked=n_asked,
        usage=Usage(
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
        ),
        turned_down=tuple(_turned_down(*one, decision_id) for one in turned_down),
    )


def _turned_down(judged: Judged, question: Question, decision_id: str) -> LoggedRound:
    named = judged.decision and judged.decision.model_copy(update={"decision_id": decision_id})
    return LoggedRound(
        candidates=question.candidates,
        decision=named.model_dump(mode="json") if named else None,
        failure=None if named else (judged.failure or judged.reason),
    )
