"""Decisions as OpenInference spans: one DECISION each, and a GUARDRAIL below it when it filters.

Whoever decides only puts the entry into a queue; spans are made and sent in the background, and a
tracer never raises. What is too much for the queue is dropped and counted. Texts of prompts and
candidates stand in no span unless that is asked for.
"""

import importlib
import logging
import queue
import threading
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from harness_core.errors import ParameterError
from harness_core.registry.trace_spans import TraceSpan, TraceWriter
from harness_core.serving.span_names import Name, SpanKind
from harness_core.trajectories.decision_log import LoggedDecision

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

TraceTarget = Literal["mlflow", "otlp"]

_LOG: Final = logging.getLogger("harness")
_PROVIDER: Final = "harness"
_OTLP_MODULE: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
"""Of a package that only those install who send spans somewhere."""
_JSON: Final = "application/json"
_NS: Final = 1_000_000_000
_ANSWERED: Final = {
    Name.REASON: "reason",
    Name.FALLBACK: "fallback",
    Name.CHOSEN: "chosen_index",
    Name.SUCCESS: "success_probability",
    Name.RISK: "risk",
    Name.STRANGENESS: "out_of_distribution",
    Name.MODEL_DIGEST: "model_digest",
    Name.FINGERPRINT: "feature_fingerprint",
}


class DecisionTracer:
    """Sends a span for each decision that it is told of, in the background."""

    def __init__(
        self, writer: TraceWriter, *, capture_content: bool = False, max_waiting: int = 1000
    ) -> None:
        """Start it.

        Args:
            writer: where spans go.
            capture_content: put state and candidates into the spans.
            max_waiting: decisions that may wait; one more is dropped.
        """
        self._writer = writer
        self._capture = capture_content
        self._waiting: queue.Queue[LoggedDecision | None] = queue.Queue(max_waiting)
        self._is_closed = False
        self.n_written = 0
        self.n_dropped = 0
        self.n_failed = 0
        self._thread = threading.Thread(target=self._send, name="decision-spans", daemon=True)
        self._thread.start()

    def record(self, decision: LoggedDecision) -> None:
        """Put a decision on its way; returns at once and never raises."""
        if self._is_closed:
            self.n_dropped += 1
            return
        try:
            self._waiting.put_nowait(decision)
        except queue.Full:
            self.n_dropped += 1

    def close(self, *, timeout_s: float = 5.0) -> None:
        """Send what waits, for at most this long, and stop."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._waiting.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _send(self) -> None:
        while (decision := self._waiting.get()) is not None:
            try:
                self._writer.write(
                    span_of(decision, capture_content=self._capture),
                    session_id=decision.session_id,
                    tags={Name.DECISION_ID.value: decision.decision_id},
                )
                self.n_written += 1
            except Exception as error:  # noqa: BLE001  # no trace is worth an answer
                self.n_failed += 1
                if self.n_failed == 1:
                    _LOG.warning("traces: %s; later failures are only counted", error)
        try:
            self._writer.close()
        except Exception as error:  # noqa: BLE001  # as above
            _LOG.warning("traces: %s", error)


def open_tracer(
    target: TraceTarget,
    *,
    store: Path,
    experiment: str = "decisions",
    capture_content: bool = False,
) -> DecisionTracer:
    """A tracer that writes to MLflow, or sends by OTLP to where the usual variables say.

    Args:
        target: of the spans. OTLP takes its address from `OTEL_EXPORTER_OTLP_ENDPOINT`.
        store: folder of MLflow's database, which is made if it is not there.
        experiment: name in MLflow.
        capture_content: put state and candidates into the spans.

    Raises:
        ParameterError: there is no OTLP exporter on this machine.
        RegistryError: MLflow refused.
    """
    writer: TraceWriter
    if target == "otlp":
        writer = OtelWriter(_otlp_exporter())
    else:
        # MLflow takes seconds to import.
        from harness_core.registry.mlflow_traces import MlflowTraceWriter  # noqa: PLC0415
        from harness_core.registry.store import initialise_store  # noqa: PLC0415

        writer = MlflowTraceWriter(initialise_store(store), experiment)
    return DecisionTracer(writer, capture_content=capture_content)


class OtelWriter:
    """Implements `TraceWriter` with the SDK of OpenTelemetry and any of its exporters."""

    def __init__(self, exporter: "SpanExporter") -> None:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  # only who traces pays
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        # A provider of our own: the global one belongs to the program that we run in.
        self._provider = TracerProvider(resource=Resource.create({"service.name": _PROVIDER}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(_PROVIDER)

    def write(self, span: TraceSpan, *, session_id: str | None, tags: Mapping[str, str]) -> None:
        """See `TraceWriter.write`."""
        del session_id, tags  # both are attributes already
        from opentelemetry.context import Context  # noqa: PLC0415  # as above
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

        root = self._tracer.start_span(
            span.name,
            context=Context(),
            attributes=_with_content(span),
            start_time=span.start_ns,
        )
        within = set_span_in_context(root, Context())
        for child in span.children:
            self._tracer.start_span(
                child.name,
                context=within,
                attributes=_with_content(child),
                start_time=child.start_ns,
            ).end(child.end_ns)
        root.end(span.end_ns)

    def close(self) -> None:
        """See `TraceWriter.close`."""
        self._provider.shutdown()


def span_of(decision: LoggedDecision, *, capture_content: bool) -> TraceSpan:
    """The span of a decision; what is not known has no attribute."""
    answer = decision.decision or {}
    timings = answer.get("timings_s") or {}
    end = int(decision.decided_at.timestamp() * _NS)
    start = end - int(sum(timings.values()) * _NS)
    said: dict[Name, Any] = {
        Name.KIND: SpanKind.DECISION.value,
        Name.PROVIDER: _PROVIDER,
        Name.MODEL: _model_of(answer),
        Name.SESSION: decision.session_id,
        Name.DECISION_ID: decision.decision_id,
        Name.MODE: decision.mode,
        Name.FAILURE: decision.failure,
        Name.ANSWERED: decision.answered_index,
        Name.PROPENSITY: decision.propensity,
        Name.N_CANDIDATES: len(decision.candidates),
        Name.INPUT_TOKENS: decision.usage.prompt_tokens,
        Name.OUTPUT_TOKENS: decision.usage.completion_tokens,
        # Lists hold no gaps there: who was filtered says the guardrail.
        Name.SCORES: [score for score in answer.get("scores") or () if score is not None],
        **{name: answer.get(key) for name, key in _ANSWERED.items()},
    }
    guard = _guardrail(answer, start, start + int(timings.get("filter", 0.0) * _NS))
    given = {"state": decision.state, "candidates": decision.candidates}
    answered = decision.answered_index
    return TraceSpan(
        name=f"decide {decision.mode}",
        kind=SpanKind.DECISION.value,
        start_ns=start,
        end_ns=end,
        attributes=_known(said),
        inputs=given if capture_content else None,
        outputs=decision.candidates[answered] if capture_content and answered is not None else None,
        children=() if guard is None else (guard,),
    )


def _guardrail(answer: Mapping[str, Any], start: int, end: int) -> TraceSpan | None:
    filtered = answer.get("filtered") or ()
    if not filtered:
        return None
    rules = sorted(set(chain.from_iterable(item["rules"] for item in filtered)))
    return TraceSpan(
        name="hard filter",
        kind=SpanKind.GUARDRAIL.value,
        start_ns=start,
        end_ns=end,
        attributes=_known(
            {
                Name.KIND: SpanKind.GUARDRAIL.value,
                Name.FILTERED: [item["index"] for item in filtered],
                Name.RULES: rules,
            }
        ),
    )


def _model_of(answer: Mapping[str, Any]) -> str | None:
    version, digest = answer.get("model_version"), answer.get("model_digest")
    return version or (str(digest)[:12] if digest else None)


def _known(values: Mapping[Name, Any]) -> dict[str, Any]:
    return {name.value: value for name, value in values.items() if value not in (None, [])}


def _with_content(span: TraceSpan) -> dict[str, Any]:
    content = {
        (Name.INPUT, Name.INPUT_TYPE): span.inputs,
        (Name.OUTPUT, Name.OUTPUT_TYPE): span.outputs,
    }
    told = dict(span.attributes)
    for (name, mime_type), value in content.items():
        if value is not None:
            told |= {name.value: orjson.dumps(value).decode(), mime_type.value: _JSON}
    return told


def _otlp_exporter() -> "SpanExporter":
    try:
        module: Any = importlib.import_module(_OTLP_MODULE)
    except ImportError as error:
        raise ParameterError(
            "--trace otlp needs the package opentelemetry-exporter-otlp-proto-http; install it, "
            "or write to MLflow with --trace mlflow"
        ) from error
    exporter: SpanExporter = module.OTLPSpanExporter()
    return exporter
