"""Which decisions wait for a person, derived from the decision log alone.

A decision waits because the controller left it to a person (`abstained`), because every candidate
was filtered (`all_filtered`), because the tool policy wants agreement (`policy`), or because a
filtered candidate may be appealed (`filtered`). The first three wait for a verdict, and an appeal
is none; the last leaves with any review. The oldest comes first.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self

import orjson
from pydantic import ConfigDict, ValidationError

from harness_core.controller.decision import FilteredCandidate
from harness_core.evaluation.blind import exact_interval
from harness_core.records import Record
from harness_core.trajectories.decision_log import LogEntry, LoggedDecision, LoggedReview

Cause = Literal["abstained", "all_filtered", "policy", "filtered"]
CAUSES: Final[tuple[Cause, ...]] = ("abstained", "all_filtered", "policy", "filtered")
FALLBACKS: Final = frozenset({"review", "abstain"})
"""The controller's fallbacks that leave the decision to a person."""


class SeenDecision(Record):
    """What review reads of a controller's `Decision`, whichever version of it was logged."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    chosen_index: int | None
    scores: tuple[float | None, ...] = ()
    component_scores: tuple[dict[str, float], ...] = ()
    success_probability: float | None = None
    success_probabilities: tuple[float | None, ...] = ()
    risk: float | None = None
    out_of_distribution: float | None = None
    model_version: str | None = None
    reason: str = ""
    fallback: str | None = None
    filtered: tuple[FilteredCandidate, ...] = ()
    needs_review: tuple[FilteredCandidate, ...] = ()
    review: bool = False
    intervention: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewItem:
    """A decision that a person may look at."""

    logged: LoggedDecision
    decision: SeenDecision
    causes: tuple[Cause, ...]

    @property
    def decision_id(self) -> str:
        """As in the log."""
        return self.logged.decision_id

    @property
    def filtered(self) -> dict[int, tuple[str, ...]]:
        """Index of each filtered candidate → rules that it broke."""
        return {one.index: one.rules for one in self.decision.filtered}

    @property
    def suggested_index(self) -> int | None:
        """What approval means: the controller's pick, else what the agent got, else the best.

        None if all candidates are filtered.
        """
        for index in (self.decision.chosen_index, self.logged.answered_index):
            if index is not None and index in self.allowed:
                return index
        scores = dict(enumerate(self.decision.scores))
        return max(self.allowed, key=lambda index: (scores.get(index) or 0.0, -index), default=None)

    @property
    def allowed(self) -> tuple[int, ...]:
        """Candidates that were not filtered."""
        return tuple(i for i in range(len(self.logged.candidates)) if i not in self.filtered)

    @property
    def needs_verdict(self) -> bool:
        """Whether more than an appeal is asked for."""
        return bool(set(self.causes) - {"filtered"})

    def is_settled_by(self, reviews: Iterable[LoggedReview]) -> bool:
        """Whether nothing is left to say after these reviews."""
        return any(not self.needs_more_than(review) for review in reviews)

    def needs_more_than(self, review: LoggedReview) -> bool:
        """An appeal answers the filter and not the request, unless all candidates were filtered."""
        return review.verdict == "appeal" and bool({"abstained", "policy"} & set(self.causes))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCount:
    """How a rule of the filter fares with reviewers."""

    rule: str
    n_filtered: int
    """Candidates that it took out, in the whole log."""
    n_looked_at: int
    """Those of them whose decision was reviewed."""
    n_appealed: int
    """Those of them that a reviewer found harmless."""

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95 % interval of the share of false positives among those looked at."""
        return exact_interval(self.n_appealed, self.n_looked_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The state of review, as one reading of the log gives it. Nobody changes one that is shown."""

    waiting: Mapping[str, ReviewItem] = field(default_factory=dict)
    """By decision id, oldest first."""
    reviews: Mapping[str, Sequence[LoggedReview]] = field(default_factory=dict)
    """By decision id, in the order in which they were read."""
    items: Mapping[str, ReviewItem] = field(default_factory=dict)
    """Decisions that needed or could use a person, settled or not; oldest first."""
    n_decisions: int = 0
    n_unreadable: int = 0
    """Decisions of a form that is not understood; counted, and never shown."""

    def with_review(self, review: LoggedReview) -> Self:
        """The state after one more review."""
        name = review.decision_id
        reviews = (*self.reviews.get(name, ()), review)
        waiting = dict(self.waiting)
        if name in waiting and waiting[name].is_settled_by(reviews):
            del waiting[name]
        return replace(self, waiting=waiting, reviews={**self.reviews, name: reviews})

    def waiting_for(self, cause: Cause | None) -> list[ReviewItem]:
        """What waits, or the part of it that waits for one cause; oldest first."""
        return [item for item in self.waiting.values() if cause is None or cause in item.causes]

    def after(self, decision_id: str, cause: Cause | None) -> ReviewItem | None:
        """The next one behind a decision, from the front again behind the last."""
        found = self.waiting_for(cause)
        ids = [item.decision_id for item in found]
        if decision_id in ids:
            position = ids.index(decision_id)
            found = [*found[position + 1 :], *found[:position]]
        return found[0] if found else None

    def rule_counts(self) -> list[RuleCount]:
        """Every rule that took a candidate out, most false positives first."""
        filtered, looked_at, appealed = Counter[str](), Counter[str](), Counter[str]()
        for decision_id, item in self.items.items():
            reviews = self.reviews.get(decision_id, ())
            appeals = {one.chosen_index for one in reviews if one.verdict == "appeal"}
            # An appeal alone says nothing of the other candidates until the decision is settled.
            is_settled = item.is_settled_by(reviews)
            for index, rules in item.filtered.items():
                filtered.update(rules)
                if index in appeals:
                    appealed.update(rules)
                if index in appeals or is_settled:
                    looked_at.update(rules)
        counts = [
            RuleCount(
                rule=rule,
                n_filtered=n,
                n_looked_at=looked_at[rule],
                n_appealed=appealed[rule],
            )
            for rule, n in filtered.items()
        ]
        return sorted(counts, key=lambda one: (-one.n_appealed, -one.n_filtered, one.rule))


def read_backlog(entries: Iterable[LogEntry]) -> Backlog:
    """The state of review after these entries, in whatever order the segments gave them."""
    reviews: dict[str, list[LoggedReview]] = defaultdict(list)
    found: dict[str, ReviewItem] = {}
    n_decisions = n_unreadable = 0
    for entry in entries:
        if isinstance(entry, LoggedReview):
            reviews[entry.decision_id].append(entry)
        elif isinstance(entry, LoggedDecision):
            n_decisions += 1
            try:
                item = as_item(entry)
            except ValidationError:
                n_unreadable += 1
                continue
            if item is not None:
                found.setdefault(item.decision_id, item)
    in_order = sorted(found.values(), key=lambda one: (one.logged.decided_at, one.decision_id))
    items = {item.decision_id: item for item in in_order}
    return Backlog(
        waiting={
            name: item
            for name, item in items.items()
            if not item.is_settled_by(reviews.get(name, ()))
        },
        reviews=dict(reviews),
        items=items,
        n_decisions=n_decisions,
        n_unreadable=n_unreadable,
    )


def as_item(logged: LoggedDecision) -> ReviewItem | None:
    """The decision as something to review; None if no person is needed.

    Raises:
        ValidationError: what the controller answered is of a form that is not understood.
    """
    if logged.decision is None:
        return None
    # Through JSON, because strict validation of Python values takes no list for a tuple.
    decision = SeenDecision.model_validate_json(orjson.dumps(logged.decision))
    causes = _causes(decision, n_candidates=len(logged.candidates))
    return ReviewItem(logged=logged, decision=decision, causes=causes) if causes else None


def _causes(decision: SeenDecision, *, n_candidates: int) -> tuple[Cause, ...]:
    n_filtered = len({one.index for one in decision.filtered if one.index < n_candidates})
    holds: Mapping[Cause, bool] = {
        "abstained": decision.chosen_index is None and decision.fallback in FALLBACKS,
        "all_filtered": 0 < n_candidates == n_filtered,
        "policy": decision.review,
        "filtered": 0 < n_filtered < n_candidates,
    }
    return tuple(cause for cause in CAUSES if holds[cause])
