"""`/v1/completions`: a prompt in, texts out."""

from collections.abc import Iterator, Sequence
from typing import Final

from harness_core.importers.chat import Message
from harness_core.serving.dialect import Picked, objects, tokens, with_decision
from harness_core.serving.streams import DONE, StreamContent, sse
from harness_core.trajectories.schema import JsonObject


class CompletionsDialect:
    """Plain completions; a prompt counts as the message of a user."""

    path: Final = "/v1/completions"
    takes_n: Final = True

    def messages(self, body: JsonObject) -> list[Message]:
        """The prompt; several prompts, or one in tokens, are no conversation."""
        prompt = body.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1:
            prompt = prompt[0]
        if not isinstance(prompt, str):
            raise ValueError("no single prompt of text")  # noqa: TRY004  # data, not a program's error
        return [Message(role="user", content=prompt)]

    def guided(self, body: JsonObject, text: str) -> JsonObject | None:
        """The text before the prompt."""
        (prompt,) = self.messages(body)
        return {**body, "prompt": f"{text}\n\n{prompt.text}"}

    def choices(self, reply: JsonObject) -> list[JsonObject]:
        """The choices that hold a text."""
        found = objects(reply.get("choices"))
        return [item for item in found if isinstance(item.get("text"), str)]

    def said(self, choice: JsonObject) -> Message:
        """The text of a choice."""
        return Message(role="assistant", content=choice["text"])

    def usage(self, reply: JsonObject) -> dict[str, int]:
        """Tokens of all choices together."""
        return tokens(reply.get("usage"))

    def assemble(self, stream: StreamContent) -> JsonObject:
        """Put texts together by choice."""
        reply: JsonObject = {}
        choices: dict[int, JsonObject] = {}
        for chunk in stream.payloads:
            reply.update({key: value for key, value in chunk.items() if key != "choices"})
            for part in objects(chunk.get("choices")):
                index = part.get("index") or 0
                known = choices.setdefault(index, {"index": index, "text": ""})
                text = known["text"] + (part.get("text") or "")
                known.update({**part, "text": text})
        if not stream.is_done:
            stream.oddities.add("no_done")
        return {**reply, "choices": [choices[index] for index in sorted(choices)]}

    def answer(self, picked: Sequence[Picked], *, decision_id: str) -> JsonObject:
        """The first picked reply with the picked choices."""
        choices = [{**item.choice, "index": place} for place, item in enumerate(picked)]
        return with_decision({**picked[0].reply, "choices": choices}, decision_id)

    def withheld(self, reply: JsonObject, *, reason: str, decision_id: str) -> JsonObject:
        """An empty text that was filtered; there is no place for the reason but the metadata."""
        choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": "content_filter"}
        held = with_decision({**reply, "choices": [choice]}, decision_id)
        return {**held, "metadata": {**held["metadata"], "refusal": reason}}

    def stream(self, answer: JsonObject, body: JsonObject) -> Iterator[bytes]:
        """One event a choice."""
        head = {key: value for key, value in answer.items() if key not in ("choices", "usage")}
        options = body.get("stream_options")
        for choice in answer["choices"]:
            yield sse({**head, "choices": [choice]})
        if isinstance(options, dict) and options.get("include_usage"):
            yield sse({**head, "choices": [], "usage": answer.get("usage")})
        yield DONE
