"""Another model is picked up while requests are answered; webhooks of MLflow are understood."""

import threading
import time
from typing import Any

import httpx
import orjson
import pytest
from pydantic import SecretStr
from starlette.datastructures import Headers

from harness_core.serving.auth import check_signature, signature
from harness_core.serving.refusals import Refusal
from tests.serving.conftest import Models, Proxied, StartProxy, ask, python
from tests.serving.fake_selector import GOOD_ENOUGH_S, ShortestFirst

SECRET = SecretStr("whsec")


def model_of(proxy: Proxied) -> str | None:
    return httpx.get(f"{proxy.url}/readyz").json()["model"]


def wait_for_model(proxy: Proxied, version: str) -> None:
    deadline = time.monotonic() + GOOD_ENOUGH_S
    while model_of(proxy) != version and time.monotonic() < deadline:
        time.sleep(0.01)
    assert model_of(proxy) == version


def test_a_new_champion_is_used_without_a_failed_request(start: StartProxy):
    proxy = start(mode="rerank", k=2, poll_s=0.02)
    stop, reasons = threading.Event(), []

    def ask_on() -> None:
        with httpx.Client() as client:
            while not stop.is_set():
                body = {**ask("plain:long+good"), **python()}
                answer = client.post(f"{proxy.url}/v1/chat/completions", json=body)
                reasons.append((answer.status_code, answer.headers["x-harness-reason"]))

    thread = threading.Thread(target=ask_on)
    thread.start()
    for version in ("2", "3", "4"):
        proxy.models.version = version
        wait_for_model(proxy, version)
    stop.set()
    thread.join()
    assert set(reasons) == {(200, "best_score")}
    assert proxy.models.opened == ["1", "2", "3", "4"]
    assert proxy.models.closed == ["1", "2", "3"]
    assert proxy.count("harness_proxy_model", version="4") == 1


def test_a_model_is_not_closed_while_it_decides(start: StartProxy):
    selector = ShortestFirst()
    selector.waits_for = threading.Event()
    proxy = start(mode="rerank", poll_s=0.02, models=Models(selector))
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(proxy.chat("plain")))
    thread.start()
    while not selector.asked:
        time.sleep(0.005)
    proxy.models.version = "2"
    wait_for_model(proxy, "2")
    assert proxy.models.closed == []
    selector.waits_for.set()
    thread.join()
    assert answers[0].headers["x-harness-reason"] == "best_score"


def test_a_damaged_model_leaves_the_one_in_use(start: StartProxy):
    proxy = start(mode="rerank", poll_s=0.02)
    proxy.models.damaged = True
    proxy.models.version = "2"
    deadline = time.monotonic() + GOOD_ENOUGH_S
    while not (n := proxy.count("harness_proxy_model_loads_total", result="failed")):
        assert time.monotonic() < deadline
    time.sleep(0.1)
    assert proxy.count("harness_proxy_model_loads_total", result="failed") == n == 1
    assert model_of(proxy) == "1"
    assert proxy.chat("plain").headers["x-harness-reason"] == "best_score"


def test_the_model_is_closed_with_the_proxy(start: StartProxy):
    from tests.serving.conftest import proxied  # noqa: PLC0415  # ends before the test does

    with proxied() as proxy:
        assert model_of(proxy) == "1"
    assert proxy.models.closed == ["1"]
    assert proxy.sink.closed


def test_signatures_are_those_of_mlflow():
    from mlflow.webhooks.delivery import _generate_hmac_signature  # noqa: PLC0415  # seconds

    body = orjson.dumps({"entity": "model_version_alias", "action": "created"})
    theirs = _generate_hmac_signature("whsec", "d-1", "1700000000", body.decode())
    assert signature(SECRET, "d-1", "1700000000", body) == theirs


def test_a_signed_webhook_makes_it_look_at_once(start: StartProxy):
    proxy = start(webhook_secret=SECRET, poll_s=3600.0)
    body = orjson.dumps(
        {"entity": "model_version_alias", "action": "created", "data": {"alias": "champion"}}
    )
    sent_at = str(int(time.time()))
    headers = {
        "x-mlflow-delivery-id": "d",
        "x-mlflow-timestamp": sent_at,
        "x-mlflow-signature": signature(SECRET, "d", sent_at, body),
    }
    proxy.models.version = "2"
    url = f"{proxy.url}/v1/harness/reload"
    assert httpx.post(url, content=body + b" ", headers=headers).status_code == 401
    assert httpx.post(url, content=body).status_code == 401
    assert model_of(proxy) == "1"
    assert httpx.post(url, content=body, headers=headers).status_code == 202
    wait_for_model(proxy, "2")


@pytest.mark.parametrize("age_s", [301, -301])
def test_a_recorded_webhook_is_refused_later(age_s: int):
    headers = Headers(
        {
            "x-mlflow-delivery-id": "d",
            "x-mlflow-timestamp": "1700000000",
            "x-mlflow-signature": signature(SECRET, "d", "1700000000", b"{}"),
        }
    )
    check_signature(SECRET, headers, b"{}", now=lambda: 1700000000.0)
    with pytest.raises(Refusal):
        check_signature(SECRET, headers, b"{}", now=lambda: 1700000000.0 + age_s)


def test_outcomes_are_handed_on(proxy: Proxied):
    body = {"decision_id": "d", "source": "tests", "success": True}
    answer = proxy.post(body, path="/v1/harness/outcomes")
    assert answer.status_code == 201
    assert proxy.outcomes == [("d", {"source": "tests", "success": True})]
    wrong: Any
    for wrong in ({}, {"decision_id": "d"}, {**body, "more": 1}, []):
        assert proxy.post(wrong, path="/v1/harness/outcomes").status_code == 400
