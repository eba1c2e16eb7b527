"""Importer `codet`: many completions of programming tasks, and tests that a model wrote.

A source folder holds four files, joined on the text of the prompt: completions
(`*_code_solution.jsonl`), model-written tests (`*_test_case.jsonl`), the problems of both prompts
(`*for_code_generation.jsonl`, `*for_test_case_generation.jsonl`), and, where somebody ran the
hidden tests, `labels.jsonl`. One completion is one trajectory of one step.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from harness_core.importers.assertions import hidden_checks, model_written, top_level_names
from harness_core.importers.base import (
    ImportContext,
    Item,
    LogRecord,
    RawRecord,
    build_items,
    has_suffix,
    log_files,
)
from harness_core.importers.framing import read_records
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.tasks import canonical_task_id, family_of
from harness_core.trajectories.schema import (
    Action,
    Agent,
    Outcome,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import ActionKind, Language

_SOLUTIONS: Final = "_code_solution.jsonl"
_TESTS: Final = "_test_case.jsonl"
_PROBLEMS: Final = "for_code_generation.jsonl"
_TEST_PROBLEMS: Final = "for_test_case_generation.jsonl"
_LABELS: Final = "labels.jsonl"
_ENDS: Final = re.compile(r"\n(?:class|def|#|if|print)")
"""A completion goes on until one of these starts a line: what follows is no part of the answer."""
_MODEL: Final = re.compile(r"^[^_]+_(.+?)_temp")
_SIZE: Final = re.compile(r"(?<=[a-z])(?=\d+[bB]$)")


class _Problem(LogRecord):
    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str | None = None
    test: str


class _Samples(LogRecord):
    prompt: str
    samples: list[str]


class _Labels(LogRecord):
    task_id: str
    passed: list[int]


@dataclass(frozen=True, slots=True)
class _Joined:
    """What the supporting files say, by prompt or task."""

    context: ImportContext
    problems: dict[str, _Problem] = field(default_factory=dict)
    """By prompt of the completions."""
    test_problems: dict[str, str] = field(default_factory=dict)
    """Prompt of the model-written tests → task."""
    labels: dict[str, list[int]] = field(default_factory=dict)
    checks: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def note_problem(self, record: RawRecord) -> tuple[Item, ...]:
        problem = _Problem.model_validate(record.value)
        self.problems[problem.prompt] = problem
        return ()

    def note_test_problem(self, record: RawRecord) -> tuple[Item, ...]:
        problem = _Problem.model_validate(record.value)
        self.test_problems[problem.prompt] = problem.task_id
        return ()

    def note_labels(self, record: RawRecord) -> tuple[Item, ...]:
        labels = _Labels.model_validate(record.value)
        self.labels[labels.task_id] = labels.passed
        return ()

    def note_tests(self, record: RawRecord) -> tuple[Item, ...]:
        samples = _Samples.model_validate(record.value)
        task_id = self.test_problems.get(samples.prompt)
        problem = next((item for item in self.problems.values() if item.task_id == task_id), None)
        if problem is None:
            raise UnreadableError("C-TASK", "no problem has this prompt", field="prompt")
        self.checks[problem.task_id] = model_written(
            samples.samples,
            problem.entry_point,
            names=top_level_names(f"{problem.prompt}\n    pass\n"),
            limit=self.context.config.max_generated_checks,
        )
        return ()

    def build(self, record: RawRecord) -> Iterator[Item]:
        return _items(record, self.context, self)


class CodetImporter:
    """Reads completions and model-written tests."""

    name: Final = "codet"

    def reads(self, path: PurePosixPath) -> bool:
        """Only the five kinds of file."""
        return has_suffix(path, _SOLUTIONS, _TESTS, _PROBLEMS, _TEST_PROBLEMS, _LABELS)

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """The names of the files are part of the format."""
        return 0.95 if has_suffix(path, _SOLUTIONS, _TESTS) and b'"samples"' in head else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Problems and labels first, then model-written tests, then completions."""
        files = log_files(folder, self)
        joined = _Joined(context)
        order: tuple[tuple[str, Callable[[RawRecord], Iterable[Item]]], ...] = (
            (_PROBLEMS, joined.note_problem),
            (_TEST_PROBLEMS, joined.note_test_problem),
            (_LABELS, joined.note_labels),
            (_TESTS, joined.note_tests),
            (_SOLUTIONS, joined.build),
        )
        for suffix, step in order:
            for path in (path for path in files if has_suffix(path, suffix)):
                for record in read_records(folder, path, context):
                    yield from build_items(record, context, step)


def _items(record: RawRecord, context: ImportContext, joined: _Joined) -> Iterator[Item]:
    samples = _Samples.model_validate(record.value)
    problem = joined.problems.get(samples.prompt)
    if problem is None:
        raise UnreadableError("C-TASK", "no problem has this prompt", field="prompt")
    passed = joined.labels.get(problem.task_id)
    if passed is not None and len(passed) != len(samples.samples):
        reason = f"{len(samples.samples)} samples, but {len(passed)} labels"
        raise UnreadableError("C-LABELS", reason, field="samples")
    task = _task(problem, context, joined.checks.get(problem.task_id, ()))
    yield task
    reference = TaskRef(task_id=task.task_id, family=task.family, description=task.description)
    agent = _agent(record.path)
    provenance = context.provenance(CodetImporter.name, record)
    for index, completion in enumerate(samples.samples):
        program = problem.prompt + _ENDS.split(completion, maxsplit=1)[0]
        yield Trajectory(
            task=reference,
            agent=agent,
            steps=(Step(index=0, action=Action(kind=ActionKind.CODE, text=program)),),
            outcome=Outcome(success=None if passed is None else bool(passed[index])),
            terminated=True,
            truncated=False,
            provenance=provenance,
            # Equal completions are separate draws, so they must not become one trajectory.
            extra={"sample": index},
        )


def _task(problem: _Problem, context: ImportContext, checks: tuple[str, ...]) -> TaskSpec:
    task_id = canonical_task_id(problem.task_id)
    solution = problem.canonical_solution
    return TaskSpec(
        task_id=task_id,
        source=context.source,
        family=family_of(task_id, default="code"),
        description=problem.prompt,
        language=Language.PYTHON,
        entry_point=problem.entry_point,
        generated_checks=checks,
        hidden_checks=hidden_checks(problem.test, problem.entry_point),
        reference=None if solution is None else problem.prompt + solution,
    )


def _agent(path: str) -> Agent:
    """The model is named in the file: `HumanEval_codegen16B_temp0.8_…` is codegen-16B."""
    match = _MODEL.match(PurePosixPath(path).name)
    model = _SIZE.sub("-", match.group(1)) if match else "unknown"
    return Agent(name=model, model=model)
