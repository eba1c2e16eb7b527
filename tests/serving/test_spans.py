import sys
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from harness_core.errors import ParameterError
from harness_core.registry.trace_spans import TraceSpan
from harness_core.serving.spans import DecisionTracer, OtelWriter, open_tracer, span_of
from harness_core.trajectories.schema import Usage
from tests.serving.logged import BEGIN, decision

FILTERED = decision(
    "f",
    session_id="s",
    usage=Usage(prompt_tokens=10, completion_tokens=20),
    answered_index=1,
    decision={
        "chosen_index": 1,
        "scores": [None, 0.5],
        "success_probability": 0.75,
        "risk": 0.25,
        "reason": "only_candidate",
        "fallback": None,
        "filtered": [{"index": 0, "rules": ["shell.rm", "policy:no"]}],
        "model_digest": "c" * 64,
        "timings_s": {"filter": 0.25, "score": 0.75},
    },
)


class Collected:
    """A writer that keeps what it is given; `gate` holds it back until it is set."""

    def __init__(self, *, gate: threading.Event | None = None, broken: bool = False) -> None:
        self.spans: list[TraceSpan] = []
        self.gate = gate
        self.broken = broken

    def write(self, span: TraceSpan, *, session_id: str | None, tags: Mapping[str, str]) -> None:
        if self.gate is not None:
            self.gate.wait()
        if self.broken:
            raise OSError("nobody listens")
        self.spans.append(span)

    def close(self) -> None:
        if self.broken:
            raise OSError("still nobody")


def test_a_decision_is_one_span_that_lasts_as_long_as_it_took():
    span = span_of(FILTERED, capture_content=False)
    end = int((BEGIN + timedelta(0)).timestamp()) * 10**9
    assert (span.kind, span.start_ns, span.end_ns) == ("DECISION", end - 10**9, end)
    assert span.attributes == {
        "openinference.span.kind": "DECISION",
        "decision.provider": "harness",
        "decision.model_name": "c" * 12,
        "session.id": "s",
        "harness.decision.id": "f",
        "harness.decision.mode": "rerank",
        "harness.decision.answered_index": 1,
        "harness.decision.propensity": 1.0,
        "harness.decision.n_candidates": 2,
        "decision.token_count.input": 10,
        "decision.token_count.output": 20,
        "harness.decision.scores": [0.5],
        "harness.decision.reason": "only_candidate",
        "harness.decision.chosen_index": 1,
        "harness.decision.success_probability": 0.75,
        "harness.decision.risk": 0.25,
        "harness.model.digest": "c" * 64,
    }


def test_a_filter_that_took_something_out_is_a_guardrail_below_it():
    (guard,) = span_of(FILTERED, capture_content=False).children
    assert guard.attributes == {
        "openinference.span.kind": "GUARDRAIL",
        "harness.guardrail.filtered_indices": [0],
        "harness.guardrail.rules": ["policy:no", "shell.rm"],
    }
    assert guard.end_ns - guard.start_ns == 10**9 // 4
    assert span_of(decision("a"), capture_content=False).children == ()


def test_texts_stand_in_no_span_unless_asked_for():
    assert "Hello." not in str(span_of(decision("a"), capture_content=False))
    assert span_of(decision("a"), capture_content=True).outputs == {"text": "Hello."}


def test_a_decision_that_failed_is_told_too():
    span = span_of(decision("a", decision=None, failure="timeout"), capture_content=False)
    assert span.attributes["harness.decision.failure"] == "timeout"


def test_what_is_too_much_is_dropped_and_counted():
    gate = threading.Event()
    writer = Collected(gate=gate)
    tracer = DecisionTracer(writer, max_waiting=3)
    for number in range(10):
        tracer.record(decision(str(number)))
    gate.set()
    tracer.close()
    # One may have left the queue for the writer before the gate was reached.
    assert tracer.n_written in {3, 4}
    assert tracer.n_written + tracer.n_dropped == 10
    assert len(writer.spans) == tracer.n_written
    tracer.record(decision("late"))
    assert tracer.n_written + tracer.n_dropped == 11


def test_a_writer_that_breaks_is_counted_and_nobody_else_notices(caplog):
    tracer = DecisionTracer(Collected(broken=True))
    for number in range(3):
        tracer.record(decision(str(number)))
    tracer.close()
    assert (tracer.n_failed, tracer.n_written) == (3, 0)


def test_spans_reach_an_exporter_of_opentelemetry():
    exporter = InMemorySpanExporter()
    tracer = DecisionTracer(OtelWriter(exporter), capture_content=True)
    tracer.record(FILTERED)
    tracer.close()
    guard, root = sorted(exporter.get_finished_spans(), key=lambda span: span.name, reverse=True)
    assert root.name == "decide rerank"
    assert guard.parent is not None
    assert guard.parent.span_id == root.context.span_id
    assert root.parent is None
    assert root.attributes is not None
    assert root.attributes["openinference.span.kind"] == "DECISION"
    assert root.attributes["input.mime_type"] == "application/json"
    assert orjson.loads(str(root.attributes["output.value"])) == {"text": "Hi."}
    assert root.resource.attributes["service.name"] == "harness"


def test_otlp_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ParameterError, match="opentelemetry-exporter-otlp-proto-http"):
        open_tracer("otlp", store=tmp_path)
