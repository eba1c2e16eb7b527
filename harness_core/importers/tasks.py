"""How tasks are named in every source, and how several mentions of one task become one."""

import re
from collections.abc import Iterator
from typing import Final

from harness_core.trajectories.schema import TaskSpec

_HUMANEVAL: Final = re.compile(r"human_?eval[/_-](\d{1,6})", re.IGNORECASE)
_MBPP: Final = re.compile(r"mbpp[/_-](\d{1,6})", re.IGNORECASE)
_CHECKS: Final = ("entry_point", "visible_checks", "generated_checks", "hidden_checks", "reference")


def canonical_task_id(task_id: str) -> str:
    """The id of a task in every source: `HumanEval/3` and `mbpp/12`, other ids as they are."""
    if match := _HUMANEVAL.fullmatch(task_id):
        return f"HumanEval/{int(match.group(1))}"
    if match := _MBPP.fullmatch(task_id):
        return f"mbpp/{int(match.group(1))}"
    return task_id


def family_of(task_id: str, *, default: str) -> str:
    """The family that a canonical id tells by itself."""
    if task_id.startswith("HumanEval/"):
        return "humaneval"
    return "mbpp" if task_id.startswith("mbpp/") else default


class TaskBook:
    """The tasks of one source. The first mention wins; later ones may fill in what it lacks."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskSpec] = {}

    def add(self, task: TaskSpec) -> tuple[str, ...]:
        """Note a mention; return the fields in which it contradicts an earlier one."""
        known = self._tasks.get(task.task_id)
        if known is None or known == task:
            self._tasks.setdefault(task.task_id, task)
            return ()
        conflicts = tuple(
            name
            for name in _CHECKS
            if getattr(known, name)
            and getattr(task, name)
            and getattr(known, name) != getattr(task, name)
        )
        missing = {
            name: getattr(task, name)
            for name in _CHECKS
            if not getattr(known, name) and getattr(task, name)
        }
        if missing and not conflicts:
            self._tasks[task.task_id] = known.model_copy(update=missing)
        return conflicts

    def __iter__(self) -> Iterator[TaskSpec]:
        """All tasks, in the order of their first mention."""
        yield from self._tasks.values()
