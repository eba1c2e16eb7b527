"""A decision log with made-up requests, and a real server on it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import uvicorn

from harness_core.controller.decision import Decision, FilteredCandidate, Reason
from harness_core.serving.review.desk import ReviewLog
from harness_core.trajectories.decision_log import LogEntry, LoggedDecision, LoggedReview

START = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)

MEDIAN = '''def median(values: list[float]) -> float:
    """Middle value; mean of the two middle ones for an even count."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
'''
MEDIAN_WRONG = '''def median(values: list[float]) -> float:
    """Middle value."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
'''
MEDIAN_SHELL = """import subprocess


def median(values: list[float]) -> float:
    command = f"printf '%s\\n' {' '.join(map(str, values))} | datamash median 1"
    return float(subprocess.run(command, shell=True, capture_output=True).stdout)
"""
HOSTILE = (
    '<script>document.title="owned"</script><img src=x onerror=alert(1)>" onfocus=alert(1) '
    "\u202egnp.exe"
)


def code(*texts: str) -> tuple[dict[str, Any], ...]:
    return tuple({"kind": "code", "text": text} for text in texts)


def decided(
    number: int,
    *,
    candidates: tuple[dict[str, Any], ...] | None = None,
    chosen: int | None = None,
    fallback: str | None = None,
    filtered: dict[int, tuple[str, ...]] | None = None,
    asked: dict[int, tuple[str, ...]] | None = None,
    answered: int | None = None,
    **changes: Any,
) -> LoggedDecision:
    """Decision `d<number>`, made `number` minutes after the first."""
    given = candidates or code(MEDIAN_WRONG, MEDIAN)
    taken_out = filtered or {}
    decision = Decision(
        decision_id=f"d{number}",
        chosen_index=chosen,
        scores=tuple(None if i in taken_out else 0.4 - 0.1 * i for i in range(len(given))),
        component_scores=tuple(
            {} if i in taken_out else {"all_tests": 1.9 - i, "style": 0.1}
            for i in range(len(given))
        ),
        success_probability=0.41,
        success_probabilities=tuple(
            None if i in taken_out else round(0.41 - 0.05 * i, 2) for i in range(len(given))
        ),
        risk=0.59,
        out_of_distribution=0.32,
        reason=Reason.BEST_SCORE if chosen is not None else Reason.LOW_CONFIDENCE,
        fallback=fallback,
        filtered=tuple(FilteredCandidate(index=i, rules=r) for i, r in taken_out.items()),
        needs_review=tuple(FilteredCandidate(index=i, rules=r) for i, r in (asked or {}).items()),
        review=chosen in (asked or {}),
        propensity=1.0,
        model_digest="m" * 64,
        feature_fingerprint="f" * 64,
    )
    state: dict[str, Any] = {
        "task_id": f"made/{number % 3}",
        "language": "python",
        "description": "Write a function `median(values)` that returns the middle value.\n"
        "For an even count it is the mean of the two middle ones.",
        "history": [
            {"kind": "code", "text": MEDIAN_WRONG, "result": "assert median([1, 2]) == 1.5 failed"}
        ],
    }
    logged = LoggedDecision(
        decision_id=f"d{number}",
        decided_at=START + timedelta(minutes=number),
        mode="rerank",
        state=state,
        candidates=given,
        decision=decision.model_dump(mode="json"),
        answered_index=answered,
    )
    return logged.model_copy(update=changes)


def abstained(number: int, **changes: Any) -> LoggedDecision:
    """Left to a person; candidate 0 of three runs a shell."""
    changes = {
        "candidates": code(MEDIAN_SHELL, MEDIAN_WRONG, MEDIAN),
        "fallback": "review",
        "filtered": {0: ("B602",)},
        **changes,
    }
    return decided(number, **changes)


def reviewed(decision_id: str, verdict: Any, **changes: Any) -> LoggedReview:
    values: dict[str, Any] = {
        "review_id": f"r-{decision_id}-{verdict}",
        "decision_id": decision_id,
        "reviewed_at": START,
        "reviewer": "ada",
        "verdict": verdict,
        **changes,
    }
    return LoggedReview(**values)


class FakeLog:
    """A decision log in memory."""

    def __init__(self, *entries: LogEntry) -> None:
        self.entries: list[LogEntry] = list(entries)
        self.n_readings = 0

    def read(self) -> Iterator[LogEntry]:
        self.n_readings += 1
        yield from list(self.entries)

    def port(self) -> ReviewLog:
        return ReviewLog(
            read=self.read, append=self.entries.append, signature=lambda: len(self.entries)
        )

    @property
    def reviews(self) -> list[LoggedReview]:
        return [one for one in self.entries if isinstance(one, LoggedReview)]


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """A real server on a free port of the loopback interface; gives its address."""
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
