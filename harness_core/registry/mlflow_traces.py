"""MLflow traces, both ways: those of an agent as lines to import, and our decisions as traces.

The address is always given: MLflow's global tracking address and active run belong to the user.
"""

import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from harness_core.errors import NoDataError, RegistryError
from harness_core.registry.mlflow_database import experiment_id, open_client, quiet
from harness_core.registry.mlflow_quietly import (
    MlflowClient,
    MlflowException,
    Span,
    TraceInfo,
    TraceLocation,
    TraceState,
    TracingClient,
)
from harness_core.registry.store import MlflowStore
from harness_core.registry.trace_spans import TraceSpan

_PAGE: Final = 100
_FILE: Final = "traces.jsonl"
_TRACE_PREFIX: Final = "tr-"


def export_traces(tracking_uri: str, experiment: str, folder: Path) -> int:
    """Write all traces of an experiment to `traces.jsonl` in a folder; return their number.

    One trace a line, as MLflow's own JSON, in the order of their times: the same traces give the
    same bytes.

    Raises:
        NoDataError: there is no such experiment, or it has no trace.
        RegistryError: MLflow refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f".tmp-{os.getpid()}-{_FILE}"
    n = 0
    try:
        with quiet(), scratch.open("wb") as sink:
            for trace in _traces(tracking_uri, experiment):
                sink.write(orjson.dumps(trace, option=orjson.OPT_SORT_KEYS) + b"\n")
                n += 1
            sink.flush()
            os.fsync(sink.fileno())
        if not n:
            raise NoDataError(f"experiment '{experiment}' of {tracking_uri} has no trace")
        scratch.replace(folder / _FILE)
    except MlflowException as error:
        raise RegistryError(f"MLflow at {tracking_uri}: {error.message}") from error
    finally:
        scratch.unlink(missing_ok=True)
    return n


def _traces(tracking_uri: str, experiment: str) -> Iterator[dict[str, Any]]:
    client = MlflowClient(tracking_uri=tracking_uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        raise NoDataError(f"there is no experiment '{experiment}' in {tracking_uri}")
    token: str | None = None
    while True:
        page = client.search_traces(
            locations=[found.experiment_id],
            max_results=_PAGE,
            order_by=["timestamp_ms ASC"],
            page_token=token,
        )
        for trace in page:
            yield trace.to_dict()
        token = page.token
        if not token:
            return


class MlflowTraceWriter:
    """Writes finished traces to one experiment, which is made if it is not there."""

    def __init__(self, store: MlflowStore, experiment: str) -> None:
        try:
            with quiet():
                self._experiment_id = experiment_id(open_client(store), store, experiment)
                self._client = TracingClient(store.tracking_uri)
        except MlflowException as error:
            raise RegistryError(f"MLflow at {store.tracking_uri}: {error.message}") from error

    def write(self, span: TraceSpan, *, session_id: str | None, tags: Mapping[str, str]) -> None:
        """Write one trace, of a span and its children.

        Raises:
            RegistryError: MLflow refused.
        """
        trace_id = f"{_TRACE_PREFIX}{secrets.token_hex(16)}"
        info = TraceInfo(
            trace_id=trace_id,
            trace_location=TraceLocation.from_experiment_id(self._experiment_id),
            request_time=span.start_ns // 1_000_000,
            execution_duration=(span.end_ns - span.start_ns) // 1_000_000,
            state=TraceState.OK,
            trace_metadata={"mlflow.trace.session": session_id} if session_id else {},
            tags={"mlflow.traceName": span.name, **tags},
        )
        root = secrets.token_hex(8)
        spans = [
            _span(span, trace_id, root, parent=""),
            *(_span(child, trace_id, secrets.token_hex(8), parent=root) for child in span.children),
        ]
        try:
            with quiet():
                self._client.start_trace(info)
                self._client.log_spans(self._experiment_id, [Span.from_dict(s) for s in spans])
        except MlflowException as error:
            raise RegistryError(f"MLflow refused a trace: {error.message}") from error

    def close(self) -> None:
        """Nothing is on its way: every trace is written at once."""


def _span(span: TraceSpan, trace_id: str, span_id: str, *, parent: str) -> dict[str, Any]:
    values: dict[str, Any] = {
        "mlflow.traceRequestId": trace_id,
        "mlflow.spanType": span.kind,
        **span.attributes,
    }
    if span.inputs is not None:
        values["mlflow.spanInputs"] = span.inputs
    if span.outputs is not None:
        values["mlflow.spanOutputs"] = span.outputs
    return {
        "trace_id": trace_id,
        "span_id": span_id,
        "parent_span_id": parent,
        "name": span.name,
        "start_time_unix_nano": span.start_ns,
        "end_time_unix_nano": span.end_ns,
        "status": {"code": "OK", "message": ""},
        "attributes": {key: orjson.dumps(value).decode() for key, value in values.items()},
        "events": [],
    }
