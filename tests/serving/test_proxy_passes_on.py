"""In `off` and `shadow` the agent gets what the upstream sends, byte for byte."""

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest

from tests.serving.conftest import Proxied, ask, python
from tests.serving.stub_documents import MESSAGES, ODD_STREAMS


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Requests as agents send them: (path, body)."""
    chat = "/v1/chat/completions"
    for script, streamed, n, probs in itertools.product(
        MESSAGES, (False, True), (None, 3), (None, True)
    ):
        extra = {"stream": streamed, "n": n, "logprobs": probs}
        yield chat, ask(f"plain:{script}", **{k: v for k, v in extra.items() if v is not None})
    for odd, script, usage in itertools.product(
        (*ODD_STREAMS, "drips"), ("words", "tool", "two_tools+good"), (False, True)
    ):
        yield (
            chat,
            ask(f"{odd}:{script}", stream=True, stream_options={"include_usage": usage}, n=2),
        )
    for script in MESSAGES:
        yield chat, ask(f"zipped:{script}")
        yield chat, ask(f"plain:{script}", tools=[{"type": "function"}], x_unknown=[1, {"a": None}])
        yield "/v1/responses", {"model": f"plain:{script}", "input": "2+2?", "tools": []}
        yield "/v1/responses", {"model": f"plain:{script}", "input": "2+2?", "stream": True}
        yield "/v1/completions", {"model": f"plain:{script}", "prompt": "2+2=", "n": 2}
        yield "/v1/completions", {"model": f"plain:{script}", "prompt": "2+2=", "stream": True}
    for failing in ("limited", "broken", "wrong", "garbage"):
        yield chat, ask(failing)
        yield chat, ask(failing, stream=True)
    yield chat, ask("plain", messages=[])
    yield chat, ask("plain", messages="no list")
    yield "/v1/embeddings", {"model": "e", "input": ["a"]}


def fetch(client: httpx.Client, url: str, body: Any, **headers: str) -> tuple[Any, ...]:
    """Status, headers, raw bytes, and whether the connection was cut."""
    content = b""
    with client.stream("POST", url, content=orjson.dumps(body), headers=headers) as response:
        try:
            for part in response.iter_raw():
                content += part
        except httpx.RemoteProtocolError:
            return response.status_code, kept(response), content, "cut"
    return response.status_code, kept(response), content, "whole"


def kept(response: httpx.Response) -> dict[str, str]:
    own = {"date", "server", "transfer-encoding", "x-controller-decision-id", "connection"}
    return {name: value for name, value in response.headers.items() if name not in own}


def test_bytes_are_those_of_the_upstream(proxy: Proxied):
    recorded = list(cases())
    assert len(recorded) >= 200
    sent = {"content-type": "application/json", "authorization": "Bearer sk-own"}
    with httpx.Client(timeout=30) as client:
        for path, body in recorded:
            proxy.stub.n_asked = 0
            direct = fetch(client, proxy.stub_url + path, body, **sent)
            for mode in ("off", "shadow"):
                proxy.stub.n_asked = 0
                ours = fetch(client, proxy.url + path, body, **sent, **{"x-harness-mode": mode})
                assert ours == direct, (mode, body)
                assert proxy.stub.seen.bodies[-1] == body


def test_an_early_close_is_not_made_up_for(proxy: Proxied):
    with httpx.Client() as client:
        url = f"{proxy.url}/v1/chat/completions"
        *_, ending = fetch(client, url, ask("early_close:words", stream=True))
    assert ending == "cut"
    assert proxy.count("harness_proxy_odd_streams_total", oddity="broke_off") == 1


def test_the_request_arrives_as_it_was_sent(proxy: Proxied):
    content = b'{"model":"plain",  "messages":[{"role":"user","content":"\\u00e9"}] , "x":1.50}'
    headers = {
        "content-type": "application/json",
        "authorization": "Bearer sk-own",
        "openai-organization": "org",
        "openai-project": "proj",
        "idempotency-key": "once",
        "x-request-id": "r1",
        "x-harness-k": "3",
        "connection": "x-hop",
        "x-hop": "for us only",
    }
    httpx.post(f"{proxy.url}/v1/chat/completions", content=content, headers=headers)
    seen = proxy.stub.seen.headers[-1]
    for name in ("authorization", "openai-organization", "openai-project", "x-request-id"):
        assert seen[name] == headers[name]
    assert seen["idempotency-key"] == "once"
    assert seen["content-length"] == str(len(content))
    assert not {"x-harness-k", "x-hop"} & seen.keys()


@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_what_the_client_says_of_the_state_never_leaves(proxy: Proxied, mode: str):
    body = ask("plain", **python(task_id="t1"), metadata={"harness": "kept"})
    assert proxy.post(body, x_harness_mode=mode).status_code == 200
    seen = proxy.stub.seen.bodies[-1]
    assert "harness" not in seen
    assert seen["metadata"] == {"harness": "kept"}


def test_shadow_logs_what_it_would_have_chosen(proxy: Proxied):
    answer = proxy.chat("plain:long+good", n=2, **python(session_id="run 7"))
    (entry,) = proxy.sink.wait_for(1)
    assert entry.decision_id == answer.headers["x-controller-decision-id"]
    assert entry.decision["decision_id"] == entry.decision_id
    assert entry.mode == "shadow"
    assert entry.session_id == "run 7"
    assert entry.decision["chosen_index"] == 1
    assert entry.answered_index == 0
    assert entry.propensity == 1.0
    assert [one["kind"] for one in entry.candidates] == ["code", "code"]
    assert entry.usage.completion_tokens == 14


@pytest.mark.parametrize("odd", [None, *ODD_STREAMS[:-1]])
def test_shadow_understands_streams_and_counts_what_is_odd(proxy: Proxied, odd: str | None):
    proxy.chat(f"{odd or 'plain'}:two_tools", stream=True)
    if odd == "lost_tool_delta":
        (entry,) = proxy.sink.wait_for(1)
        assert entry.candidates[0]["kind"] == "message"
        assert proxy.count("harness_proxy_odd_streams_total", oddity=odd) == 1
        return
    (entry,) = proxy.sink.wait_for(1)
    assert entry.candidates[0]["arguments"]["name"] == "get_weather"
    assert entry.candidates[0]["arguments"]["arguments"] == {"city": "Paris"}
    assert entry.candidates[0]["arguments"]["also"][0]["name"] == "write_file"
    names = {"stop_on_tools": "stop_on_tool_calls"}
    if odd is not None:
        counted = proxy.count("harness_proxy_odd_streams_total", oddity=names.get(odd, odd))
        assert counted == 1


def test_off_neither_scores_nor_logs(proxy: Proxied):
    proxy.chat("plain", mode="off")
    proxy.chat("plain", mode="shadow")
    assert len(proxy.sink.wait_for(1)) == 1
    assert len(proxy.selector.asked) == 1


def test_a_log_that_cannot_be_written_fails_no_request(proxy: Proxied):
    proxy.sink.breaks = True
    assert proxy.chat("plain").status_code == 200
    assert proxy.chat("plain", mode="rerank").status_code == 200


def test_models_are_listed_by_the_upstream(proxy: Proxied):
    direct = httpx.get(f"{proxy.stub_url}/v1/models")
    assert httpx.get(f"{proxy.url}/v1/models").content == direct.content


def test_an_address_with_a_path_stands_for_v1(start):
    proxy = start()
    other = start(upstream=f"{proxy.stub_url}")
    assert httpx.get(f"{other.url}/v1/models").json()["data"][0]["id"] == "plain"
