"""What a stub upstream says: candidates by name, and the documents and streams of three APIs."""

import json
from collections.abc import Sequence
from typing import Any

GOOD = "```python\ndef add(a, b):\n    return a + b\n```"
LONG = "```python\ndef add(a, b):\n    total = a\n    total = total + b\n    return total\n```"
BAD = "```python\nimport os\n\n\ndef add(a, b):\n    os.system('id')\n    return a + b\n```"
TOOL_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}
DENIED_CALL = {
    "id": "call_2",
    "type": "function",
    "function": {"name": "write_file", "arguments": '{"path": "/root/.ssh/authorized_keys"}'},
}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}

MESSAGES: dict[str, dict[str, Any]] = {
    "good": {"role": "assistant", "content": GOOD, "refusal": None},
    "long": {"role": "assistant", "content": LONG, "refusal": None},
    "bad": {"role": "assistant", "content": BAD, "refusal": None},
    "words": {"role": "assistant", "content": "It is 4, « naïvement » 🙂.", "annotations": []},
    "empty": {"role": "assistant", "content": ""},
    "refusal": {"role": "assistant", "content": None, "refusal": "I cannot help with that."},
    "reasoning": {"role": "assistant", "content": "4", "reasoning_content": "2 and 2 …"},
    "unknown": {"role": "assistant", "content": "4", "x_vendor": {"depth": [1, 2]}},
    "tool": {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
    "denied": {"role": "assistant", "content": None, "tool_calls": [DENIED_CALL]},
    "two_tools": {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL, DENIED_CALL]},
}
"""Candidates by name; `a+b` in a script is a list of them, taken in turn."""
ODD_STREAMS = ("stop_on_tools", "empty_choices", "no_done", "lost_tool_delta", "early_close")
"""What streams in the wild do wrong."""


def choice_of(message: dict[str, Any], index: int, *, with_logprobs: bool) -> dict[str, Any]:
    token = {"token": "4", "logprob": -0.1, "bytes": [52], "top_logprobs": []}
    return {
        "index": index,
        "message": message,
        "logprobs": {"content": [token], "refusal": None} if with_logprobs else None,
        "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
    }


def usage_of(n: int) -> dict[str, int]:
    return {
        "prompt_tokens": USAGE["prompt_tokens"],
        "completion_tokens": USAGE["completion_tokens"] * n,
        "total_tokens": USAGE["prompt_tokens"] + USAGE["completion_tokens"] * n,
    }


def chat_events(
    choices: Sequence[dict[str, Any]], behaviour: str, *, wants_usage: bool
) -> list[bytes]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(index: int, delta: dict[str, Any], finish: str | None = None, **rest: Any) -> bytes:
        choice = {"index": index, "delta": delta, "finish_reason": finish, **rest}
        return data({**head, "choices": [choice]})

    events = [data({**head, "choices": []})] if behaviour == "empty_choices" else []
    for choice in choices:
        index, message = choice["index"], choice["message"]
        events.append(chunk(index, {"role": "assistant", "content": ""}))
        for key in ("reasoning_content", "content", "refusal"):
            text = message.get(key) or ""
            pieces = [text[at : at + 9] for at in range(0, len(text), 9)]
            events += [chunk(index, {key: piece}, logprobs=choice["logprobs"]) for piece in pieces]
        for place, call in enumerate(message.get("tool_calls") or ()):
            arguments = call["function"]["arguments"]
            begun = {**call, "index": place, "function": {**call["function"], "arguments": ""}}
            if behaviour != "lost_tool_delta":
                events.append(chunk(index, {"tool_calls": [begun]}))
            events += [
                chunk(index, {"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
                for piece in (arguments[:5], arguments[5:])
            ]
        finish = "stop" if behaviour == "stop_on_tools" else choice["finish_reason"]
        events.append(chunk(index, {}, finish))
    if wants_usage:
        events.append(data({**head, "choices": [], "usage": usage_of(len(choices))}))
    return events if behaviour == "no_done" else [*events, b"data: [DONE]\n\n"]


def response_document(message: dict[str, Any], *, model: str) -> dict[str, Any]:
    output: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "id": f"fc_{place}",
            "call_id": call["id"],
            "status": "completed",
            **call["function"],
        }
        for place, call in enumerate(message.get("tool_calls") or ())
    ]
    if message.get("content"):
        text = {"type": "output_text", "text": message["content"], "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        output.append({**item, "content": [text]})
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 11,
            "output_tokens": 7,
            "total_tokens": 18,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def data(payload: Any) -> bytes:
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def event(name: str, **payload: Any) -> bytes:
    return f"event: {name}\n".encode() + data({"type": name, **payload})
