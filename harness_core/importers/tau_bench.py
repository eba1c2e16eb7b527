"""Importer `tau_bench`: service agents with tools and a simulated user.

A file is a JSON list of attempts `{task_id, trial, reward, info, traj}`. `info` holds what the
agent never saw (the instruction of the simulated user, the expected actions) and is not read.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from harness_core.importers.base import (
    ImportContext,
    Item,
    LogRecord,
    RawRecord,
    build_items,
    has_suffix,
    log_files,
)
from harness_core.importers.chat import Message, action_of, joined, take_apart, thought_of
from harness_core.importers.framing import read_records
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.tasks import TaskBook
from harness_core.trajectories.schema import (
    Action,
    Agent,
    FiniteFloat,
    Outcome,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import Language

_DOMAIN: Final = re.compile(r"^(.*?)[-_](airline|retail|telecom)\b")
_GOODBYE: Final = "###STOP###"
_TRANSFER: Final = "transfer_to_human_agents"


class _Attempt(LogRecord):
    task_id: int
    trial: int
    reward: FiniteFloat
    traj: list[Message]


class TauBenchImporter:
    """Reads the historical trajectories of tau-bench."""

    name: Final = "tau_bench"

    def reads(self, path: PurePosixPath) -> bool:
        """One JSON list a model and domain."""
        return has_suffix(path, ".json")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """Attempts have these keys, and only they do."""
        del path
        keys = (b'"task_id"', b'"trial"', b'"reward"', b'"traj"', b'"user_cost"')
        return 0.9 if sum(key in head for key in keys) >= len(keys) - 1 else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Tasks are described by the user's first message of the first attempt."""
        tasks = TaskBook()

        def build(record: RawRecord) -> Iterator[Item]:
            yield from _items(record, context, tasks)

        for path in log_files(folder, self):
            for record in read_records(folder, path, context):
                yield from build_items(record, context, build)
        yield from tasks


def _items(record: RawRecord, context: ImportContext, tasks: TaskBook) -> Iterator[Item]:
    attempt = _Attempt.model_validate(record.value)
    conversation = take_apart(attempt.traj)
    if not conversation.turns:
        raise UnreadableError("T-NO-STEPS", "the agent said nothing", field="traj")
    model, domain = _model_and_domain(record.path)
    task = TaskRef(
        task_id=f"tau-{domain}/{attempt.task_id}",
        family=domain,
        description=conversation.description,
        initial_state=conversation.system,
    )
    tasks.add(TaskSpec(**task.model_dump(), source=context.source, language=Language.TOOLS))
    steps = tuple(
        Step(
            index=index,
            observation=joined(message.text for message in turn.seen),
            thought=thought_of(turn.message),
            action=action_of(turn.message, max_depth=context.config.max_depth),
            result=turn.result,
            is_error=turn.is_error,
        )
        for index, turn in enumerate(conversation.turns)
    )
    is_over = _GOODBYE in steps[-1].result or _name_of(steps[-1].action) == _TRANSFER
    yield Trajectory(
        task=task,
        agent=Agent(name=model, model=model),
        steps=steps,
        outcome=Outcome(success=attempt.reward == 1, score=_score(attempt.reward)),
        terminated=is_over,
        truncated=not is_over,
        provenance=context.provenance(TauBenchImporter.name, record),
        extra={"trial": attempt.trial},
    )


def _model_and_domain(path: str) -> tuple[str, str]:
    """The file name tells both: `gpt-4o-airline.json`."""
    name = PurePosixPath(path).name.split(".json")[0]
    match = _DOMAIN.match(name)
    return (match.group(1), match.group(2)) if match else (name, "tau")


def _name_of(action: Action) -> Any:
    return action.arguments.get("name")


def _score(reward: float) -> float | None:
    return reward if 0 <= reward <= 1 else None
