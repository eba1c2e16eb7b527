"""`harness proxy --trace otlp` before a receiver that speaks OTLP over HTTP."""

import importlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness_core.serving.decision_log import read_log
from harness_core.trajectories.decision_log import LoggedDecision
from tests.serving.conftest import ask, python
from tests.serving.servers import served
from tests.serving.stub_documents import GOOD
from tests.serving.stub_upstream import Stub
from tests.serving.test_proxy_command import running_proxy

pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.http", reason="the extra otlp is not installed"
)


class Receiver:
    """Takes spans as a collector does, and keeps them with the resource that they come from."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, Any]] = []
        self.app = Starlette(routes=[Route("/v1/traces", self.take, methods=["POST"])])

    async def take(self, request: Request) -> Response:
        # The messages of a protocol that only the exporter brings along.
        messages: Any = importlib.import_module(
            "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
        )
        assert request.headers["content-type"] == "application/x-protobuf"
        sent = messages.ExportTraceServiceRequest.FromString(await request.body())
        for group in sent.resource_spans:
            self.resources.append(values(group.resource.attributes))
            self.spans += [span for scope in group.scope_spans for span in scope.spans]
        answer = messages.ExportTraceServiceResponse().SerializeToString()
        return Response(answer, media_type="application/x-protobuf")


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: plain(one.value) for one in attributes}


def plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [plain(one) for one in found.values] if kind == "array_value" else found


def decisions(folder: Path) -> list[LoggedDecision]:
    return [entry for entry in read_log(folder) if isinstance(entry, LoggedDecision)]


@pytest.fixture
def receiver() -> Iterator[tuple[Receiver, str]]:
    one = Receiver()
    with served(one.app) as address:
        yield one, address


def test_decisions_and_what_the_filter_took_out_reach_a_receiver(
    receiver: tuple[Receiver, str], tmp_path: Path
):
    collected, address = receiver
    stub = Stub()
    with (
        served(stub.app) as upstream,
        running_proxy(
            *("--upstream", f"{upstream}/v1", "--workdir", str(tmp_path), "--trace", "otlp"),
            *("--mode", "filter", "--k", "2", "--log", str(tmp_path / "log")),
            OTEL_EXPORTER_OTLP_ENDPOINT=address,
        ) as (base_url, process),
    ):
        url = f"{base_url}/chat/completions"
        body = {**ask("plain:bad+good", n=2), **python(session_id="run-7")}
        denied = httpx.post(url, json=body, timeout=30)
        plain_one = httpx.post(url, json=ask("plain"), timeout=30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    assert [one["message"]["content"] for one in denied.json()["choices"]] == [GOOD]
    assert plain_one.status_code == 200

    logged = {entry.decision_id: entry for entry in decisions(tmp_path / "log")}
    roots = [span for span in collected.spans if not span.parent_span_id]
    told = {values(span.attributes)["harness.decision.id"]: span for span in roots}
    assert told.keys() == logged.keys()
    assert {one["service.name"] for one in collected.resources} == {"harness"}

    name = denied.headers["x-controller-decision-id"]
    root = told[name]
    said = values(root.attributes)
    assert root.name == "decide filter"
    assert said["openinference.span.kind"] == "DECISION"
    assert said["session.id"] == "run-7"
    assert said["harness.decision.reason"] == "rules_only"
    assert (said["harness.decision.chosen_index"], said["harness.decision.answered_index"]) == (
        1,
        1,
    )
    assert said["harness.decision.n_candidates"] == 2
    assert said["harness.decision.propensity"] == 1.0
    assert said["decision.token_count.output"] == logged[name].usage.completion_tokens

    (guard,) = [span for span in collected.spans if span.parent_span_id]
    assert (guard.trace_id, guard.parent_span_id) == (root.trace_id, root.span_id)
    assert values(guard.attributes) == {
        "openinference.span.kind": "GUARDRAIL",
        "harness.guardrail.filtered_indices": [0],
        "harness.guardrail.rules": (logged[name].decision or {})["filtered"][0]["rules"],
    }
    assert "os.system" not in str(collected.spans)
    assert "return a + b" not in str(collected.spans)


def test_a_receiver_that_is_not_there_costs_no_answer(tmp_path: Path):
    stub = Stub()
    with (
        served(stub.app) as upstream,
        running_proxy(
            *("--upstream", f"{upstream}/v1", "--workdir", str(tmp_path), "--trace", "otlp"),
            *("--mode", "filter", "--log", str(tmp_path / "log")),
            OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        ) as (base_url, process),
    ):
        answer = httpx.post(f"{base_url}/chat/completions", json=ask("plain"), timeout=30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    assert answer.json()["choices"][0]["message"]["content"] == GOOD
    assert len(decisions(tmp_path / "log")) == 1
