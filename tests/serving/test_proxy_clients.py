"""The official SDK and an agent framework speak to the proxy as they speak to its upstream."""

import asyncio
import importlib
import re
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.serving.conftest import Proxied, StartProxy, proxied, python
from tests.serving.stub_documents import GOOD, ODD_STREAMS
from tests.serving.stub_upstream import Stub

MODES = ("off", "shadow", "rerank", "filter")
MESSAGES: list[Any] = [{"role": "user", "content": "Add two numbers."}]
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
]


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxied]:
    with proxied(k=3) as running:
        yield running


@pytest.fixture(scope="module")
def client(proxy: Proxied) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="sk-own", max_retries=0)


def in_mode(mode: str, **fields: Any) -> dict[str, Any]:
    return {"extra_headers": {"x-harness-mode": mode}, "extra_body": fields or None}


@pytest.mark.parametrize("mode", MODES)
def test_a_plain_completion(client: openai.OpenAI, mode: str):
    options = in_mode(mode, **python())
    made = client.chat.completions.create(model="plain", messages=MESSAGES, **options)
    assert made.choices[0].message.content == GOOD
    assert made.usage is not None


@pytest.mark.parametrize("mode", MODES)
def test_the_asynchronous_client(proxy: Proxied, mode: str):
    async def many() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="sk") as client:
            calls = [
                client.chat.completions.create(model="plain", messages=MESSAGES, **in_mode(mode))
                for _ in range(12)
            ]
            return await asyncio.gather(*calls)

    assert [one.choices[0].message.content for one in asyncio.run(many())] == [GOOD] * 12


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1, 2])
def test_a_stream_with_its_usage(client: openai.OpenAI, mode: str, n: int):
    stream = client.chat.completions.create(
        model="plain",
        messages=MESSAGES,
        n=n,
        stream=True,
        stream_options={"include_usage": True},
        **in_mode(mode, **python()),
    )
    said, ends, usage = [""] * n, [None] * n, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            said[choice.index] += choice.delta.content or ""
            ends[choice.index] = choice.finish_reason or ends[choice.index]
    assert said == [GOOD] * n
    assert ends == ["stop"] * n
    assert usage is not None


@pytest.mark.parametrize("mode", ["off", "shadow", "rerank"])
@pytest.mark.parametrize("streamed", [False, True])
def test_tool_calls(client: openai.OpenAI, mode: str, *, streamed: bool):
    options: dict[str, Any] = {"model": "plain:two_tools", "messages": MESSAGES, "tools": TOOLS}
    if mode == "rerank":
        options["model"] = "plain:tool"
    if not streamed:
        made = client.chat.completions.create(**options, **in_mode(mode))
        calls = made.choices[0].message.tool_calls or []
        found = [(one.id, one.function.name, one.function.arguments) for one in calls]
    else:
        with client.chat.completions.stream(**options, **in_mode(mode)) as stream:
            message = stream.get_final_completion().choices[0].message
        calls = message.tool_calls or []
        found = [(one.id, one.function.name, one.function.arguments) for one in calls]
    assert found[0] == ("call_1", "get_weather", '{"city": "Paris"}')
    assert len(found) == (1 if mode == "rerank" else 2)


@pytest.mark.parametrize("mode", MODES)
def test_responses_streamed_and_whole(client: openai.OpenAI, mode: str):
    options = in_mode(mode, **python())
    made = client.responses.create(model="plain", input="Add.", **options)
    assert made.output_text == GOOD
    with client.responses.stream(model="plain", input="Add.", **options) as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_response().output_text == GOOD
    assert kinds[-1] == "response.completed"
    assert ("response.output_text.delta" in kinds) == (mode in ("rerank", "filter"))


@pytest.mark.parametrize("mode", ["shadow", "rerank"])
def test_calls_of_functions_in_responses(client: openai.OpenAI, mode: str):
    made = client.responses.create(model="plain:tool", input="Weather?", **in_mode(mode))
    assert made.output[0].type == "function_call"
    stream = client.responses.create(
        model="plain:tool", input="Weather?", stream=True, **in_mode(mode)
    )
    (last,) = [event for event in stream if event.type == "response.completed"]
    assert last.response.output[0].type == "function_call"


@pytest.mark.parametrize("mode", MODES)
def test_completions_and_embeddings_and_models(client: openai.OpenAI, mode: str):
    made = client.completions.create(model="plain", prompt="2+2=", **in_mode(mode))
    assert made.choices[0].text == GOOD
    parts = client.completions.create(model="plain", prompt="2+2=", stream=True, **in_mode(mode))
    assert "".join(part.choices[0].text for part in parts if part.choices) == GOOD
    found = client.embeddings.create(model="e", input="a", encoding_format="float")
    assert found.data[0].embedding == [0.25, -0.5]
    assert [model.id for model in client.models.list()] == ["plain"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("odd", [odd for odd in ODD_STREAMS if odd != "early_close"])
def test_odd_streams_are_read_by_the_client(client: openai.OpenAI, mode: str, odd: str):
    stream = client.chat.completions.create(
        model=f"{odd}:words", messages=MESSAGES, stream=True, **in_mode(mode)
    )
    text = "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices[:1])
    assert text == "It is 4, « naïvement » 🙂."


def test_the_decision_id_can_be_read_from_the_answer(client: openai.OpenAI, proxy: Proxied):
    options = in_mode("rerank")
    raw = client.chat.completions.with_raw_response.create(
        model="plain", messages=MESSAGES, **options
    )
    decision_id = raw.headers["x-controller-decision-id"]
    assert proxy.sink.has(decision_id)


def test_an_agent_of_smolagents_runs_behind_the_proxy(start: StartProxy):
    # It takes seconds, and has no types.
    smolagents: Any = importlib.import_module("smolagents")

    tool = smolagents.tool

    @tool
    def get_weather(city: str) -> str:
        """Say what the weather is.

        Args:
            city: where.
        """
        return f"It rains in {city}."

    def call(name: str, arguments: str) -> dict[str, Any]:
        function = {"name": name, "arguments": arguments}
        made = {"id": f"call_{name}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [made]}

    messages = {
        "ask": call("get_weather", '{"city": "Paris"}'),
        "end": call("final_answer", '{"answer": "Take an umbrella."}'),
    }
    proxy = start(mode="rerank", k=1, stub=Stub(messages))
    model = smolagents.OpenAIModel("plain:ask+end", api_base=f"{proxy.url}/v1", api_key="sk-own")
    options = {"model": model, "max_steps": 3, "verbosity_level": 0}
    agent = smolagents.ToolCallingAgent(tools=[get_weather], **options)
    assert agent.run("What to wear in Paris?") == "Take an umbrella."
    entries = proxy.sink.wait_for(2)
    assert re.search("What to wear in Paris", entries[1].state["description"])
    (step,) = entries[1].state["history"]
    assert "It rains in Paris" in step["result"]
