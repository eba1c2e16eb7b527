"""How much may be asked, and what becomes of requests that nobody waits for any more."""

import contextlib
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from pydantic import SecretStr

from harness_core.serving.config import ProxyLimits
from harness_core.serving.limits import Admission
from harness_core.serving.refusals import Refusal
from tests.serving.conftest import Proxied, StartProxy, ask, connected, proxied, says
from tests.serving.fake_selector import GOOD_ENOUGH_S

KEYS = (SecretStr("sk-first"), SecretStr("sk-second"))
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def shared() -> Iterator[Proxied]:
    """For requests that leave nothing behind."""
    with proxied() as running:
        yield running


def until(condition) -> bool:
    deadline = time.monotonic() + GOOD_ENOUGH_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return False


def test_a_long_body_is_refused_before_it_is_sent_on(start: StartProxy):
    proxy = start(limits={"max_body_bytes": 1000})
    answer = proxy.post(ask("plain", x="x" * 2000))
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"
    assert not proxy.stub.seen.bodies


def test_long_headers_are_refused(start: StartProxy):
    proxy = start()
    assert proxy.post(ask("plain"), x_long="x" * 20_000).status_code == 200
    assert proxy.post(ask("plain"), x_long="x" * 40_000).status_code in (400, 431)


def test_a_client_that_asks_too_often_is_told_when_to_come_back(start: StartProxy):
    proxy = start(limits={"requests_per_minute": 12.0})  # two at once
    statuses = [proxy.post(ask("plain"), authorization="Bearer a").status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    answer = proxy.post(ask("plain"), authorization="Bearer a")
    assert 1 <= int(answer.headers["retry-after"]) <= 5
    assert answer.json()["error"]["type"] == "rate_limit_error"
    assert proxy.post(ask("plain"), authorization="Bearer b").status_code == 200


def test_tokens_come_back_with_time():
    now = [0.0]
    admission = Admission(ProxyLimits(requests_per_minute=60.0), clock=lambda: now[0])

    def n_admitted() -> int:
        n = 0
        with contextlib.suppress(Refusal):
            while True:
                with admission.admitted("a"):
                    n += 1
        return n

    assert n_admitted() == 10
    now[0] += 3
    assert n_admitted() == 3
    now[0] += 1000
    assert n_admitted() == 10


@pytest.mark.parametrize(
    ("limits", "status"), [({"max_concurrent": 2}, 429), ({"max_in_flight": 2}, 503)]
)
def test_too_many_at_a_time_are_refused(limits: dict[str, int], status: int):
    admission = Admission(ProxyLimits(**limits))
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(admission.admitted("a"))
        with pytest.raises(Refusal) as caught, admission.admitted("a"):
            pass
        assert caught.value.status == status
        assert caught.value.headers["retry-after"] == "1"
    with admission.admitted("a"):
        assert admission.n_open == 1


def test_clients_that_were_idle_long_are_forgotten():
    admission = Admission(ProxyLimits())
    for number in range(10_000):
        with admission.admitted(str(number)):
            pass
    assert len(admission._clients) <= 4097


@pytest.mark.parametrize("mode", ["off", "shadow", "rerank", "filter"])
def test_when_the_client_leaves_all_calls_of_the_upstream_end(start: StartProxy, mode: str):
    proxy = start(k=5)
    # It refuses nothing, so that five calls of responses are open at a time.
    body = {"model": "freezes", "input": "?"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{proxy.url}/v1/responses",
            json=body,
            headers={"x-harness-mode": mode},
            timeout=httpx.Timeout(5, read=0.3),
        )
    n_calls = 5 if mode == "rerank" else 1
    assert until(lambda: proxy.stub.seen.n_cancelled == n_calls)
    assert proxy.stub.seen.n_open == 0
    assert until(lambda: proxy.count("harness_proxy_requests_in_flight") == 0)


def test_when_the_client_leaves_a_stream_its_upstream_ends(proxy: Proxied):
    with httpx.stream("POST", proxy.url + CHAT, json=ask("stalls", stream=True)) as response:
        next(response.iter_raw())
    assert until(lambda: proxy.count("harness_proxy_requests_in_flight") == 0)


def test_a_half_closed_connection_leaves_nothing_behind(proxy: Proxied):
    content = b'{"model": "freezes", "messages": [{"role": "user", "content": "?"}]}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n"
    with connected(proxy) as connection:
        connection.sendall(head % len(content) + content)
        assert until(lambda: proxy.stub.seen.n_open == 1)
        connection.shutdown(socket.SHUT_WR)
        assert until(lambda: proxy.stub.seen.n_open == 0)


@pytest.mark.parametrize(
    "sent", [b"POST /v1/chat", b"", b"GET /healthz HTTP/1.1\r\nhost: h\r\nx-a"]
)
def test_a_request_that_never_arrives_is_not_waited_for(start: StartProxy, sent: bytes):
    proxy = start(limits={"body_s": 0.2})
    with connected(proxy) as connection:
        connection.sendall(sent)
        assert says(connection) == b""


def test_a_body_that_never_arrives_is_not_waited_for(start: StartProxy):
    proxy = start(limits={"body_s": 0.2})
    with connected(proxy) as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\n{"
        )
        assert says(connection).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 5\r\ncontent-length: 6",
        b"content-length: +5",
        b"content-length: 5, 6",
        b"transfer-encoding: chunked, identity",
        b"transfer-encoding: xchunked",
        b"content-length : 5",
        b"x-a: b\r\n c: d\r\ncontent-length: nine",
    ],
)
def test_a_request_with_two_meanings_is_refused(shared: Proxied, head: bytes):
    start = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nconnection: close\r\n"
    with connected(shared) as connection:
        connection.sendall(start + head + b"\r\n\r\n0\r\n\r\n")
        assert b" 400 " in says(connection).split(b"\r\n")[0] + b" "
    assert not shared.stub.seen.bodies


def test_a_length_beside_chunks_does_not_reach_the_upstream(proxy: Proxied):
    content = b'{"model": "plain", "messages": []}'
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nconnection: close\r\n"
    with connected(proxy) as connection:
        connection.sendall(
            head + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n" + chunk
        )
        says(connection)
    for seen in proxy.stub.seen.headers:
        assert seen["content-length"] == str(len(content))


def test_unknown_routes_and_methods_have_errors_of_the_usual_shape(proxy: Proxied):
    for answer, status in (
        (httpx.get(f"{proxy.url}/v1/files"), 404),
        (httpx.get(f"{proxy.url}{CHAT}"), 405),
        (httpx.post(f"{proxy.url}/v1/models"), 405),
    ):
        assert answer.status_code == status
        assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
