"""What a decision log holds: decisions, their outcomes and reviews, one JSON object a line.

The controller's own answer (`controller.decision.Decision`) stands inside as JSON, because this
module lies below it. Outcomes and reviews name the decision by its id and may come much later.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from harness_core.records import Record
from harness_core.trajectories.schema import FiniteFloat, JsonObject, Usage

Mode = Literal["library", "shadow", "rerank", "filter", "off"]
"""Who asked: a program through the library, or the proxy in one of its modes."""


class LoggedRound(Record):
    """Candidates of one try, from which nothing was answered."""

    candidates: tuple[JsonObject, ...]
    """Those of a try under guidance say so in their arguments."""
    decision: JsonObject | None
    """What the controller said of them; None if nothing."""
    failure: str | None = None
    """Why it said nothing."""


class LoggedDecision(Record):
    """One request to the controller, and what became of it."""

    record: Literal["decision"] = "decision"
    format_version: Literal[1] = 1
    decision_id: str = Field(min_length=1)
    decided_at: datetime
    """UTC."""
    session_id: str | None = None
    """The run of the agent that the request belongs to, where the client names one."""
    mode: Mode
    state: JsonObject
    """As given to `Controller.select`."""
    candidates: tuple[JsonObject, ...]
    """As given to `Controller.select`, in the order in which they arrived."""
    goal: dict[str, float] | None = None
    decision: JsonObject | None
    """The controller's `Decision` as JSON; None if it gave none."""
    failure: str | None = None
    """Why it gave none, as one word: `timeout`, `no_model`, `scorer_error`, …"""
    answered_index: int | None = Field(default=None, ge=0)
    """Candidate that the agent got: the first in shadow, whatever was chosen; None for none."""
    propensity: float | None = Field(default=None, ge=0, le=1)
    """Probability with which that one was answered."""
    n_asked: int | None = Field(default=None, ge=1)
    """How many candidates the agent's model was asked for, those that were given up included."""
    usage: Usage = Usage()
    """Summed over all candidates."""
    turned_down: tuple[LoggedRound, ...] = ()
    """The other tries of the same request, in the order in which they took place: those after which
    the controller had the agent's model asked again, and a last one that no rule left anything of.
    `n_asked` and `usage` count theirs too."""


class LoggedOutcome(Record):
    """What came of a decision, said later: a rating, a test result, a merge."""

    record: Literal["outcome"] = "outcome"
    format_version: Literal[1] = 1
    outcome_id: str = Field(min_length=1)
    decision_id: str = Field(min_length=1)
    reported_at: datetime
    """UTC."""
    source: str = Field(min_length=1)
    """Who says so: `tests`, `user`, `merge`, …"""
    score: FiniteFloat | None = Field(default=None, ge=0, le=1)
    success: bool | None = None


class LoggedReview(Record):
    """What a person said of a decision that the controller left to them."""

    record: Literal["review"] = "review"
    format_version: Literal[1] = 1
    review_id: str = Field(min_length=1)
    decision_id: str = Field(min_length=1)
    reviewed_at: datetime
    """UTC."""
    reviewer: str
    verdict: Literal["approve", "choose", "correct", "appeal", "reject"]
    """`appeal` says that a filtered candidate was no danger; `chosen_index` names it."""
    chosen_index: int | None = Field(default=None, ge=0)
    correction: str | None = None
    """Text that the person wrote instead of every candidate."""
    note: str = ""


LogEntry = LoggedDecision | LoggedOutcome | LoggedReview

OUTCOME_SOURCES: Final = ("tests", "merge", "user")
"""Whom to believe first where several sources speak of one decision; all others come after."""

_READER: Final[TypeAdapter[LogEntry]] = TypeAdapter(
    Annotated[LogEntry, Field(discriminator="record")]
)


def parse_entry(line: bytes) -> LogEntry:
    """The entry of one line, which holds JSON of bounded size and depth.

    Raises:
        pydantic.ValidationError: it is no such entry.
    """
    return _READER.validate_json(line)


def entry_key(entry: LogEntry) -> tuple[str, str]:
    """What names an entry: two entries with one key are the same entry told twice."""
    if isinstance(entry, LoggedDecision):
        return entry.record, entry.decision_id
    if isinstance(entry, LoggedOutcome):
        return entry.record, entry.outcome_id
    return entry.record, entry.review_id


def settled(outcomes: Iterable[LoggedOutcome]) -> LoggedOutcome | None:
    """The one outcome that counts of those of one decision; None of none.

    Sources in the order of `OUTCOME_SOURCES` come first, then the latest report. Score and success
    are settled each for itself, so that a rating doesn't erase what the tests said, nor the other
    way round.
    """
    latest_first = sorted(outcomes, key=lambda item: (item.reported_at, item.outcome_id))[::-1]
    ordered = sorted(latest_first, key=lambda item: _rank(item.source))
    if not ordered:
        return None
    scores = [item.score for item in ordered if item.score is not None]
    successes = [item.success for item in ordered if item.success is not None]
    return ordered[0].model_copy(
        update={
            "score": scores[0] if scores else None,
            "success": successes[0] if successes else None,
        }
    )


def _rank(source: str) -> int:
    known = source in OUTCOME_SOURCES
    return OUTCOME_SOURCES.index(source) if known else len(OUTCOME_SOURCES)
