"""Trajectories taken apart: one row an action, one row a state, and the texts they refer to.

This is everything that features are made of before anything is fitted. State s_t is what was
known just before action t: the task, the last action taken, what came back, and counts so far. It
never holds how many steps there will be, how the run ended, or who graded it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from harness_core.features.batch import Floats
from harness_core.features.contents import (
    ActionContent,
    AgentKey,
    StepContent,
    TaskContent,
    TrajectoryContent,
)
from harness_core.features.execution import UNKNOWN, ExecutionSignals, ProgramKey, is_program
from harness_core.features.history import NUMERIC, History
from harness_core.features.keys import answer_key, text_key
from harness_core.features.summary import SUMMARY, summarise
from harness_core.trajectories.vocabulary import ActionKind, Language

TEXT_COLUMNS: Final = ("task", "action", "program", "observation")
"""Kinds of text; each has its own encoder and projection. A `program` can be run."""

KINDS: Final = tuple(ActionKind)

MAX_CHARS: Final[Mapping[str, int]] = {
    "task": 1500,
    "action": 1000,
    "program": 4000,
    "observation": 600,
}
"""The last characters of a text that are encoded: the end says most."""
_MAX_SEEN_CHARS: Final = 20_000
NO_ROW: Final = -1


class ActionRow(NamedTuple):
    """One action of one step."""

    trajectory: int
    step_index: int
    candidate_index: int
    kind: int
    column: str
    text: int
    """Number of its text in `Frame.texts[column]`; `NO_ROW` for an empty one."""
    n_chars: int
    text_key: int
    answer_key: int
    execution: ExecutionSignals
    """What running it said."""
    submitted: ExecutionSignals
    """What running the program that it stands for said: for a submission, the last program."""


class StateRow(NamedTuple):
    """One state of one trajectory."""

    trajectory: int
    step_index: int
    task_text: int
    last_action: int
    """Number of the action row taken last; `NO_ROW` before the first."""
    observation_text: int


@dataclass(slots=True, kw_only=True)
class Frame:
    """Rows of all trajectories, in order."""

    trajectory_ids: list[str] = field(default_factory=list)
    task_ids: list[str] = field(default_factory=list)
    agents: list[AgentKey] = field(default_factory=list)
    texts: dict[str, dict[str, int]] = field(
        default_factory=lambda: {column: {} for column in TEXT_COLUMNS}
    )
    actions: list[ActionRow] = field(default_factory=list)
    states: list[StateRow] = field(default_factory=list)
    summary_rows: list[Floats] = field(default_factory=list)
    numeric_rows: list[tuple[float, ...]] = field(default_factory=list)

    @property
    def summary(self) -> Floats:
        """[A, len(SUMMARY)]."""
        return _stack(self.summary_rows)

    @property
    def numeric(self) -> Floats:
        """[M, len(NUMERIC)]."""
        rows = np.array(self.numeric_rows, dtype=np.float32)
        return rows.reshape(len(self.numeric_rows), len(NUMERIC))

    def text_of(self, column: str, text: str) -> int:
        """Number of a text in its column, added if it is new."""
        tail = tail_of(column, text)
        known = self.texts[column]
        return known.setdefault(tail, len(known)) if tail else NO_ROW


def tail_of(column: str, text: str) -> str:
    """The part of a text that is encoded."""
    return text.strip()[-MAX_CHARS[column] :]


def build_frame(
    contents: Sequence[TrajectoryContent], signals: Mapping[ProgramKey, ExecutionSignals]
) -> Frame:
    """Take trajectories apart; `signals` of a program that is not there are unknown."""
    frame = Frame()
    for content in contents:
        _add(frame, content, signals)
    return frame


def programs_of(contents: Sequence[TrajectoryContent]) -> dict[ProgramKey, TaskContent]:
    """Every distinct program that could be run, with its task, in order."""
    return {
        _program_key(action, content.task): content.task
        for content in contents
        for step in content.steps
        for action in step.actions
        if is_program(action, content.task)
    }


def _program_key(action: ActionContent, task: TaskContent) -> ProgramKey:
    return ProgramKey(task.source, task.task_id, action.text)


def _add(
    frame: Frame, content: TrajectoryContent, signals: Mapping[ProgramKey, ExecutionSignals]
) -> None:
    trajectory = len(frame.trajectory_ids)
    frame.trajectory_ids.append(content.trajectory_id)
    frame.task_ids.append(content.task.task_id)
    frame.agents.append(content.agent)
    task_text = frame.text_of("task", content.task.description or content.task.initial_state)
    walk = _Walk(content, signals)
    last_action = NO_ROW
    for step_index, observation in enumerate(_observations(content.steps)):
        row = StateRow(
            trajectory=trajectory,
            step_index=step_index,
            task_text=task_text,
            last_action=last_action,
            observation_text=frame.text_of("observation", observation),
        )
        frame.states.append(row)
        frame.numeric_rows.append(walk.history.numbers())
        if step_index < len(content.steps):
            step = content.steps[step_index]
            last_action = len(frame.actions) + step.taken_index
            for summary, action in walk.rows(frame, trajectory, step_index):
                frame.actions.append(action)
                frame.summary_rows.append(summary)
            walk.take(step)


def _observations(steps: Sequence[StepContent]) -> Iterator[str]:
    """What was seen last in each of the states s_0 … s_T."""
    yield steps[0].observation if steps else ""
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        yield step.result or (following.observation if following else "")


class _Walk:
    """One pass over the steps of a trajectory, with what has been seen so far."""

    def __init__(
        self, content: TrajectoryContent, signals: Mapping[ProgramKey, ExecutionSignals]
    ) -> None:
        self.history = History()
        self._task = content.task
        self._steps = content.steps
        self._signals = signals
        self._seen = f"{content.task.description}\n{content.task.initial_state}"
        self._program = ActionContent(kind=ActionKind.CODE)
        self._answer = 0

    def rows(
        self, frame: Frame, trajectory: int, step_index: int
    ) -> Iterator[tuple[Floats, ActionRow]]:
        """The action rows of a step, one a candidate."""
        step = self._steps[step_index]
        seen = f"{self._seen}\n{step.observation}"
        for candidate_index, action in enumerate(step.actions):
            column = "program" if is_program(action, self._task) else "action"
            stands_for = self._stands_for(action)
            yield (
                summarise(action, self._task, seen=seen),
                ActionRow(
                    trajectory=trajectory,
                    step_index=step_index,
                    candidate_index=candidate_index,
                    kind=KINDS.index(action.kind),
                    column=column,
                    text=frame.text_of(column, action.text),
                    n_chars=len(stands_for.text),
                    text_key=text_key(stands_for.text),
                    answer_key=self._answer_of(step, action),
                    execution=self._execution(action),
                    submitted=self._execution(stands_for),
                ),
            )

    def take(self, step: StepContent) -> None:
        """Go past a step."""
        if step.taken.kind is ActionKind.CODE:
            self._program = step.taken
        self._answer = self._answer_of(step, step.taken)
        self.history.add(step, self._execution(step.taken))
        self._seen = f"{self._seen}\n{step.observation}\n{step.result}"[-_MAX_SEEN_CHARS:]

    def _execution(self, action: ActionContent) -> ExecutionSignals:
        if not is_program(action, self._task):
            return UNKNOWN
        return self._signals.get(_program_key(action, self._task), UNKNOWN)

    def _stands_for(self, action: ActionContent) -> ActionContent:
        """A submission without a text hands in the last program."""
        return self._program if action.kind is ActionKind.SUBMIT and not action.text else action

    def _answer_of(self, step: StepContent, action: ActionContent) -> int:
        """Key of the final answer that an action gives, 0 if it gives none."""
        if action.kind is ActionKind.SUBMIT and not action.text:
            return self._answer
        if action.kind in {ActionKind.MESSAGE, ActionKind.SUBMIT}:
            return answer_key(action.text)
        # The result is that of the action taken; the other candidates were never carried out, so
        # among several candidates it would only say which one was taken.
        is_answer = len(step.actions) == 1 and not step.is_error
        if not is_answer or self._task.language is Language.PYTHON:
            return 0
        return text_key(step.result)


def _stack(rows: list[Floats]) -> Floats:
    return np.stack(rows) if rows else np.zeros((0, len(SUMMARY)), dtype=np.float32)
