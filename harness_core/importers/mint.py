"""Importer `mint`: agents with a Python tool on code, maths, questions and a game, in a few turns.

`<model>/F=<feedback>/max<B>_p<P>+<tools>/…/<set>/results.jsonl`, in a tar archive or not, holds
one attempt a line: at most B turns, of which at most P hand in an answer. A turn that holds
`<solution>` is an answer, any other runs what stands in `<execute>`; the environment understands
nothing else.

A hidden grader judges an answer at once, and the run stops when it is right. Its verdict is the
`logged_reward` of that step and stands nowhere in what was seen: the sentence that tells it, and
the count of turns and chances left, are cut out of what the environment said. What cannot be cut
out is that a run went on. Judge complete attempts by their first answer, or at equal steps.

Agents are told apart by model and B, since the prior of an agent is that of its turns, too.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from harness_core.importers.base import (
    ImportContext,
    Item,
    LogRecord,
    RawRecord,
    build_items,
    has_suffix,
    log_files,
)
from harness_core.importers.chat import Message, tool_action
from harness_core.importers.mint_tasks import MintTask, task_spec
from harness_core.importers.packed import read_packed
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.tasks import TaskBook
from harness_core.trajectories.schema import (
    Action,
    Agent,
    JsonObject,
    Outcome,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import ActionKind, Language

_RESULTS: Final = "results.jsonl"
_RUN: Final = re.compile(
    r"(?P<model>[^/]+)/F=[^/]+/max(?P<turns>\d+)_p(?P<answers>\d+)[^/]*/(?:[^/]+/)?"
    r"(?P<set>[^/]+)/results\.jsonl"
)
_SPEAKER: Final = re.compile(r"\A\s*Assistant:\s*")
_ANSWER: Final = re.compile(r"<solution>(.*?)</solution>", re.DOTALL)
_CODE: Final = re.compile(r"<execute>(.*?)</execute>", re.DOTALL)
_FENCED: Final = re.compile(r"```python(.*?)```", re.DOTALL)
_TAG: Final = re.compile(r"</?(?:thought|solution|execute)>")
_COUNT_DOWN: Final = re.compile(
    r"You have -?\d+ steps? left and -?\d+ chances? to propose solution left\.\s*"
    r"(?:You should take the last step to propose a solution\.\s*)?\Z"
)
_FAILED: Final = re.compile(
    r"^Traceback \(most recent call last\)|^[\w.]*(?:Error|Exception|Interrupt)\b[^\n]*\Z",
    re.MULTILINE,
)


class _State(LogRecord):
    history: list[Message]
    success: bool
    terminate_reason: str | None = None
    error: str | None = None
    token_counter: JsonObject | None = None


class _Attempt(LogRecord):
    state: _State
    task: MintTask


class _Turn(NamedTuple):
    """What the agent wrote, and what the environment said to it; None after the last turn."""

    text: str
    reply: str | None


@dataclass(frozen=True, slots=True)
class _Tasks:
    """The tasks of a source; every attempt repeats its task, and making one takes a while."""

    context: ImportContext
    book: TaskBook = field(default_factory=TaskBook)
    made: dict[str, TaskSpec] = field(default_factory=dict)

    def of(self, task: MintTask, set_name: str) -> TaskSpec:
        said = f"{set_name} {task.model_dump_json()}"
        if said not in self.made:
            self.made[said] = task_spec(task, set_name, self.context.source)
            if self.book.add(self.made[said]):
                self.context.warn("M-TASK-CONFLICT")
        return self.made[said]


class MintImporter:
    """Reads the results of MINT, also from an archive a set."""

    name: Final = "mint"

    def reads(self, path: PurePosixPath) -> bool:
        """Results of a run, and archives of them."""
        return has_suffix(path, _RESULTS, ".tar")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """Attempts count how often they answered, ran code and were not understood."""
        del path
        keys = (b'"state"', b'"history"', b'"terminate_reason"', b'"agent_action_count"')
        return 0.95 if all(key in head for key in keys) else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Every attempt, then the tasks of these attempts."""
        tasks = _Tasks(context)

        def build(record: RawRecord) -> Iterator[Item]:
            yield from _items(record, context, tasks)

        for path in log_files(folder, self):
            for record in read_packed(folder, path, context, suffix=_RESULTS):
                yield from build_items(record, context, build)
        yield from tasks.book


def _items(record: RawRecord, context: ImportContext, tasks: _Tasks) -> Iterator[Item]:
    attempt = _Attempt.model_validate(record.value)
    state = attempt.state
    if state.error is not None:
        # The call of the model failed: this says nothing of how well it acts.
        context.warn("M-CALL-FAILED")
        return
    run = _RUN.search(record.path)
    if run is None:
        raise UnreadableError("M-PATH", "folders do not name model, turns, answers and set")
    turns = list(_turns(state.history))
    if not turns:
        raise UnreadableError("M-NO-STEPS", "no turn was taken", field="state.history")
    task = tasks.of(attempt.task, run["set"])
    is_cut = state.terminate_reason == "max_steps"
    yield Trajectory(
        task=TaskRef(task_id=task.task_id, family=task.family, description=task.description),
        agent=Agent(name=f"mint-{run['turns']}", model=run["model"]),
        steps=tuple(_steps(turns, task, state)),
        outcome=Outcome(success=state.success),
        terminated=not is_cut,
        truncated=is_cut,
        provenance=context.provenance(MintImporter.name, record),
        extra={
            "max_turns": int(run["turns"]),
            "max_answers": int(run["answers"]),
            "terminate_reason": state.terminate_reason,
            "token_counter": state.token_counter,
        },
    )


def _turns(history: Sequence[Message]) -> Iterator[_Turn]:
    """The turns after the instructions. An agent that wrote nothing has left no message."""
    text: str | None = None
    for message in history[1:]:
        if message.role == "assistant":
            text = message.text
        else:
            yield _Turn(text or "", message.text)
            text = None
    if history:
        yield _Turn(text or "", None)


def _steps(turns: Sequence[_Turn], task: TaskSpec, state: _State) -> Iterator[Step]:
    code = _FENCED if "```python" in state.history[0].text.split("---", 1)[0] else _CODE
    for index, turn in enumerate(turns):
        text = _SPEAKER.sub("", turn.text)
        is_answer = "<solution>" in text
        wanted = _ANSWER if is_answer else code
        found = "\n".join(part.strip() for part in wanted.findall(text))
        is_right = state.success and index == len(turns) - 1
        result = _result(turn.reply or "")
        yield Step(
            index=index,
            thought=_TAG.sub("", wanted.sub("", text)).strip() if found else "",
            action=_action(found or text.strip(), task, is_answer=is_answer, is_code=bool(found)),
            # After an answer that was understood, only the grader has spoken.
            result="" if is_answer and found else result,
            is_error=_is_error(turn, result, is_answer=is_answer) if found else True,
            logged_reward=float(is_right) if is_right or (is_answer and found) else None,
        )


def _action(text: str, task: TaskSpec, *, is_answer: bool, is_code: bool) -> Action:
    """An answer is a program or a message, as the task asks; code in between calls the tool."""
    if is_code and not is_answer:
        return tool_action([{"name": "python", "arguments": {"code": text}}])
    is_program = is_code and task.language is Language.PYTHON
    return Action(kind=ActionKind.CODE if is_program else ActionKind.MESSAGE, text=text)


def _is_error(turn: _Turn, result: str, *, is_answer: bool) -> bool | None:
    """Whether code failed; of an answer, and of what nothing was said to, it is not known."""
    if is_answer or turn.reply is None:
        return None
    return _FAILED.search(result) is not None


def _result(reply: str) -> str:
    return _COUNT_DOWN.sub("", reply.removeprefix("Observation:\n")).strip()
