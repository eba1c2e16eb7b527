"""Whatever breaks, the agent gets a valid answer of the upstream; what is denied stays denied."""

import threading
from collections.abc import Iterator

import httpx
import openai
import pytest

from harness_core.controller.controller import Controller
from harness_core.controller.decision import Reason
from harness_core.serving.selector import Located, OpenModel
from tests.serving.conftest import Models, Proxied, StartProxy, ask, proxied, python
from tests.serving.fake_selector import ShortestFirst
from tests.serving.stub_documents import GOOD, LONG


@pytest.fixture(scope="module")
def shared() -> Iterator[Proxied]:
    """For requests that leave nothing behind."""
    with proxied() as running:
        yield running


def first_text(answer: httpx.Response) -> str | None:
    assert answer.status_code == 200
    return answer.json()["choices"][0]["message"]["content"]


def ranked(proxy: Proxied, script: str = "bad+long+good", **headers: str) -> httpx.Response:
    proxy.stub.n_asked = 0
    return proxy.post({**ask(f"plain:{script}"), **python()}, x_harness_mode="rerank", **headers)


def test_when_the_budget_is_over_the_first_harmless_candidate_is_answered(start: StartProxy):
    selector = ShortestFirst()
    selector.waits_for = threading.Event()
    proxy = start(selector=selector)
    answer = ranked(proxy, x_harness_budget_ms="20")
    selector.waits_for.set()
    assert first_text(answer) == LONG
    assert answer.headers["x-harness-reason"] == "timeout"
    assert proxy.count("harness_proxy_fail_open_total", reason="timeout") == 1
    (entry,) = proxy.sink.wait_for(1)
    assert (entry.failure, entry.answered_index, entry.decision) == ("timeout", 1, None)


@pytest.mark.parametrize("death", [SystemExit(1), MemoryError(), RecursionError(), ValueError()])
def test_when_the_scorer_dies(start: StartProxy, death: BaseException):
    selector = ShortestFirst()
    selector.raises = death
    proxy = start(selector=selector)
    for _ in range(4):
        answer = ranked(proxy)
        assert first_text(answer) == LONG
        assert answer.headers["x-harness-reason"] == "scorer_error"
    selector.raises = None
    assert first_text(ranked(proxy)) == GOOD


def test_when_every_decider_hangs_the_deny_list_still_holds(start: StartProxy):
    selector = ShortestFirst()
    selector.waits_for = threading.Event()
    proxy = start(selector=selector, limits={"max_scoring": 2})
    reasons = [ranked(proxy, x_harness_budget_ms="5").headers["x-harness-reason"] for _ in range(5)]
    assert reasons == ["timeout"] * 2 + ["busy"] * 3
    assert first_text(proxy.chat("plain:bad", mode="filter", **python())) is None
    selector.waits_for.set()


def test_when_there_is_no_model(start: StartProxy):
    proxy = start(models=Models(ShortestFirst(), version=None))
    assert first_text(ranked(proxy)) == LONG
    assert proxy.count("harness_proxy_fail_open_total", reason="no_model") == 1
    assert httpx.get(f"{proxy.url}/readyz").json()["model"] is None


def test_when_the_model_folder_is_damaged(start: StartProxy, tmp_path):
    class Damaged(Models):
        def open_folder(self, located: Located) -> OpenModel:
            controller = Controller.load(tmp_path)
            return OpenModel(version="1", selector=controller)

    (tmp_path / "manifest.json").write_text('{"format_version": 1')
    proxy = start(models=Damaged(None))
    assert first_text(ranked(proxy)) == LONG
    assert proxy.count("harness_proxy_model_loads_total", result="failed") == 1


@pytest.mark.parametrize(
    "reason", [Reason.LOW_CONFIDENCE, Reason.OUT_OF_DISTRIBUTION, Reason.RISK_TOO_HIGH]
)
def test_when_the_controller_stands_aside(start: StartProxy, reason: Reason):
    changes = {"reason": reason, "chosen_index": None, "fallback": "abstain"}
    proxy = start(selector=ShortestFirst(**changes))
    answer = ranked(proxy)
    assert first_text(answer) == LONG
    assert answer.headers["x-harness-reason"] == reason.value
    assert proxy.count("harness_proxy_fail_open_total", reason=reason.value) == 1
    (entry,) = proxy.sink.wait_for(1)
    assert entry.decision["chosen_index"] is None
    assert entry.answered_index == 1


def test_an_explored_choice_is_answered_and_its_propensity_logged(start: StartProxy):
    changes = {"reason": Reason.EXPLORATION, "chosen_index": 1, "propensity": 0.025}
    proxy = start(selector=ShortestFirst(**changes))
    assert first_text(ranked(proxy)) == LONG
    (entry,) = proxy.sink.wait_for(1)
    assert entry.propensity == 0.025


@pytest.mark.parametrize("mode", ["off", "shadow", "rerank", "filter"])
@pytest.mark.parametrize(
    ("behaviour", "status"), [("limited", 429), ("broken", 500), ("wrong", 400)]
)
def test_errors_of_the_upstream_reach_the_client(
    shared: Proxied, mode: str, behaviour: str, status: int
):
    client = openai.OpenAI(base_url=f"{shared.url}/v1", api_key="sk", max_retries=0)
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(
            model=behaviour,
            messages=[{"role": "user", "content": "?"}],
            extra_headers={"x-harness-mode": mode},
        )
    assert caught.value.status_code == status
    if behaviour == "limited":
        assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize("mode", ["rerank", "filter"])
def test_garbage_is_not_ranked_but_reported(shared: Proxied, mode: str):
    answer = shared.chat("garbage", mode=mode)
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "upstream_unreadable"


@pytest.mark.parametrize("mode", ["shadow", "rerank"])
def test_a_frozen_upstream_is_given_up(start: StartProxy, mode: str):
    proxy = start(limits={"read_s": 0.1})
    answer = proxy.chat("freezes", mode=mode)
    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "upstream_timeout"


def test_an_upstream_that_is_not_there_is_an_error_of_its_own(start: StartProxy):
    proxy = start(upstream="http://127.0.0.1:9")
    assert proxy.chat("plain").json()["error"]["code"] == "upstream_unreachable"


def test_a_stream_that_stalls_is_cut(start: StartProxy):
    proxy = start(limits={"stream_idle_s": 0.1})
    with pytest.raises(httpx.RemoteProtocolError):
        proxy.chat("stalls", stream=True)


@pytest.mark.parametrize("mode", ["off", "rerank"])
def test_nobody_is_sent_elsewhere(shared: Proxied, mode: str):
    answer = shared.chat("redirects", mode=mode)
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "upstream_redirects"


@pytest.mark.parametrize("body", [{"messages": "none"}, {"messages": [{"role": 3}]}])
def test_messages_that_cannot_be_read_are_the_upstreams_business(shared: Proxied, body):
    assert first_text(shared.post({"model": "plain", **body}, x_harness_mode="rerank")) == GOOD
