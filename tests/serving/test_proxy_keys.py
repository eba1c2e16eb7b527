"""Who may ask, and where requests and keys go."""

import logging

import httpx
import pytest
from pydantic import SecretStr
from starlette.datastructures import Headers

from harness_core.errors import ParameterError
from harness_core.serving.auth import Keys
from harness_core.serving.config import ProxyConfig, UpstreamBase, check_bind
from tests.serving.conftest import Proxied, StartProxy, ask, connected, says

KEYS = (SecretStr("sk-first"), SecretStr("sk-second"))
CHAT = "/v1/chat/completions"


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


def test_keys_are_compared_whole():
    keys = Keys(KEYS)
    assert keys
    assert not Keys(())
    headers = Headers({"authorization": "Bearer sk-first"})
    names = {keys.identify(headers, address="a") for _ in range(2)}
    assert len(names) == 1
    assert "sk-first" not in names.pop()
