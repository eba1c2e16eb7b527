"""Decisions of the proxy become spans, and nothing that happens to spans harms a request."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness_core.commands.decision_sink import DecisionSinks, open_sink
from harness_core.registry.store import MlflowStore
from harness_core.serving.spans import DecisionTracer
from harness_core.stages.dag import Workspace
from harness_core.stages.register import STORE
from tests.serving.conftest import proxied, python
from tests.serving.stub_documents import GOOD
from tests.serving.test_spans import Collected


@pytest.fixture
def workspace(store: MlflowStore, tmp_path: Path) -> Workspace:
    assert store.root == tmp_path / STORE
    return Workspace(tmp_path)


@contextmanager
def traced(workspace: Workspace) -> Iterator[Any]:
    with open_sink(None, "mlflow", workspace) as sink, proxied(sink=sink) as proxy:
        yield proxy


def database(workspace: Workspace) -> Path:
    (found,) = workspace.path(STORE).glob("*.db")
    return found


def test_a_proxied_request_is_a_decision_span_in_mlflow(workspace: Workspace):
    with traced(workspace) as proxy:
        answer = proxy.chat("plain:bad+good", mode="rerank", **python(session_id="run-7"))
        shadowed = proxy.chat("plain")
    with sqlite3.connect(database(workspace)) as db:
        rows = db.execute("SELECT name, type, content FROM spans ORDER BY name").fetchall()
    kinds = [(name, kind) for name, kind, _ in rows]
    assert kinds == [
        ("decide rerank", "DECISION"),
        ("decide shadow", "DECISION"),
        ("hard filter", "GUARDRAIL"),
    ]
    for one, (_, _, content) in zip((answer, shadowed), rows[:2], strict=True):
        assert one.headers["x-controller-decision-id"] in content
        assert "return a + b" not in content
    assert "run-7" in rows[0][2]


def test_a_store_that_breaks_fails_no_request(workspace: Workspace):
    with traced(workspace) as proxy:
        assert proxy.chat("plain").status_code == 200
        database(workspace).write_bytes(b"no database any more" * 1000)
        for _ in range(3):
            answer = proxy.chat("plain:bad+good", mode="rerank", **python())
            assert answer.json()["choices"][0]["message"]["content"] == GOOD
            assert answer.headers["x-harness-reason"] == "best_score"
        assert proxy.count("harness_proxy_log_records_total", result="failed") == 0


def test_a_store_that_hangs_holds_no_request_up():
    gate = threading.Event()
    writer = Collected(gate=gate)
    tracer = DecisionTracer(writer, max_waiting=2)
    with proxied(sink=DecisionSinks(None, tracer)) as proxy:
        for _ in range(6):
            assert proxy.chat("plain", mode="rerank").status_code == 200
        assert writer.spans == []
        gate.set()
