"""More candidates are asked for where one is worth its price; tries are repeated under guidance."""

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.controller.decision import Decision, GuidanceRetry, Reason
from harness_core.trajectories.guidance import Guided, guidance_of
from tests.serving.conftest import Models, Proxied, StartProxy, proxied, python
from tests.serving.fake_selector import ShortestFirst
from tests.serving.stub_documents import GOOD, LONG


class Priced(ShortestFirst):
    """One more candidate gains what a test says, whatever there is."""

    def __init__(self, gain: float, **changes: Any) -> None:
        super().__init__(**changes)
        self.gain = gain

    def wants_more(self, decision: Decision, *, price: float | None = None) -> bool:
        return self.gain >= (price or 0)


def asked_for(proxy: Proxied) -> list[int]:
    return [body.get("n") or 1 for body in proxy.stub.seen.bodies]


def usage(answer: httpx.Response) -> dict[str, int]:
    return orjson.loads(answer.headers["x-harness-usage"])


def test_an_easy_state_takes_two_candidates_and_a_hard_one_all(start: StartProxy):
    gains = Priced(0.01)
    proxy = start(mode="rerank", k=8, candidate_price=0.05, selector=gains)
    easy = proxy.chat("plain:long+good", **python())
    assert asked_for(proxy) == [2]
    assert usage(easy)["completion_tokens"] == 14
    gains.gain = 0.1
    hard = proxy.chat("plain:long+good", **python())
    assert asked_for(proxy)[1:] == [2, 2, 4]
    assert usage(hard) == {
        "prompt_tokens": 33,
        "completion_tokens": 56,
        "total_tokens": 89,
        "calls": 3,
    }
    first, second = proxy.sink.wait_for(2)
    assert (first.n_asked, len(first.candidates)) == (2, 2)
    assert (second.n_asked, len(second.candidates)) == (8, 8)


def test_without_a_price_all_are_asked_for_at_once(start: StartProxy):
    proxy = start(mode="rerank", k=8, selector=Priced(1.0))
    proxy.chat("plain")
    assert asked_for(proxy) == [8]


def test_the_price_can_be_named_by_request(start: StartProxy):
    proxy = start(mode="rerank", k=4, selector=Priced(0.1))
    body = {"model": "plain", "messages": [{"role": "user", "content": "?"}]}
    proxy.post(body, x_harness_candidate_price="0.2")
    assert asked_for(proxy) == [2]
    assert proxy.post(body, x_harness_candidate_price="2").status_code == 400


@pytest.mark.parametrize("k_max", [1, 3, 5])
def test_no_more_are_asked_for_than_the_model_chooses_well_from(start: StartProxy, k_max: int):
    selector = Priced(1.0)
    models = Models(selector, k_max=k_max)
    proxy = start(mode="rerank", k=16, candidate_price=0.0, models=models)
    proxy.chat("plain")
    assert sum(asked_for(proxy)) == k_max


def test_whoever_wants_n_choices_gets_them_whatever_they_cost(start: StartProxy):
    proxy = start(mode="rerank", k=8, candidate_price=1.0, models=Models(Priced(0.0), k_max=3))
    assert len(proxy.chat("plain:long+good", n=5).json()["choices"]) == 5
    assert asked_for(proxy) == [5]


def test_calls_for_more_are_no_repetitions(start: StartProxy):
    proxy = start(mode="rerank", k=8, candidate_price=0.0, selector=Priced(1.0))
    body = {"model": "plain", "messages": [{"role": "user", "content": "?"}], "seed": 7}
    proxy.post(body, idempotency_key="once")
    assert [one["seed"] for one in proxy.stub.seen.bodies] == [7, 9, 11]
    keys = [seen["idempotency-key"] for seen in proxy.stub.seen.headers]
    assert keys == ["once", "once-2", "once-4"]


def test_an_upstream_that_gives_no_more_is_made_do_with(start: StartProxy):
    proxy = start(mode="rerank", k=8, candidate_price=0.0, selector=Priced(1.0))
    proxy.stub.breaks_at = 2
    answer = proxy.chat("plain:long+good", **python())
    assert answer.json()["choices"][0]["message"]["content"] == GOOD
    assert asked_for(proxy) == [2, 2]


@pytest.fixture(scope="module")
def shared() -> Any:
    with proxied(mode="rerank", selector=Priced(1.0)) as running:
        yield running


@given(
    k=st.integers(1, 16),
    n=st.integers(1, 16),
    gain=st.sampled_from([0.0, 1.0]),
    model=st.sampled_from(["plain", "refuses_n_silently"]),
)
@settings(max_examples=25)
def test_the_log_and_the_usage_tell_how_many_were_asked_for(shared: Proxied, **drawn: Any):
    k, n = drawn["k"], drawn["n"]
    assert isinstance(shared.selector, Priced)
    shared.selector.gain = drawn["gain"]
    shared.stub.seen.bodies.clear()
    body = {"model": drawn["model"], "n": n, "messages": [{"role": "user", "content": "?"}]}
    answer = shared.post(body, x_harness_k=str(k), x_harness_candidate_price="0.5")
    name = answer.headers["x-controller-decision-id"]
    assert shared.sink.has(name)
    (entry,) = [one for one in shared.sink.entries if one.decision_id == name]
    assert len(entry.candidates) == entry.n_asked
    assert usage(answer)["completion_tokens"] == 7 * entry.n_asked
    assert usage(answer)["calls"] == len(shared.stub.seen.bodies)
    assert n <= entry.n_asked <= max(n, k)


class Unsure(ShortestFirst):
    """Would rather have the agent try again, under templates that it has not had yet."""

    def __init__(self, templates: Sequence[str], *, until: int) -> None:
        super().__init__()
        self.templates = templates
        self.until = until
        self.histories: list[Sequence[Mapping[str, Any]]] = []

    def select(
        self,
        state: Mapping[str, Any],
        candidates: Sequence[Mapping[str, Any]],
        goal: Mapping[str, float] | None = None,
        *,
        rng: Any = None,
    ) -> Decision:
        decision = super().select(state, candidates, goal)
        self.histories.append(state["history"])
        marks = [guidance_of(step.get("arguments", {})) for step in state["history"]]
        had = [mark.id for mark in marks if mark is not None]
        left = [name for name in self.templates if name not in had]
        if len(self.histories) > self.until or not left or decision.chosen_index is None:
            return decision
        retry = GuidanceRetry(template_id=left[0], text=f"Mind {left[0]}.", round=len(had) + 1)
        return decision.model_copy(
            update={
                "chosen_index": None,
                "reason": Reason.RISK_TOO_HIGH,
                "fallback": "guidance",
                "guidance": retry,
            }
        )


def test_an_unsure_controller_has_the_model_asked_again_under_a_template(start: StartProxy):
    proxy = start(mode="rerank", k=2, selector=Unsure(["edges"], until=1))
    answer = proxy.chat("plain:long+good", **python())
    assert answer.json()["choices"][0]["message"]["content"] == GOOD
    assert answer.headers["x-harness-reason"] == "best_score"
    assert usage(answer)["completion_tokens"] == 28
    first, second = (body["messages"] for body in proxy.stub.seen.bodies)
    assert second == [{"role": "system", "content": "Mind edges."}, *first]
    (entry,) = proxy.sink.wait_for(1)
    assert entry.n_asked == 4
    assert entry.state["initial_state"] == ""
    assert entry.state["history"] == []
    marks = [guidance_of(one["arguments"]) for one in entry.candidates]
    assert marks == [Guided(id="edges", propensity=1.0)] * 2
    (before,) = entry.turned_down
    assert [one["text"] for one in before.candidates] == [one["text"] for one in entry.candidates]
    assert [one.get("arguments") for one in before.candidates] == [None] * 2
    assert before.decision["reason"] == "risk_too_high"
    assert before.decision["guidance"]["template_id"] == "edges"
    assert before.decision["decision_id"] == entry.decision_id


def test_a_system_message_of_the_client_goes_before_the_template(start: StartProxy):
    proxy = start(mode="rerank", k=1, selector=Unsure(["edges"], until=1))
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "?"}]
    proxy.post({"model": "plain", "messages": talk})
    sent = proxy.stub.seen.bodies[1]["messages"]
    assert sent == [{"role": "system", "content": "Be brief.\n\nMind edges."}, talk[1]]


def test_after_three_guided_rounds_the_first_candidate_is_answered(start: StartProxy):
    selector = Unsure(["a", "b", "c", "d", "e"], until=99)
    proxy = start(mode="rerank", k=2, selector=selector)
    answer = proxy.chat("plain:long+good", **python())
    assert answer.json()["choices"][0]["message"]["content"] == LONG
    assert answer.headers["x-harness-reason"] == "risk_too_high"
    told = [body["messages"][0]["content"] for body in proxy.stub.seen.bodies]
    assert told[1:] == ["Mind a.", "Mind b.", "Mind c."]
    counts = [len(history) for history in selector.histories]
    assert counts == [0, 0, 1, 0, 2, 0]
    (entry,) = proxy.sink.wait_for(1)
    assert entry.state["history"] == []
    rounds = [one.candidates for one in (*entry.turned_down, entry)]
    marks = [guidance_of(first.get("arguments", {})) for first, _ in rounds]
    assert [mark and mark.id for mark in marks] == [None, "a", "b", "c"]
    assert entry.n_asked == sum(map(len, rounds))
    assert proxy.count("harness_proxy_fail_open_total", reason="risk_too_high") == 1


def test_guided_candidates_that_are_all_denied_give_way_to_the_first_ones(start: StartProxy):
    proxy = start(mode="rerank", k=1, selector=Unsure(["a"], until=99))
    answer = proxy.chat("plain:good+bad", **python())
    assert answer.json()["choices"][0]["message"]["content"] == GOOD
    assert usage(answer)["calls"] == 2
    (entry,) = proxy.sink.wait_for(1)
    (after,) = entry.turned_down
    assert entry.candidates[0].get("arguments") is None
    assert after.decision["reason"] == "all_filtered"


def test_in_shadow_nobody_is_asked_again(start: StartProxy):
    proxy = start(mode="shadow", selector=Unsure(["a"], until=99))
    proxy.chat("plain")
    (entry,) = proxy.sink.wait_for(1)
    assert entry.decision["guidance"]["template_id"] == "a"
    assert len(proxy.stub.seen.bodies) == 1


@pytest.mark.parametrize(
    ("path", "given", "guided"),
    [
        ("/v1/responses", {"input": "Add."}, {"instructions": "Mind a."}),
        (
            "/v1/responses",
            {"input": "Add.", "instructions": "Be brief."},
            {"instructions": "Be brief.\n\nMind a."},
        ),
        ("/v1/completions", {"prompt": "2+2="}, {"prompt": "Mind a.\n\n2+2="}),
    ],
)
def test_every_way_of_asking_has_a_place_for_a_template(
    start: StartProxy, path: str, given: dict[str, str], guided: dict[str, str]
):
    proxy = start(mode="rerank", k=1, selector=Unsure(["a"], until=1))
    assert proxy.post({"model": "plain", **given}, path=path).status_code == 200
    assert proxy.stub.seen.bodies[1] == {"model": "plain", **given, **guided}
