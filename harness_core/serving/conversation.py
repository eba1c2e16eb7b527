"""Requests and answers as the controller sees them: the same state that an importer would read.

The functions that take messages apart are those of the importer `openai_chat`, so that a
conversation has the same features while it is served as when its log is learnt from.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from harness_core.importers.chat import Message, Turn, action_of, joined, take_apart
from harness_core.importers.openai_chat import chat_task_id
from harness_core.serving.knobs import HarnessFields
from harness_core.trajectories.schema import Action, JsonObject
from harness_core.trajectories.vocabulary import ActionKind, Language

AGENT: Final = "chat"
"""Name of an agent that says no name, as in imported logs."""
_MAX_DEPTH: Final = 64
_FENCE: Final = re.compile(r"^[ \t]*```[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)


class Question(NamedTuple):
    """What is put before the controller."""

    state: JsonObject
    candidates: tuple[JsonObject, ...]


def question_of(
    messages: Sequence[Message], said: Sequence[Message], fields: HarnessFields, *, model: str
) -> Question:
    """State and candidates of a conversation and what may be said next.

    Args:
        messages: the conversation so far.
        said: one message a candidate, at least one.
        fields: what the client says of the state.
        model: name of the model that answers.
    """
    conversations = [take_apart([*messages, one]) for one in said]
    first = conversations[0]
    has_tools = any(message.tool_calls for message in (*messages, *said))
    language = fields.language or (Language.TOOLS if has_tools else Language.TEXT)
    description = first.description if fields.description is None else fields.description
    agent = fields.agent or {}
    state: JsonObject = {
        "task_id": fields.task_id or chat_task_id(description),
        "description": description,
        "initial_state": first.system,
        "language": language.value,
        "agent": {"name": agent.get("name") or AGENT, "model": agent.get("model") or model},
        "history": [_step(turn, language, fields) for turn in first.turns[:-1]],
    }
    if fields.entry_point:
        state["entry_point"] = fields.entry_point
    for name in ("visible_checks", "generated_checks"):
        if getattr(fields, name):
            state[name] = list(getattr(fields, name))
    candidates = [_step(one.turns[-1], language, fields) for one in conversations]
    return Question(state=state, candidates=tuple(candidates))


def program_in(text: str, entry_point: str | None) -> str:
    """The program that a message holds: its last code block that defines the entry point.

    Without such a block it is the last block, and without any block the whole text.
    """
    blocks: list[str] = _FENCE.findall(text)
    if not blocks:
        return text
    name = re.escape(entry_point or "")
    defining = [one for one in blocks if re.search(rf"\bdef\s+{name}\b", one)]
    return (defining or blocks)[-1]


def actions_of(candidates: Sequence[JsonObject]) -> list[Action]:
    """Candidates as the danger rules and the tool policy look at them."""
    return [
        Action(kind=ActionKind(one["kind"]), text=one["text"], arguments=one.get("arguments", {}))
        for one in candidates
    ]


def _step(turn: Turn, language: Language, fields: HarnessFields) -> JsonObject:
    action = action_of(turn.message, max_depth=_MAX_DEPTH)
    kind, text = action.kind, action.text
    if language is Language.PYTHON and kind is ActionKind.MESSAGE:
        kind, text = ActionKind.CODE, program_in(text, fields.entry_point)
    rest: dict[str, Any] = {
        "arguments": action.arguments,
        "observation": joined(message.text for message in turn.seen),
        "result": turn.result,
        "is_error": turn.is_error,
    }
    kept = {name: value for name, value in rest.items() if value not in ("", {}, None)}
    return {"kind": kind.value, "text": text, **kept}
