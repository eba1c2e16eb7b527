"""Entries of decision logs, made up for tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

from harness_core.trajectories.decision_log import LoggedDecision, LoggedOutcome

BEGIN = datetime(2026, 3, 4, 10, 0, tzinfo=UTC)


def decision(name: str, *, second: int = 0, **changes: Any) -> LoggedDecision:
    """A decision between two messages, of which the first was answered."""
    values: dict[str, Any] = {
        "decision_id": name,
        "decided_at": BEGIN + timedelta(seconds=second),
        "mode": "rerank",
        "state": {"description": "Say hello.", "language": "text"},
        "candidates": ({"text": "Hello."}, {"text": "Hi."}),
        "decision": {
            "decision_id": name,
            "chosen_index": 0,
            "scores": [1.0, 0.5],
            "success_probability": 0.75,
            "reason": "best_score",
            "fallback": None,
            "filtered": [],
            "propensity": 1.0,
            "model_digest": "c" * 64,
            "feature_fingerprint": "f" * 64,
        },
        "answered_index": 0,
        "propensity": 1.0,
    }
    return LoggedDecision(**(values | changes))


def outcome(name: str, of: str, *, source: str, hour: int = 0, **said: Any) -> LoggedOutcome:
    """What a source said so many hours later."""
    return LoggedOutcome(
        outcome_id=name,
        decision_id=of,
        reported_at=BEGIN + timedelta(hours=hour),
        source=source,
        **said,
    )
