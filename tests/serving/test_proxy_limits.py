"""Who may ask, how much, and what becomes of requests that nobody waits for any more."""

import contextlib
import logging
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from pydantic import SecretStr
from starlette.datastructures import Headers

from harness_core.errors import ParameterError
from harness_core.serving.auth import Keys
from harness_core.serving.config import ProxyConfig, ProxyLimits, UpstreamBase, check_bind
from harness_core.serving.limits import Admission
from harness_core.serving.refusals import Refusal
from tests.serving.conftest import GOOD_ENOUGH_S, Proxied, StartProxy, ask, proxied

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


@contextlib.contextmanager
def connected(proxy: Proxied) -> Iterator[socket.socket]:
    host, port = proxy.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        yield connection


def says(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        while part := connection.recv(65536):
            received += part
    return received


def test_only_known_keys_may_ask_and_none_of_them_reaches_the_upstream(start: StartProxy):
    proxy = start(keys=KEYS, upstream_key=SecretStr("sk-upstream"))
    for key in (None, "Bearer sk-firs", "Bearer sk-first2", "Basic sk-first", "Bearer"):
        headers = {} if key is None else {"authorization": key}
        answer = proxy.post(ask("plain"), **headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
    assert proxy.post(ask("plain"), authorization="Bearer sk-second").status_code == 200
    assert [seen["authorization"] for seen in proxy.stub.seen.headers] == ["Bearer sk-upstream"]


def test_a_key_of_ours_is_not_given_away_where_the_upstream_needs_none(start: StartProxy):
    proxy = start(keys=KEYS)
    assert proxy.post(ask("plain"), authorization="Bearer sk-first").status_code == 200
    assert "authorization" not in proxy.stub.seen.headers[-1]


def test_metrics_and_outcomes_need_a_key_and_health_does_not(start: StartProxy):
    proxy = start(keys=KEYS)
    assert httpx.get(f"{proxy.url}/metrics").status_code == 401
    assert proxy.post({}, path="/v1/harness/outcomes").status_code == 401
    assert proxy.post({}, path="/v1/harness/reload").status_code == 401
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert httpx.get(f"{proxy.url}{path}").status_code == 200


def test_secrets_are_neither_shown_nor_logged(start: StartProxy, caplog):
    config = ProxyConfig(upstream="http://h/v1", keys=KEYS, upstream_key=SecretStr("sk-upstream"))
    assert "sk-" not in repr(config) + config.model_dump_json()
    with caplog.at_level(logging.DEBUG, logger="harness"):
        proxy = start(upstream="http://127.0.0.1:9/v1", upstream_key=SecretStr("sk-upstream"))
        answer = proxy.post(ask("plain"), authorization="Bearer sk-mine")
    entries = "".join(entry.model_dump_json() for entry in proxy.sink.entries)
    assert "sk-" not in caplog.text + answer.text + entries
    assert "sk-" not in httpx.get(f"{proxy.url}/metrics").text


def test_the_upstream_is_the_one_that_was_named(proxy: Proxied):
    hostile = {
        "host": "169.254.169.254",
        "x-forwarded-host": "192.0.2.1",
        "x-upstream": "http://192.0.2.1/",
    }
    answer = proxy.post(ask("//192.0.2.1/v1"), **hostile)
    assert answer.status_code == 200
    assert proxy.stub.seen.headers[-1]["host"] == proxy.stub_url.removeprefix("http://")
    with connected(proxy) as connection:
        connection.sendall(
            b"GET http://192.0.2.1/v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
        assert says(connection).startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize(
    "address",
    ["ftp://h/", "h/v1", "http://", "http://u:p@h/v1", "http://h/v1?key=1", "http://h/#x"],
)
def test_addresses_that_are_none_are_refused(address: str):
    with pytest.raises(ParameterError, match="--upstream"):
        UpstreamBase.of(address)


def test_a_public_bind_wants_keys_and_tls(tmp_path):
    def config(**values) -> ProxyConfig:
        return ProxyConfig(upstream="http://h/v1", **values)

    pem = {"tls_cert": tmp_path / "c", "tls_key": tmp_path / "k"}
    for host in ("127.0.0.1", "::1", "localhost"):
        check_bind(config(host=host))
    for values in ({}, {"keys": KEYS}, pem):
        with pytest.raises(ParameterError, match="lets others connect"):
            check_bind(config(host="0.0.0.0", **values))
    check_bind(config(host="0.0.0.0", keys=KEYS, **pem))
    check_bind(config(host="0.0.0.0", allow_public=True))
    with pytest.raises(ParameterError, match="go together"):
        check_bind(config(tls_cert=tmp_path))


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


def test_keys_are_compared_whole():
    keys = Keys(KEYS)
    assert keys
    assert not Keys(())
    headers = Headers({"authorization": "Bearer sk-first"})
    names = {keys.identify(headers, address="a") for _ in range(2)}
    assert len(names) == 1
    assert "sk-first" not in names.pop()
