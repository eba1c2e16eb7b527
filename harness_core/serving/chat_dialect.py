"""`/v1/chat/completions`: messages in, choices out, and its streams put together."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from harness_core.importers.chat import Message
from harness_core.serving.dialect import (
    Picked,
    objects,
    readable_calls,
    tokens,
    with_decision,
)
from harness_core.serving.streams import DONE, StreamContent, sse
from harness_core.trajectories.schema import JsonObject

_SYSTEM: Final = ("system", "developer")
_WHOLE: Final = ("role", "id", "type")
"""Strings of a delta that are said once; all others grow."""


class ChatDialect:
    """Chat completions."""

    path: Final = "/v1/chat/completions"
    takes_n: Final = True

    def messages(self, body: JsonObject) -> list[Message]:
        """The messages of a request."""
        found = objects(body.get("messages"))
        if not found:
            raise ValueError("no messages")
        return [Message.model_validate(readable_calls(item)) for item in found]

    def guided(self, body: JsonObject, text: str) -> JsonObject | None:
        """The text ends the first system message, or is one: many servers take no second one."""
        messages = objects(body.get("messages"))
        if not messages:
            return None
        first, rest = messages[0], messages[1:]
        content = first.get("content")
        if first.get("role") not in _SYSTEM:
            return {**body, "messages": [{"role": "system", "content": text}, *messages]}
        if isinstance(content, list):
            grown: Any = [*content, {"type": "text", "text": text}]
        else:
            grown = f"{content}\n\n{text}" if content else text
        return {**body, "messages": [{**first, "content": grown}, *rest]}

    def choices(self, reply: JsonObject) -> list[JsonObject]:
        """The choices that hold a message, by their index."""
        found = [item for item in objects(reply.get("choices")) if "message" in item]
        return sorted(found, key=_index)

    def said(self, choice: JsonObject) -> Message:
        """The message of a choice."""
        message = choice["message"]
        if not isinstance(message, dict):
            raise ValueError("a message that is no object")  # noqa: TRY004  # data, no argument
        return Message.model_validate(readable_calls({"role": "assistant", **message}))

    def usage(self, reply: JsonObject) -> dict[str, int]:
        """Tokens of all choices together."""
        return tokens(reply.get("usage"))

    def assemble(self, stream: StreamContent) -> JsonObject:
        """Put deltas together by choice, and by tool call within it."""
        reply: JsonObject = {"object": "chat.completion"}
        choices: dict[int, JsonObject] = {}
        for chunk in stream.payloads:
            reply.update(
                {key: value for key, value in chunk.items() if key not in ("choices", "object")}
            )
            if chunk.get("choices") == [] and "usage" not in chunk:
                stream.oddities.add("empty_choices")
            for part in objects(chunk.get("choices")):
                _grow(choices.setdefault(_index(part), _empty(_index(part))), part, stream)
        if not stream.is_done:
            stream.oddities.add("no_done")
        for choice in choices.values():
            _finish(choice, stream)
        return {**reply, "choices": [choices[index] for index in sorted(choices)]}

    def answer(self, picked: Sequence[Picked], *, decision_id: str) -> JsonObject:
        """The first picked reply with the picked choices."""
        choices = [{**item.choice, "index": place} for place, item in enumerate(picked)]
        return with_decision({**picked[0].reply, "choices": choices}, decision_id)

    def withheld(self, reply: JsonObject, *, reason: str, decision_id: str) -> JsonObject:
        """A refusal, as the API has it for filtered content."""
        message = {"role": "assistant", "content": None, "refusal": reason}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": "content_filter",
        }
        return with_decision({**reply, "choices": [choice]}, decision_id)

    def stream(self, answer: JsonObject, body: JsonObject) -> Iterator[bytes]:
        """Each choice as a beginning, its content and its end; then the usage if it was wanted."""
        head = {key: value for key, value in answer.items() if key not in ("choices", "usage")}
        head["object"] = "chat.completion.chunk"
        options = body.get("stream_options")
        wants_usage = isinstance(options, dict) and bool(options.get("include_usage"))
        if wants_usage:
            head["usage"] = None

        def chunk(index: int, delta: JsonObject, **rest: Any) -> bytes:
            own = {"index": index, "delta": delta, "finish_reason": None, **rest}
            return sse({**head, "choices": [own]})

        for choice in answer["choices"]:
            index, message = choice["index"], choice["message"]
            calls = objects(message.get("tool_calls"))
            yield chunk(index, {"role": message.get("role", "assistant"), "content": ""})
            rest = {
                key: value
                for key, value in message.items()
                if key not in ("role", "tool_calls") and value is not None
            }
            if rest:
                yield chunk(index, rest, logprobs=choice.get("logprobs"))
            for place, call in enumerate(calls):
                yield chunk(index, {"tool_calls": [{"index": place, **call}]})
            yield chunk(index, {}, finish_reason=choice.get("finish_reason") or "stop")
        if wants_usage:
            yield sse({**head, "choices": [], "usage": answer.get("usage")})
        yield DONE


def _index(choice: JsonObject) -> int:
    index = choice.get("index", 0)
    return index if isinstance(index, int) else 0


def _empty(index: int) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": None}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": None}


def _grow(choice: JsonObject, part: JsonObject, stream: StreamContent) -> None:
    delta = part.get("delta")
    message = choice["message"]
    for key, value in delta.items() if isinstance(delta, dict) else ():
        if key == "tool_calls":
            calls = message.setdefault("tool_calls", [])
            for call in objects(value):
                _grow_call(calls, call)
        else:
            _add(message, key, value)
    if isinstance(part.get("logprobs"), dict):
        known = choice["logprobs"] = choice["logprobs"] or {}
        for key, value in part["logprobs"].items():
            _add(known, key, value)
    if part.get("finish_reason") is not None:
        choice["finish_reason"] = part["finish_reason"]
    if not isinstance(delta, dict):
        stream.oddities.add("no_delta")


def _grow_call(calls: list[JsonObject], part: JsonObject) -> None:
    """Deltas belong to the call of their index; where there is none, to one with the same id."""
    place = part.get("index")
    if not isinstance(place, int):
        known = [call["index"] for call in calls if call.get("id") == part.get("id")]
        is_new = part.get("id") is not None and not known
        place = len(calls) if is_new or not calls else (known or [calls[-1]["index"]])[0]
    call = next((one for one in calls if one["index"] == place), None)
    if call is None:
        call = {"index": place, "function": {"name": "", "arguments": ""}}
        calls.append(call)
    for key, value in part.items():
        if key == "function" and isinstance(value, dict):
            for name, text in value.items():
                _add(call["function"], name, text)
        elif key != "index":
            _add(call, key, value)


def _add(target: JsonObject, key: str, value: Any) -> None:
    known = target.get(key)
    if value is None:
        target.setdefault(key, None)
    elif isinstance(known, list) and isinstance(value, list):
        target[key] = [*known, *value]
    elif isinstance(known, str) and isinstance(value, str) and key not in _WHOLE:
        target[key] = known + value
    else:
        target[key] = value


def _finish(choice: JsonObject, stream: StreamContent) -> None:
    """Leave out calls whose beginning was lost, and note what does not fit together."""
    message = choice["message"]
    calls = message.pop("tool_calls", None)
    if calls:
        named = [call for call in calls if call["function"].get("name") or call.get("custom")]
        if len(named) < len(calls):
            stream.oddities.add("lost_tool_delta")
        if named:
            message["tool_calls"] = [
                {key: value for key, value in call.items() if key != "index"} for call in named
            ]
        if choice["finish_reason"] == "stop":
            stream.oddities.add("stop_on_tool_calls")
    if choice["finish_reason"] is None:
        stream.oddities.add("no_finish_reason")
