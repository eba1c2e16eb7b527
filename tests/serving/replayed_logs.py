"""Runs that real agents logged, and an upstream that says what their models had said."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from harness_core.trajectories.schema import TaskRef, TaskSpec, Trajectory
from tests.serving.stub_documents import choice_of
from tests.serving.stub_upstream import Stub


@dataclass(frozen=True)
class Turn:
    """One question of an agent."""

    candidates: tuple[str, ...]
    result: str
    """What the agent was told of the one that it took."""


@dataclass(frozen=True)
class LoggedRun:
    """One run of an agent."""

    name: str
    task: TaskRef
    entry_point: str | None
    turns: tuple[Turn, ...]

    def asked(self, said: Sequence[str], **fields: Any) -> dict[str, Any]:
        """The request after so many answers."""
        messages = [{"role": "user", "content": self.task.description}]
        for text, turn in zip(said, self.turns, strict=False):
            messages.append({"role": "assistant", "content": text})
            messages.append({"role": "user", "content": turn.result or "Once more."})
        told = {"language": "python", "entry_point": self.entry_point, "session_id": self.name}
        harness = {**told, "task_id": self.task.task_id, **fields}
        return {"model": "logged", "messages": messages, "extra_body": {"harness": harness}}


def single_attempts(
    items: Iterable[TaskSpec | Trajectory | Any], *, n_tasks: int, k: int
) -> list[LoggedRun]:
    """Tasks of a log in which each attempt is a trajectory; the first `k` are the candidates."""
    specs: dict[str, TaskSpec] = {}
    attempts: dict[str, list[Trajectory]] = {}
    for item in items:
        if isinstance(item, TaskSpec):
            specs[item.task_id] = item
        elif isinstance(item, Trajectory):
            if item.task.task_id not in attempts and len(attempts) == n_tasks:
                break
            attempts.setdefault(item.task.task_id, []).append(item)
    return [
        LoggedRun(
            name=f"run of {name}",
            task=told[0].task,
            entry_point=specs[name].entry_point,
            turns=(Turn(tuple(one.steps[0].action.text for one in told[:k]), ""),),
        )
        for name, told in attempts.items()
    ]


def whole_runs(items: Iterable[TaskSpec | Trajectory | Any], *, n_runs: int) -> list[LoggedRun]:
    """Runs of a log whose steps have their candidates."""
    known = list(items)
    specs = {item.task_id: item for item in known if isinstance(item, TaskSpec)}
    runs = (item for item in known if isinstance(item, Trajectory))
    return [
        LoggedRun(
            name=f"run {run.trajectory_id}",
            task=run.task,
            entry_point=specs[run.task.task_id].entry_point,
            turns=tuple(
                Turn(tuple(one.action.text for one in step.candidates), step.result)
                for step in run.steps
            ),
        )
        for run in islice(runs, n_runs)
    ]


class ReplayingUpstream(Stub):
    """Says, at the same turn of the same task, what the model of the log had said there."""

    def __init__(self, runs: Iterable[LoggedRun]) -> None:
        super().__init__()
        self._turns = {
            (run.task.description, number): turn.candidates
            for run in runs
            for number, turn in enumerate(run.turns)
        }

    async def _read(self, request: Any) -> tuple[dict[str, Any], str, list[str]]:
        body, _, _ = await super()._read(request)
        messages = body["messages"]
        turn = sum(message["role"] == "assistant" for message in messages)
        return body, "plain", list(self._turns[messages[0]["content"], turn])

    def _choices(
        self, script: Sequence[str], n: int, *, with_logprobs: Any = None
    ) -> list[dict[str, Any]]:
        texts = [script[place % len(script)] for place in range(n)]
        return [
            choice_of(
                {"role": "assistant", "content": text, "refusal": None},
                place,
                with_logprobs=bool(with_logprobs),
            )
            for place, text in enumerate(texts)
        ]
