"""Requests decided together, in threads and from an event loop: the same as one at a time."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.config import ControllerConfig
from harness_core.controller.controller import Controller
from harness_core.controller.decision import Decision
from harness_core.controller.manifest import ModelManifest
from harness_core.controller.request import SelectRequest
from harness_core.errors import ParameterError
from harness_core.features.batch import Floats
from harness_core.features.cache import CachedEncoder
from harness_core.features.hashed import HashedEncoder
from harness_core.features.pipeline import FeaturePipeline
from tests.controller.scripted import COMPONENTS, WEIGHTS
from tests.features.world import make_config, make_world

HISTORY = [{"kind": "code", "text": "SELECT 1", "result": "error: no such table"}]
TEXTS = ("SELECT name FROM singer", "SELECT count(*) FROM singer", "DROP TABLE singer", "SELECT 2")
REQUESTS = [
    SelectRequest(
        {
            "description": f"Question {number}: how many singers are there?",
            "language": "sql",
            "history": HISTORY * (number % 3),
        },
        [{"kind": "code", "text": text} for text in TEXTS[: 2 + number % 3]],
        {"excess_lines": -1.0} if number % 4 == 3 else None,
    )
    for number in range(12)
]


class CountingEncoder:
    """A hashed encoder that keeps what it was asked for, and refuses two at once."""

    def __init__(self) -> None:
        self._encoder = HashedEncoder()
        self.fingerprint = self._encoder.fingerprint
        self.width = self._encoder.width
        self.texts: list[str] = []
        self.n_inside = 0

    def encode(self, texts: Sequence[str]) -> Floats:
        self.n_inside += 1
        assert self.n_inside == 1
        self.texts += texts
        vectors = self._encoder.encode(texts)
        self.n_inside -= 1
        return vectors


class LinearCritic:
    """Every number of a row counts, so that a wrong one would show."""

    def terminal(self, x: Floats) -> Floats:
        return self._of(x)

    def q(self, state: Floats, action: Floats) -> Floats:
        total = self._of(state) + self._of(action)
        return np.repeat(total[:, None], len(COMPONENTS), axis=1)

    def value(self, state: Floats) -> Floats:
        return np.repeat(self._of(state)[:, None], len(COMPONENTS), axis=1)

    def running(self, state: Floats) -> Floats:
        return self._of(state)

    def _of(self, rows: Floats) -> Floats:
        weights = np.random.default_rng(0).normal(size=(rows.shape[1],)).astype(np.float32)
        result: Floats = (rows * weights).sum(axis=1)
        return result


@pytest.fixture
def encoder() -> CountingEncoder:
    return CountingEncoder()


@pytest.fixture
def asked(encoder) -> Controller:
    pipeline = FeaturePipeline.fit(make_world().tables(), make_config(), encoder=encoder)
    manifest = ModelManifest(
        learner="iql",
        components=COMPONENTS,
        weights=WEIGHTS,
        feature_fingerprint=pipeline.schema.fingerprint,
        encoders=pipeline.schema.encoders,
        combination=CRITIC_ALONE,
        controller=ControllerConfig(min_success_probability=0.0, fallback="first", exploration=0.0),
        k_max=8,
        development_tasks=("a",),
        files={},
    )
    return Controller(manifest=manifest, critic=LinearCritic(), pipeline=pipeline)


def assert_same(found: Decision, expected: Decision) -> None:
    leave_out: Any = {"decision_id", "timings_s", "scores", "component_scores"}
    leave_out |= {"success_probability", "success_probabilities", "risk"}
    assert found.model_dump(exclude=leave_out) == expected.model_dump(exclude=leave_out)
    for name in ("scores", "success_probabilities"):
        one, other = getattr(found, name), getattr(expected, name)
        assert [x is None for x in one] == [x is None for x in other]
        pairs = zip(one, other, strict=True)
        known = np.array([pair for pair in pairs if None not in pair], dtype=np.float64)
        np.testing.assert_allclose(known[:, 0], known[:, 1], rtol=1e-4, atol=1e-4)


def test_requests_decided_together_are_decided_as_one_at_a_time(asked):
    alone = [asked.select(*request) for request in REQUESTS]
    together = asked.select_many(REQUESTS)
    for one, other in zip(together, alone, strict=True):
        assert_same(one, other)
    # There must be something to tell apart.
    assert len({decision.chosen_index for decision in alone}) > 1
    assert any(decision.filtered for decision in alone)


def test_no_request_is_no_decision_and_one_that_is_malformed_spoils_all(asked):
    assert asked.select_many([]) == []
    with pytest.raises(ParameterError, match="at least one"):
        asked.select_many([REQUESTS[0], SelectRequest({}, [])])
    with pytest.raises(ParameterError, match="beauty"):
        asked.select_many([REQUESTS[0]._replace(goal={"beauty": 1.0})])


def test_an_event_loop_gets_the_same_decisions(asked):
    async def gather() -> list[Decision]:
        return await asyncio.gather(*(asked.aselect(*request) for request in REQUESTS))

    for one, request in zip(asyncio.run(gather()), REQUESTS, strict=True):
        assert_same(one, asked.select(*request))


def test_many_threads_get_the_same_decisions_and_one_at_a_time_encodes(asked, encoder):
    encoder.texts.clear()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda request: asked.select(*request), REQUESTS * 4))
    for one, request in zip(found, REQUESTS * 4, strict=True):
        assert_same(one, asked.select(*request))
    assert len(encoder.texts) == len(set(encoder.texts))


def test_a_state_is_encoded_once_for_all_its_candidates_and_for_later_requests(asked, encoder):
    encoder.texts.clear()
    asked.select(*REQUESTS[2])
    once = list(encoder.texts)
    assert len(once) == len(set(once))
    asked.select(*REQUESTS[2])
    asked.select_many(REQUESTS[2:3] * 2)
    assert encoder.texts == once


def test_the_texts_used_last_stay_in_memory(monkeypatch):
    monkeypatch.setattr("harness_core.features.cache._MAX_IN_MEMORY", 2)
    encoder = CountingEncoder()
    cached = CachedEncoder(encoder)
    cached.encode(["a", "b"])
    cached.encode(["a"])  # used again, so that "b" is the one to go
    cached.encode(["c"])
    cached.encode(["a", "c"])
    assert encoder.texts == ["a", "b", "c"]
    cached.encode(["b"])
    assert encoder.texts[-1] == "b"
    assert (cached.n_hits, cached.n_misses) == (3, 4)


HIDDEN = {
    "success": True,
    "outcome": {"success": True},
    "reward": 10.0,
    "dangerous": False,
    "hidden_checks": ["assert True"],
    "is_taken": True,
    "terminated": True,
}


def test_no_hidden_outcome_reaches_a_decision(asked):
    for request in REQUESTS:
        told = SelectRequest(
            {**request.state, **HIDDEN},
            [{**candidate, **HIDDEN} for candidate in request.candidates],
            request.goal,
        )
        assert asked.select(*told).scores == asked.select(*request).scores
