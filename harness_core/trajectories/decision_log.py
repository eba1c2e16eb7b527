"""What a decision log holds: decisions, their outcomes and reviews, one JSON object a line.

The controller's own answer (`controller.decision.Decision`) stands inside as JSON, because this
module lies below it. Outcomes and reviews name the decision by its id and may come much later.
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from harness_core.records import Record
from harness_core.trajectories.schema import FiniteFloat, JsonObject, Usage

Mode = Literal["library", "shadow", "rerank", "filter", "off"]
"""Who asked: a program through the library, or the proxy in one of its modes."""


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
    usage: Usage = Usage()
    """Summed over all candidates."""


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
