"""`/v1/responses`: items in, one response out; several candidates take several calls."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Final

from harness_core.importers.chat import Message
from harness_core.serving.dialect import Picked, objects, tokens, with_decision
from harness_core.serving.streams import StreamContent, sse
from harness_core.trajectories.schema import JsonObject

_NAMES: Final = ("input_tokens", "output_tokens")
_LAST: Final = ("response.completed", "response.incomplete", "response.failed")


class ResponsesDialect:
    """The API of responses; a candidate is a whole response."""

    path: Final = "/v1/responses"
    takes_n: Final = False

    def messages(self, body: JsonObject) -> list[Message]:
        """Instructions and items; what an earlier response held is not known here."""
        found: list[Message] = []
        if isinstance(body.get("instructions"), str):
            found.append(Message(role="system", content=body["instructions"]))
        given = body.get("input")
        if isinstance(given, str):
            return [*found, Message(role="user", content=given)]
        for item in objects(given):
            found += _messages(item)
        if not found:
            raise ValueError("no input")
        return found

    def guided(self, body: JsonObject, text: str) -> JsonObject | None:
        """The text ends the instructions."""
        instructions = body.get("instructions")
        grown = f"{instructions}\n\n{text}" if instructions else text
        return {**body, "instructions": grown}

    def choices(self, reply: JsonObject) -> list[JsonObject]:
        """The response itself, if it says or calls anything."""
        kinds = {item.get("type") for item in objects(reply.get("output"))}
        return [reply] if kinds & {"message", "function_call", "custom_tool_call"} else []

    def said(self, choice: JsonObject) -> Message:
        """All that a response says, with all that it calls."""
        parts = [part for item in objects(choice.get("output")) for part in _messages(item)]
        calls = [call for part in parts for call in part.tool_calls or ()]
        text = "".join(part.text for part in parts if not part.tool_calls)
        return Message(role="assistant", content=text or None, tool_calls=calls or None)

    def usage(self, reply: JsonObject) -> dict[str, int]:
        """Tokens of the response."""
        return tokens(reply.get("usage"), _NAMES)

    def assemble(self, stream: StreamContent) -> JsonObject:
        """The response that the last event carries."""
        for event in reversed(stream.payloads):
            if event.get("type") in _LAST and isinstance(event.get("response"), dict):
                return dict(event["response"])
        stream.oddities.add("no_done")
        return {}

    def answer(self, picked: Sequence[Picked], *, decision_id: str) -> JsonObject:
        """The picked response."""
        return with_decision(picked[0].reply, decision_id)

    def withheld(self, reply: JsonObject, *, reason: str, decision_id: str) -> JsonObject:
        """The response with a refusal instead of its output."""
        item = {
            "id": f"msg_{decision_id}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "refusal", "refusal": reason}],
        }
        return with_decision({**reply, "output": [item]}, decision_id)

    def stream(self, answer: JsonObject, body: JsonObject) -> Iterator[bytes]:
        """The events that lead to a response."""
        del body
        numbers = count()

        def event(kind: str, /, **rest: Any) -> bytes:
            payload = {"type": kind, "sequence_number": next(numbers), **rest}
            return sse(payload, event=kind)

        begun = {**answer, "status": "in_progress", "output": [], "usage": None}
        yield event("response.created", response=begun)
        yield event("response.in_progress", response=begun)
        for place, item in enumerate(objects(answer.get("output"))):
            where = {"output_index": place}
            yield event("response.output_item.added", **where, item=_begun(item))
            own = {**where, "item_id": item.get("id", "")}
            for name, rest in _parts(item):
                yield event(name, **own, **rest)
            yield event("response.output_item.done", **where, item=item)
        is_whole = answer.get("status", "completed") == "completed"
        yield event("response.completed" if is_whole else "response.incomplete", response=answer)


def _begun(item: JsonObject) -> JsonObject:
    if item.get("type") == "message":
        return {**item, "content": [], "status": "in_progress"}
    if item.get("type") == "function_call":
        return {**item, "arguments": "", "status": "in_progress"}
    return item


def _parts(item: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Names and contents of the events within an item."""
    if item.get("type") == "function_call":
        arguments = item.get("arguments", "")
        name = "response.function_call_arguments"
        yield f"{name}.delta", {"delta": arguments}
        yield f"{name}.done", {"arguments": arguments, "name": item.get("name", "")}
    for place, part in enumerate(objects(item.get("content"))):
        kind = "refusal" if part.get("type") == "refusal" else "text"
        if item.get("type") != "message" or kind not in part:
            continue
        own = {"content_index": place}
        name = "response.refusal" if kind == "refusal" else "response.output_text"
        more = {} if kind == "refusal" else {"logprobs": part.get("logprobs") or []}
        yield "response.content_part.added", {**own, "part": {**part, kind: ""}}
        yield f"{name}.delta", {**own, "delta": part[kind], **more}
        yield f"{name}.done", {**own, kind: part[kind], **more}
        yield "response.content_part.done", {**own, "part": part}


def _messages(item: JsonObject) -> list[Message]:
    """An item as chat messages; reasoning and unknown items say nothing."""
    kind = item.get("type", "message")
    if kind in ("function_call", "custom_tool_call"):
        arguments = item.get("arguments", item.get("input", ""))
        call = {"function": {"name": item.get("name", ""), "arguments": arguments}}
        return [Message.model_validate({"role": "assistant", "tool_calls": [call]})]
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = item.get("output")
        return [Message.model_validate({"role": "tool", "content": output})]
    if kind != "message":
        return []
    content = item.get("content")
    refusals = [part["refusal"] for part in objects(content) if part.get("type") == "refusal"]
    if refusals:
        content = "\n".join(map(str, refusals))
    return [Message.model_validate({"role": item.get("role", "user"), "content": content})]
