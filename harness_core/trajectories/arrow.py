"""The Arrow form of trajectories, steps and tasks: schemas and lossless conversion."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa

from harness_core.trajectories.schema import (
    Action,
    Agent,
    Candidate,
    Outcome,
    Provenance,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
    Usage,
)
from harness_core.trajectories.vocabulary import ActionKind, Language

Row = dict[str, Any]

_CANDIDATE: Final = pa.struct(
    [
        pa.field("kind", pa.string()),
        pa.field("text", pa.string()),
        pa.field("arguments", pa.string()),
        pa.field("propensity", pa.float64()),
    ]
)

TRAJECTORIES: Final = pa.schema(
    [
        pa.field("trajectory_id", pa.string()),
        pa.field("source", pa.string()),
        pa.field("task_id", pa.string()),
        pa.field("family", pa.string()),
        pa.field("description", pa.string()),
        pa.field("initial_state", pa.string()),
        pa.field("agent_name", pa.string()),
        pa.field("agent_version", pa.string()),
        pa.field("model", pa.string()),
        pa.field("n_steps", pa.int32()),
        pa.field("success", pa.bool_()),
        pa.field("score", pa.float64()),
        pa.field("n_tests_passed", pa.int32()),
        pa.field("n_tests_total", pa.int32()),
        pa.field("terminated", pa.bool_()),
        pa.field("truncated", pa.bool_()),
        pa.field("importer", pa.string()),
        pa.field("path", pa.string()),
        pa.field("source_sha256", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("extra", pa.string()),
    ]
)
"""One row a trajectory; `extra` is JSON. Sorted by `trajectory_id`."""

STEPS: Final = pa.schema(
    [
        pa.field("trajectory_id", pa.string()),
        pa.field("step_index", pa.int32()),
        pa.field("observation", pa.string()),
        pa.field("thought", pa.string()),
        pa.field("action_kind", pa.string()),
        pa.field("action_text", pa.string()),
        pa.field("action_arguments", pa.string()),
        pa.field("result", pa.string()),
        pa.field("is_error", pa.bool_()),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("completion_tokens", pa.int64()),
        pa.field("cost_usd", pa.float64()),
        pa.field("logged_reward", pa.float64()),
        pa.field("candidates", pa.list_(_CANDIDATE)),
        pa.field("chosen_index", pa.int32()),
        pa.field("propensity", pa.float64()),
        pa.field("decision_id", pa.string()),
    ]
)
"""One row a step; `action_arguments` is JSON. Sorted by `trajectory_id, step_index`."""

TASKS: Final = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("task_id", pa.string()),
        pa.field("family", pa.string()),
        pa.field("description", pa.string()),
        pa.field("initial_state", pa.string()),
        pa.field("language", pa.string()),
        pa.field("entry_point", pa.string()),
        pa.field("visible_checks", pa.list_(pa.string())),
        pa.field("generated_checks", pa.list_(pa.string())),
        pa.field("hidden_checks", pa.list_(pa.string())),
        pa.field("reference", pa.string()),
    ]
)
"""One row a task of a source. Sorted by `source, task_id`."""


def trajectory_row(trajectory: Trajectory) -> Row:
    """The `TRAJECTORIES` row of a trajectory."""
    provenance, agent = trajectory.provenance, trajectory.agent
    return {
        "trajectory_id": trajectory.trajectory_id,
        "source": provenance.source,
        **trajectory.task.model_dump(),
        "agent_name": agent.name,
        "agent_version": agent.version,
        "model": agent.model,
        "n_steps": len(trajectory.steps),
        **trajectory.outcome.model_dump(),
        "terminated": trajectory.terminated,
        "truncated": trajectory.truncated,
        "importer": provenance.importer,
        "path": provenance.path,
        "source_sha256": provenance.source_sha256,
        "line": provenance.line,
        "extra": _to_json(trajectory.extra),
    }


def step_rows(trajectory: Trajectory) -> Iterator[Row]:
    """The `STEPS` rows of a trajectory, in order."""
    trajectory_id = trajectory.trajectory_id
    for step in trajectory.steps:
        yield {
            "trajectory_id": trajectory_id,
            "step_index": step.index,
            "observation": step.observation,
            "thought": step.thought,
            "action_kind": step.action.kind.value,
            "action_text": step.action.text,
            "action_arguments": _to_json(step.action.arguments),
            "result": step.result,
            "is_error": step.is_error,
            **step.usage.model_dump(),
            "logged_reward": step.logged_reward,
            "candidates": [_candidate_row(candidate) for candidate in step.candidates],
            "chosen_index": step.chosen_index,
            "propensity": step.propensity,
            "decision_id": step.decision_id,
        }


def task_row(task: TaskSpec) -> Row:
    """The `TASKS` row of a task."""
    return task.model_dump(mode="json")


def trajectory_from_rows(row: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Trajectory:
    """The trajectory of one `TRAJECTORIES` row and its `STEPS` rows, in order."""
    return Trajectory(
        task=TaskRef(**_pick(row, TaskRef)),
        agent=Agent(name=row["agent_name"], version=row["agent_version"], model=row["model"]),
        steps=tuple(step_from_row(step) for step in steps),
        outcome=Outcome(**_pick(row, Outcome)),
        terminated=row["terminated"],
        truncated=row["truncated"],
        provenance=Provenance(**_pick(row, Provenance)),
        extra=orjson.loads(row["extra"]),
    )


def step_from_row(row: Mapping[str, Any]) -> Step:
    """The step of one `STEPS` row."""
    return Step(
        index=row["step_index"],
        observation=row["observation"],
        thought=row["thought"],
        action=_action(row["action_kind"], row["action_text"], row["action_arguments"]),
        result=row["result"],
        is_error=row["is_error"],
        usage=Usage(**_pick(row, Usage)),
        logged_reward=row["logged_reward"],
        candidates=tuple(
            Candidate(
                action=_action(item["kind"], item["text"], item["arguments"]),
                propensity=item["propensity"],
            )
            for item in row["candidates"] or ()
        ),
        chosen_index=row["chosen_index"],
        propensity=row["propensity"],
        decision_id=row["decision_id"],
    )


def task_from_row(row: Mapping[str, Any]) -> TaskSpec:
    """The task of one `TASKS` row."""
    lists = ("visible_checks", "generated_checks", "hidden_checks")
    return TaskSpec(
        **{
            **row,
            "language": Language(row["language"]),
            **{key: tuple(row[key] or ()) for key in lists},
        }
    )


def tables_of(trajectories: Iterable[Trajectory]) -> tuple[pa.Table, pa.Table]:
    """The `TRAJECTORIES` and `STEPS` tables of trajectories, in canonical order."""
    ordered = sorted(trajectories, key=lambda trajectory: trajectory.trajectory_id)
    steps = [row for trajectory in ordered for row in step_rows(trajectory)]
    return (
        pa.Table.from_pylist([trajectory_row(item) for item in ordered], schema=TRAJECTORIES),
        pa.Table.from_pylist(steps, schema=STEPS),
    )


def _candidate_row(candidate: Candidate) -> Row:
    return {
        "kind": candidate.action.kind.value,
        "text": candidate.action.text,
        "arguments": _to_json(candidate.action.arguments),
        "propensity": candidate.propensity,
    }


def _action(kind: str, text: str, arguments: str) -> Action:
    return Action(kind=ActionKind(kind), text=text, arguments=orjson.loads(arguments))


def _pick(row: Mapping[str, Any], record: type) -> Row:
    return {name: row[name] for name in record.model_fields}  # type: ignore[attr-defined]  # a Record


def _to_json(value: Mapping[str, Any]) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
