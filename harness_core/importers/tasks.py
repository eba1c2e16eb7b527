"""How tasks are named in every source, and how several mentions of one task become one."""

import hashlib
import re
from collections.abc import Iterator
from typing import Final

from harness_core.trajectories.schema import TaskSpec

_HUMANEVAL: Final = re.compile(r"human_?eval[/_-](\d{1,6})", re.IGNORECASE)
_MBPP: Final = re.compile(r"mbpp[/_-](\d{1,6})", re.IGNORECASE)
_VARIANTS: Final = ("input", "output", "rust")
"""Ways in which one problem is set. A closed list: ids of other logs may hold a `#` as well."""
_VARIANT: Final = re.compile(f"#(?:{'|'.join(_VARIANTS)})$")
_CHECKS: Final = ("entry_point", "visible_checks", "generated_checks", "hidden_checks", "reference")


def canonical_task_id(task_id: str) -> str:
    """The id of a task in every source: `HumanEval/3` and `mbpp/12`, other ids as they are."""
    if match := _HUMANEVAL.fullmatch(task_id):
        return f"HumanEval/{int(match.group(1))}"
    if match := _MBPP.fullmatch(task_id):
        return f"mbpp/{int(match.group(1))}"
    return task_id


def variant_of(task_id: str, variant: str) -> str:
    """The id of a task that sets the problem of another one differently: `HumanEval/3#rust`."""
    assert variant in _VARIANTS
    return f"{task_id}#{variant}"


def problem_of(task_id: str) -> str:
    """What all variants of a task have in common, and must not be divided over splits."""
    return _VARIANT.sub("", task_id)


def family_of(task_id: str, *, default: str) -> str:
    """The family that a canonical id tells by itself."""
    if task_id.startswith("HumanEval/"):
        return "humaneval"
    return "mbpp" if task_id.startswith("mbpp/") else default


def digest_of(text: str) -> str:
    """Digest of a text up to white space: what names a task where no log gives it a number."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:12]


def gsm8k_id(question: str) -> str:
    """The id of a question of GSM8K: its sources number them differently, or not at all."""
    return f"gsm8k/{digest_of(question)}"


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
