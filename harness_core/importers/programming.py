"""Programming tasks as agents' logs tell them: whole programs, and the checks that models wrote."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from harness_core.importers.assertions import model_written, top_level_names
from harness_core.importers.base import ImportContext
from harness_core.importers.tasks import TaskBook
from harness_core.trajectories.schema import TaskSpec


@dataclass(frozen=True, slots=True)
class ProgrammingTasks:
    """The tasks of a source; what models wrote to check them is gathered from all runs."""

    context: ImportContext
    conflict_rule: str
    """Counts mentions of a task that contradict an earlier one."""
    _book: TaskBook = field(default_factory=TaskBook)
    _written: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, task: TaskSpec) -> None:
        """Note a mention of a task."""
        if self._book.add(task):
            self.context.warn(self.conflict_rule)

    def add_written(self, task_id: str, texts: Iterable[str]) -> None:
        """Note texts with asserts that a model wrote for a task."""
        self._written.setdefault(task_id, Counter()).update(texts)

    def __iter__(self) -> Iterator[TaskSpec]:
        """All tasks, each with its model-written checks, most frequent first."""
        for task in self._book:
            yield task.model_copy(update={"generated_checks": self._generated(task)})

    def _generated(self, task: TaskSpec) -> tuple[str, ...]:
        """Model-written checks beyond those that the agent was given."""
        entry_point = task.entry_point or ""
        limit = self.context.config.max_generated_checks
        names = top_level_names(task.reference or task.description)
        given = model_written(
            task.visible_checks, entry_point, names=names, limit=len(task.visible_checks)
        )
        texts = self._written.get(task.task_id, Counter()).elements()
        ranked = model_written(texts, entry_point, names=names, limit=limit + len(given))
        return tuple(check for check in ranked if check not in given)[:limit]


def whole_program(prompt: str, solution: str, function: str) -> str:
    """A solution as a program: what does not define the function goes on where the prompt ends."""
    # Whole words: the function `f` of HumanEval/106 is not the `factorial` of a body.
    is_whole = re.search(rf"\bdef\s+{re.escape(function)}\s*\(", solution) is not None
    return solution if is_whole else prompt + solution
