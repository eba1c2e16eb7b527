"""What came of decisions, reported later: written to the log under the decision's id.

None reported: the decision keeps an unknown outcome. Late: it is joined when the log is read next.
Several: `trajectories.decision_log.settled` says which one counts. The same one twice, which its
id tells: it counts once.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from harness_core.errors import ParameterError
from harness_core.serving.decision_log import DecisionLog, LogTally, read_log
from harness_core.trajectories.decision_log import (
    LogEntry,
    LoggedDecision,
    LoggedOutcome,
    LoggedReview,
    settled,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionStory:
    """A decision and everything that was said of it later."""

    decision: LoggedDecision
    outcomes: tuple[LoggedOutcome, ...] = ()
    reviews: tuple[LoggedReview, ...] = ()

    @property
    def outcome(self) -> LoggedOutcome | None:
        """The outcome that counts."""
        return settled(self.outcomes)


@dataclass(slots=True)
class _Said:
    outcomes: dict[str, list[LoggedOutcome]] = field(default_factory=lambda: defaultdict(list))
    reviews: dict[str, list[LoggedReview]] = field(default_factory=lambda: defaultdict(list))


def report_outcome(
    log: DecisionLog | Path,
    decision_id: str,
    *,
    source: str,
    score: float | None = None,
    success: bool | None = None,
    outcome_id: str | None = None,
    reported_at: datetime | None = None,
) -> LoggedOutcome:
    """Append an outcome to a log and return it.

    Args:
        log: an open log, or the folder of one.
        decision_id: of any decision; whether it is known is not looked up.
        source: who says so, say `tests`, `user` or `merge`.
        score: in [0, 1].
        success: whether it did what was wanted. One of the two has to be given.
        outcome_id: names the report, so that telling it again changes nothing; by default a new id.
        reported_at: by default now.

    Raises:
        ParameterError: neither score nor success, or one of the values is out of bounds.
        DecisionLogError: it could not be written.
    """
    if score is None and success is None:
        raise ParameterError("an outcome needs a score in [0, 1] or a success (true or false)")
    try:
        outcome = LoggedOutcome(
            outcome_id=outcome_id or uuid.uuid4().hex,
            decision_id=decision_id,
            reported_at=reported_at or datetime.now(UTC),
            source=source,
            score=score,
            success=success,
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ParameterError(f"outcome: {where}: {first['msg']}") from error
    if isinstance(log, DecisionLog):
        log.append(outcome)
    else:
        with DecisionLog(log) as opened:
            opened.append(outcome)
    return outcome


def find_decision(
    folder: Path, decision_id: str, *, tally: LogTally | None = None
) -> DecisionStory | None:
    """One decision of a log with all that was said of it; None if it isn't there."""
    entries = (entry for entry in read_log(folder, tally=tally) if entry.decision_id == decision_id)
    return next(iter(stories(entries)), None)


def stories(entries: Iterable[LogEntry]) -> list[DecisionStory]:
    """The decisions among entries, in the order of time, each with what was said of it."""
    decisions: list[LoggedDecision] = []
    said = _Said()
    for entry in entries:
        if isinstance(entry, LoggedDecision):
            decisions.append(entry)
        elif isinstance(entry, LoggedOutcome):
            said.outcomes[entry.decision_id].append(entry)
        else:
            said.reviews[entry.decision_id].append(entry)
    return [
        DecisionStory(
            decision=item,
            outcomes=tuple(said.outcomes.get(item.decision_id, ())),
            reviews=tuple(said.reviews.get(item.decision_id, ())),
        )
        for item in sorted(decisions, key=lambda item: (item.decided_at, item.decision_id))
    ]
