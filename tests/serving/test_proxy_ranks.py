"""In `rerank` and `filter` the agent gets the best of K candidates that no rule takes out."""

import time
from collections.abc import Iterator

import httpx
import pytest

from harness_core.controller.decision import Reason
from tests.serving.conftest import Proxied, StartProxy, ask, proxied, python
from tests.serving.stub_documents import BAD, GOOD, LONG, USAGE
from tests.serving.stub_upstream import Stub


@pytest.fixture
def proxy(start: StartProxy) -> Proxied:
    return start(mode="rerank", k=4)


@pytest.fixture(scope="module")
def shared() -> Iterator[Proxied]:
    """For requests that leave nothing behind."""
    with proxied(mode="rerank", k=4) as running:
        yield running


def texts(answer: httpx.Response) -> list[str | None]:
    return [choice["message"]["content"] for choice in answer.json()["choices"]]


def test_one_call_brings_k_candidates_and_the_best_one_is_answered(proxy: Proxied):
    answer = proxy.chat("plain:long+bad+good+long", **python())
    assert texts(answer) == [GOOD]
    assert answer.json()["choices"][0]["index"] == 0
    assert answer.json()["x_unknown"] == {"kept": True}
    assert [body["n"] for body in proxy.stub.seen.bodies] == [4]
    assert answer.headers["x-harness-reason"] == "best_score"
    assert answer.headers["x-request-id"] == "req_1"
    (entry,) = proxy.sink.wait_for(1)
    assert entry.answered_index == 2
    assert [item["index"] for item in entry.decision["filtered"]] == [1]
    named = answer.json()["metadata"]["controller_decision_id"]
    assert named == entry.decision_id == answer.headers["x-controller-decision-id"]


def test_a_decision_is_in_the_log_before_its_id_is_told(proxy: Proxied):
    slow = proxy.sink.append

    def append(entry) -> None:
        time.sleep(0.2)
        slow(entry)

    proxy.sink.append = append  # type: ignore[method-assign]  # a slow disk
    answer = proxy.chat("plain", **python())
    (entry,) = proxy.sink.entries
    assert entry.decision_id == answer.headers["x-controller-decision-id"]


def test_the_clients_own_n_gets_the_best_n_counted_from_0(proxy: Proxied):
    answer = proxy.chat("plain:long+bad+good", n=2, **python())
    assert texts(answer) == [GOOD, LONG]
    assert [choice["index"] for choice in answer.json()["choices"]] == [0, 1]


def test_more_choices_than_k_are_asked_for_if_the_client_wants_more(proxy: Proxied):
    assert len(proxy.chat("plain:words", n=6).json()["choices"]) == 6
    assert proxy.stub.seen.bodies[-1]["n"] == 6


def test_more_choices_than_may_be_ranked_are_refused(shared: Proxied):
    assert shared.chat("plain", n=17).status_code == 400


@pytest.mark.parametrize("behaviour", ["refuses_n", "refuses_n_silently"])
def test_an_upstream_without_n_is_asked_k_times_and_that_is_remembered(
    proxy: Proxied, behaviour: str
):
    first = proxy.chat(f"{behaviour}:long+good", seed=5, **python())
    assert texts(first) == [GOOD]
    n_before = len(proxy.stub.seen.bodies)
    answer = proxy.chat(f"{behaviour}:long+good", seed=5, **python())
    bodies = proxy.stub.seen.bodies[n_before:]
    assert len(bodies) == 4
    assert sorted(body["seed"] for body in bodies) == [5, 6, 7, 8]
    usage = answer.headers["x-harness-usage"]
    assert usage == (
        f'{{"prompt_tokens":{4 * USAGE["prompt_tokens"]},"completion_tokens":28,'
        '"total_tokens":72,"calls":4}'
    )


def test_repeated_calls_are_not_taken_for_repetitions(proxy: Proxied):
    proxy.post(ask("refuses_n_silently"), idempotency_key="once")
    keys = [seen["idempotency-key"] for seen in proxy.stub.seen.headers]
    assert keys == ["once", "once-1", "once-2", "once-3"]


def test_a_wrong_request_is_told_what_the_upstream_says(proxy: Proxied):
    answer = proxy.chat("wrong")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages"
    assert len(proxy.stub.seen.bodies) == 2


def test_k_and_goal_can_be_chosen_by_request(proxy: Proxied):
    proxy.post(ask("plain"), x_harness_k="2", x_harness_goal='{"excess_lines": -3}')
    assert proxy.stub.seen.bodies[-1]["n"] == 2
    assert proxy.selector.asked[-1][2] == {"excess_lines": -3.0}
    proxy.chat("plain", harness={"goal": {"outcome": 1.0}})
    assert proxy.selector.asked[-1][2] == {"outcome": 1.0}


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("mode", "best"),
        ("k", "0"),
        ("k", "17"),
        ("k", "two"),
        ("budget-ms", "nan"),
        ("goal", "[1]"),
        ("goal", '{"outcome": true}'),
    ],
)
def test_a_wrong_header_is_named(shared: Proxied, header: str, value: str):
    answer = shared.post(ask("plain"), **{f"x_harness_{header.replace('-', '_')}": value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == f"x-harness-{header}"


@pytest.mark.parametrize("fields", [3, {"language": "cobol"}, {"task": "t"}, {"goal": {"a": "b"}}])
def test_a_wrong_state_is_named(shared: Proxied, fields):
    answer = shared.chat("plain", harness=fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("harness")


def test_when_all_are_dangerous_none_is_answered_and_the_reply_is_valid(proxy: Proxied):
    choice = proxy.chat("plain:bad", **python()).json()["choices"][0]
    assert choice["finish_reason"] == "content_filter"
    assert "B605" in choice["message"]["refusal"]
    (entry,) = proxy.sink.wait_for(1)
    assert entry.answered_index is None
    assert entry.decision["reason"] == "all_filtered"


def test_a_choice_that_needs_a_person_says_so(start: StartProxy):
    proxy = start(mode="filter")
    assert proxy.chat("plain:tool").headers["x-harness-review"] == "required"


def test_filter_asks_for_one_and_for_more_only_if_it_is_denied(start: StartProxy):
    proxy = start(mode="filter", k=4)
    assert texts(proxy.chat("plain:good", **python())) == [GOOD]
    assert len(proxy.stub.seen.bodies) == 1
    proxy.stub.n_asked = 0
    answer = proxy.chat("plain:bad+long", **python())
    assert texts(answer) == [LONG]
    assert [body.get("n") for body in proxy.stub.seen.bodies] == [None, None, 3]
    assert not proxy.selector.asked
    entries = proxy.sink.wait_for(2)
    assert entries[1].decision["reason"] == Reason.RULES_ONLY.value
    assert [item["index"] for item in entries[1].decision["filtered"]] == [0, 2]


def test_the_tool_policy_is_filtered_by(start: StartProxy):
    proxy = start(mode="filter", k=2)
    calls = proxy.chat("plain:denied+tool").json()["choices"][0]["message"]["tool_calls"]
    assert calls[0]["function"]["name"] == "get_weather"


def test_a_filter_cannot_be_switched_off_by_a_client(start: StartProxy):
    proxy = start(mode="filter")
    assert proxy.chat("plain:bad", mode="off").status_code == 403
    assert proxy.chat("plain:bad", mode="shadow").status_code == 403


def test_a_body_that_cannot_be_read_is_not_passed_on_unfiltered(start: StartProxy):
    proxy = start(mode="filter")
    url = f"{proxy.url}/v1/chat/completions"
    answer = httpx.post(url, content=b'{"model": "plain", "messages": [], "x": NaN}')
    assert answer.status_code == 400
    assert not proxy.stub.seen.bodies


def test_completions_are_ranked_too(proxy: Proxied):
    body = {"model": "plain:long+good", "prompt": "2+2=", **python()}
    answer = proxy.post(body, path="/v1/completions")
    assert [choice["text"] for choice in answer.json()["choices"]] == [GOOD]


def test_responses_take_k_calls(proxy: Proxied):
    body = {"model": "plain:long+good+bad+long", "input": "Add.", **python()}
    answer = proxy.post(body, path="/v1/responses")
    assert answer.json()["output"][0]["content"][0]["text"] == GOOD
    assert len(proxy.stub.seen.bodies) == 4
    assert '"completion_tokens":28' in answer.headers["x-harness-usage"]


def test_withheld_responses_and_completions_are_valid(start: StartProxy):
    proxy = start(mode="filter", k=2)
    body = {"model": "plain:bad", **python()}
    answer = proxy.post({**body, "input": "Add."}, path="/v1/responses").json()
    assert answer["output"][0]["content"][0]["type"] == "refusal"
    answer = proxy.post({**body, "prompt": "Add."}, path="/v1/completions").json()
    assert answer["choices"][0]["finish_reason"] == "content_filter"


def test_the_last_code_block_with_the_entry_point_is_the_program(start: StartProxy):
    message = {
        "role": "assistant",
        "content": f"First\n```python\nx = 1\n```\nthen\n{BAD}\nand\n```sh\nls\n```",
    }
    proxy = start(mode="rerank", stub=Stub({"good": message}))
    proxy.chat("plain", **python())
    (_, candidates, _) = proxy.selector.asked[-1]
    assert candidates[0]["text"].startswith("import os")
    assert candidates[0]["kind"] == "code"
