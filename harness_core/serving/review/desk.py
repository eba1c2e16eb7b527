"""Where reviews are taken in: the backlog kept up to date, and one review a decision by default."""

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from harness_core.serving.decision_log import DecisionLog, read_log
from harness_core.serving.log_files import segments
from harness_core.serving.review.queue import Backlog, ReviewItem, read_backlog
from harness_core.trajectories.decision_log import LogEntry, LoggedReview

Verdict = Literal["approve", "choose", "correct", "appeal", "reject"]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
_READING_SHARE: Final = 1 / 20
"""Most of the time that reading a long log anew may take."""
_QUICK_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewLog:
    """What review needs of a decision log."""

    read: Callable[[], Iterable[LogEntry]]
    append: Callable[[LoggedReview], Any]
    """Returns once the review is safe; raises `DecisionLogError` if it is not."""
    signature: Callable[[], object]
    """Something that differs whenever the log has grown."""

    @classmethod
    def of_folder(cls, folder: Path, log: DecisionLog) -> Self:
        """The log in a folder, which others may write to meanwhile."""
        return cls(
            read=lambda: read_log(folder),
            append=log.append,
            signature=lambda: tuple(_size(path) for path in segments(folder)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person said of a decision."""

    verdict: Verdict
    reviewer: str
    chosen_index: int | None = None
    correction: str | None = None
    note: str = ""


class WrongAnswer(Exception):
    """The answer cannot be taken; the message says what is missing."""


class AlreadyReviewed(Exception):
    """Somebody was faster; the earlier reviews stand in the log."""

    def __init__(self, reviews: Iterable[LoggedReview]) -> None:
        super().__init__("already reviewed")
        self.reviews = tuple(reviews)


class Desk:
    """The backlog of one log, for many threads."""

    def __init__(self, log: ReviewLog, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._backlog = Backlog()
        self._signature: object = None
        self._read_at = 0.0
        self._took_s = 0.0

    def backlog(self) -> Backlog:
        """The state of review; of a very long log it may be behind by twenty times its reading."""
        with self._lock:
            self._refresh(at_once=False)
            return self._backlog

    def find(self, decision_id: str) -> ReviewItem | None:
        """A decision that needs or needed a person; None for any other."""
        return self.backlog().items.get(decision_id)

    @property
    def latest(self) -> Backlog:
        """The state of review as it was last read, at once."""
        return self._backlog

    def submit(self, item: ReviewItem, answer: Answer, *, second_opinion: bool) -> LoggedReview:
        """Write one review.

        Args:
            item: the decision.
            answer: what was said of it.
            second_opinion: write it though there is one already.

        Raises:
            WrongAnswer: it names no candidate that it may name, or lacks the correction.
            AlreadyReviewed: nothing was written, because the decision was settled before.
            DecisionLogError: it could not be written.
        """
        review = LoggedReview(
            review_id=uuid.uuid4().hex,
            decision_id=item.decision_id,
            reviewed_at=datetime.now(UTC),
            reviewer=answer.reviewer,
            verdict=answer.verdict,
            chosen_index=_index(item, answer),
            correction=_correction(answer),
            note=answer.note,
        )
        with self._lock:
            self._refresh(at_once=self._took_s < _QUICK_S)
            earlier = self._backlog.reviews.get(item.decision_id, ())
            if not second_opinion and (
                item.is_settled_by(earlier) or _is_appealed(review, earlier)
            ):
                raise AlreadyReviewed(earlier)
            self._log.append(review)
            self._backlog = self._backlog.with_review(review)
            # What we wrote ourselves is no reason to read a long log again.
            self._signature = self._log.signature() if self._took_s >= _QUICK_S else None
        return review

    def _refresh(self, *, at_once: bool) -> None:
        now = self._clock()
        is_due = at_once or now - self._read_at >= self._took_s / _READING_SHARE
        signature = self._log.signature()
        if signature == self._signature or not (is_due or self._signature is None):
            return
        self._backlog = read_backlog(self._log.read())
        self._signature = signature
        self._read_at = self._clock()
        self._took_s = self._read_at - now


def _index(item: ReviewItem, answer: Answer) -> int | None:
    """The candidate that the answer names, if it may name it."""
    if answer.verdict == "approve":
        if item.suggested_index is None:
            raise WrongAnswer("Every candidate was filtered: there is nothing to approve.")
        return item.suggested_index
    if answer.verdict == "choose":
        if answer.chosen_index not in item.allowed:
            raise WrongAnswer("Choose one of the candidates that were not filtered.")
        return answer.chosen_index
    if answer.verdict == "appeal":
        if answer.chosen_index not in item.filtered:
            raise WrongAnswer("Only a candidate that was filtered can be appealed.")
        return answer.chosen_index
    return None


def _correction(answer: Answer) -> str | None:
    if answer.verdict != "correct":
        return None
    if not (answer.correction or "").strip():
        raise WrongAnswer("Write the correction first; it was empty.")
    return answer.correction


def _is_appealed(review: LoggedReview, earlier: Iterable[LoggedReview]) -> bool:
    """Whether this is an appeal that was made before."""
    return review.verdict == "appeal" and any(
        one.verdict == "appeal" and one.chosen_index == review.chosen_index for one in earlier
    )


def _size(path: Path) -> tuple[str, int]:
    try:
        return path.name, path.stat().st_size
    except FileNotFoundError:
        return path.name, -1  # it was compressed since it was listed
