"""ATIF documents and trajectories: what each says in the other's words, without loss.

ATIF v1.8 has no reward, no candidates and no task. Where it has no word, ours stand in `extra.rl`
(a step's `reward`, `terminal`, `truncated`; whatever else our records say beyond the document) and
`extra.controller` (`decision_id`, `candidates`, `chosen_index`, `propensity`). Where a document
says more than our records (times, ids, metrics, steps of others), the difference between it and
what we would have written is kept in `Trajectory.extra["atif"]`. So both round trips are exact by
construction, but for `schema_version`, which is always written as v1.8.

Steps of the agent with `is_copied_context` were told in another document: they are kept as others'
steps, and no step of ours is made of them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from harness_core.importers.atif_residue import (
    SCHEMA_VERSION,
    is_own,
    residue_of,
    with_residue,
)
from harness_core.importers.chat import canonical_json, tool_action
from harness_core.trajectories.schema import (
    Action,
    Agent,
    JsonObject,
    Outcome,
    Provenance,
    Step,
    TaskRef,
    Trajectory,
    Usage,
)
from harness_core.trajectories.vocabulary import ActionKind

_RESIDUE: Final = "atif"
_ID_CHARS: Final = 12
_MEDIA: Final = "[media]"
_CONTROLLER: Final = ("decision_id", "candidates", "chosen_index", "propensity")


def read_document(document: JsonObject, provenance: Provenance) -> Trajectory:
    """The trajectory of a document whose shape was checked."""
    plain = _interpreted(document, provenance)
    residue = residue_of(written=_written(plain), document=document)
    if not residue:
        return plain
    return plain.model_copy(update={"extra": plain.extra | {_RESIDUE: residue}})


def write_atif(trajectory: Trajectory) -> JsonObject:
    """The ATIF v1.8 document of a trajectory."""
    residue = trajectory.extra.get(_RESIDUE)
    extra = {key: value for key, value in trajectory.extra.items() if key != _RESIDUE}
    document = _written(trajectory.model_copy(update={"extra": extra}))
    return document if residue is None else with_residue(document, residue)


def _interpreted(document: JsonObject, provenance: Provenance) -> Trajectory:
    """What a document says in our words, `extra.rl` and `extra.controller` included."""
    rl = _part(document, "rl")
    task, observations = _setting(document["steps"])
    own = [step for step in document["steps"] if is_own(step)]
    last = _part(own[-1], "rl")
    is_cut = last.get("truncated") is True or last.get("terminal") is False
    agent = document["agent"]
    return Trajectory(
        task=TaskRef(**task.model_dump() | _object(rl.get("task"))),
        agent=Agent(
            **{
                "name": agent["name"],
                "version": agent["version"],
                "model": agent.get("model_name") or "",
            }
            | _object(rl.get("agent"))
        ),
        steps=tuple(
            _step(index, step, observation)
            for index, (step, observation) in enumerate(zip(own, observations, strict=True))
        ),
        outcome=Outcome(**_object(rl.get("outcome"))),
        terminated=not is_cut,
        truncated=is_cut,
        provenance=provenance,
        extra=_object(rl.get("extra")),
    )


def _setting(steps: Sequence[JsonObject]) -> tuple[TaskRef, list[str]]:
    """The task as the user put it, and what was said before each step of the agent."""
    instructions: list[str] = []
    description: str | None = None
    heard: list[str] = []
    observations: list[str] = []
    for step in steps:
        if is_own(step):
            observations.append("\n".join(heard))
            heard = []
        elif step.get("is_copied_context"):
            continue
        elif step["source"] == "system" and not observations and description is None:
            instructions.append(_told(step))
        elif step["source"] == "user" and not observations and description is None:
            description = _told(step)
        else:
            heard.append(_told(step))
    digest = hashlib.sha256((description or "").encode()).hexdigest()
    task = TaskRef(
        task_id=f"atif/{digest[:_ID_CHARS]}",
        family="general",
        description=description or "",
        initial_state="\n".join(instructions),
    )
    return task, observations


def _step(index: int, step: JsonObject, observation: str) -> Step:
    rl, controller = _part(step, "rl"), _part(step, "controller")
    plain = _plain_step(index, step, observation).model_dump(mode="json")
    patch = _object(rl.get("step"))
    plain |= patch | {
        "action": plain["action"] | _object(patch.get("action")),
        "usage": plain["usage"] | _object(patch.get("usage")),
    }
    if isinstance(rl.get("reward"), int | float):
        plain["logged_reward"] = rl["reward"]
    candidates = controller.get("candidates")
    if isinstance(candidates, list) and all("action" in _object(item) for item in candidates):
        plain["candidates"] = [
            {"action": item["action"], "propensity": item.get("propensity")} for item in candidates
        ]
        plain["chosen_index"] = controller.get("chosen_index")
    plain |= {key: controller[key] for key in ("decision_id", "propensity") if key in controller}
    return Step.model_validate_json(canonical_json(plain))


def _plain_step(index: int, step: JsonObject, observation: str) -> Step:
    """What ATIF alone says of a step of the agent."""
    message, reasoning = _text(step["message"]), step.get("reasoning_content") or ""
    calls = [
        {"name": call["function_name"], "arguments": call["arguments"]}
        for call in step.get("tool_calls") or ()
    ]
    metrics = step.get("metrics") or {}
    beside = [reasoning, message] if calls else [reasoning]
    return Step(
        index=index,
        observation=observation,
        thought="\n".join(filter(None, beside)),
        action=tool_action(calls) if calls else Action(kind=ActionKind.MESSAGE, text=message),
        result=_results(step),
        usage=Usage(**{key: metrics.get(key) for key in Usage.model_fields}),
    )


def _written(trajectory: Trajectory) -> JsonObject:
    """A document in our own order: instructions, task, then observation and step by turns."""
    task, agent = trajectory.task, trajectory.agent
    document: JsonObject = {
        "schema_version": SCHEMA_VERSION,
        "agent": {"name": agent.name, "version": agent.version}
        | ({"model_name": agent.model} if agent.model else {}),
        "steps": list(_steps(trajectory)),
    }
    derived, observations = _setting(document["steps"])
    for step, seen in zip(trajectory.steps, observations, strict=True):
        target = [item for item in document["steps"] if is_own(item)][step.index]
        _annotate(target, step, _plain_step(step.index, target, seen))
    last = next(item for item in reversed(document["steps"]) if is_own(item))
    end = {"terminal": trajectory.terminated, "truncated": trajectory.truncated}
    last.setdefault("extra", {}).setdefault("rl", {}).update(end)
    rl = {
        "task": _changes(derived.model_dump(), task.model_dump()),
        "outcome": _changes(Outcome().model_dump(), trajectory.outcome.model_dump()),
        "extra": trajectory.extra,
    }
    if rl := {key: value for key, value in rl.items() if value}:
        document["extra"] = {"rl": rl}
    return document


def _steps(trajectory: Trajectory) -> Iterator[JsonObject]:
    opening = (("system", trajectory.task.initial_state), ("user", trajectory.task.description))
    spoken = [(source, text) for source, text in opening if text]
    number = 0
    for step in trajectory.steps:
        if step.observation:
            spoken.append(("user", step.observation))
        for source, text in spoken:
            number += 1
            yield {"step_id": number, "source": source, "message": text}
        spoken = []
        number += 1
        yield {"step_id": number, "source": "agent"} | _acted(step)


def _acted(step: Step) -> JsonObject:
    calls = _calls(step.action)
    parts: JsonObject = {"message": "" if calls else step.action.text}
    if step.thought:
        parts["reasoning_content"] = step.thought
    if calls:
        parts["tool_calls"] = [
            {
                "tool_call_id": f"call_{step.index}_{number}",
                "function_name": call["name"],
                "arguments": call["arguments"],
            }
            for number, call in enumerate(calls)
        ]
    if step.result:
        parts["observation"] = {"results": [{"content": step.result}]}
    usage = step.usage.model_dump(exclude_none=True)
    return parts | ({"metrics": usage} if usage else {})


def _calls(action: Action) -> list[JsonObject]:
    """The calls that an action is made of; none if it is no tool call as we write them."""
    first = {key: action.arguments.get(key) for key in ("name", "arguments")}
    others = action.arguments.get("also", [])
    calls = [first, *others] if isinstance(others, list) else []
    is_whole = all(
        isinstance(call, dict)
        and isinstance(call.get("name"), str)
        and isinstance(call.get("arguments"), dict)
        and call.keys() == {"name", "arguments"}
        for call in calls
    )
    return calls if calls and is_whole and tool_action(calls) == action else []


def _annotate(target: JsonObject, step: Step, derived: Step) -> None:
    """Add what the document does not say of a step to its `extra`."""
    patch = _changes(derived.model_dump(mode="json"), step.model_dump(mode="json"))
    rl: JsonObject = {}
    if "logged_reward" in patch:
        rl["reward"] = patch.pop("logged_reward")
    controller = {key: patch.pop(key) for key in _CONTROLLER if key in patch}
    if "candidates" in controller:
        controller["candidates"] = [
            {"index": index} | item for index, item in enumerate(controller["candidates"])
        ]
    elif "chosen_index" in controller:
        patch["chosen_index"] = controller.pop("chosen_index")
    if patch:
        rl["step"] = patch
    extra = {key: value for key, value in (("rl", rl), ("controller", controller)) if value}
    if extra:
        target["extra"] = extra


def _changes(old: JsonObject, new: JsonObject) -> JsonObject:
    """Fields of `new` that differ; of the records in them, their fields."""
    changed: JsonObject = {}
    for key, value in new.items():
        if old[key] == value:
            continue
        is_record = key in ("action", "usage")
        changed[key] = _changes(old[key], value) if is_record else value
    return changed


def _part(record: JsonObject, name: str) -> JsonObject:
    return _object(_object(record.get("extra")).get(name))


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _told(step: JsonObject) -> str:
    return "\n".join(filter(None, (_text(step["message"]), _results(step))))


def _results(step: JsonObject) -> str:
    results = (step.get("observation") or {}).get("results", ())
    return "\n".join(_text(result.get("content")) for result in results)


def _text(content: Any) -> str:
    """The text of a message or result; images and sounds leave a mark, and are never opened."""
    if isinstance(content, list):
        return "\n".join(part.get("text") or _MEDIA for part in content)
    return content or ""
