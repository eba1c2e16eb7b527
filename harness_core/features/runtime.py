"""A request at run time as a decision group: the same numbers as the batch path, same content.

The request is turned into one trajectory a candidate (the history so far, then the candidate) and
goes through the fitted pipeline like any log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import orjson

from harness_core.errors import ParameterError
from harness_core.features.batch import DecisionGroup, Floats, GroupSignals, Integers
from harness_core.features.contents import (
    ActionContent,
    AgentKey,
    StepContent,
    TaskContent,
    TrajectoryContent,
)
from harness_core.features.interventions import harness_of, situation_after, tool_of
from harness_core.features.load import pad_flags, pad_keys
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.prior import ALL_DEVELOPMENT
from harness_core.features.running import SandboxRunner
from harness_core.features.vectors import FeatureArrays
from harness_core.sandbox.protocol import Sandbox
from harness_core.trajectories.vocabulary import ActionKind, GroupKind, Language, Split
from harness_core.transitions.interventions import Situation

_TASK: Final = "request"
_NOTHING_YET: Final = (StepContent(actions=(ActionContent(kind=ActionKind.MESSAGE),)),)
"""Stands for the step that a run begins with: features need one, the state before it does not."""

_Word = TypeVar("_Word", ActionKind, Language)


class Request(NamedTuple):
    """A state and its K candidates, as `featurise_request` takes them."""

    state: Mapping[str, Any]
    candidates: Sequence[Mapping[str, Any]]


def featurise_request(
    pipeline: FeaturePipeline,
    state: Mapping[str, Any],
    candidates: Sequence[Mapping[str, Any]],
    *,
    sandbox: Sandbox | None,
) -> DecisionGroup:
    """The decision group of K candidates for one state; its labels are unknown.

    `state` holds `description` and optionally `task_id`, `source`, `initial_state`, `language`,
    `entry_point`, `visible_checks`, `generated_checks`, `agent` (`name`, `model`) and `history`, a
    list of steps (`kind`, `text`, `arguments`, `observation`, `result`, `is_error`, `n_tokens`).
    A candidate is such a step, and may name its own `agent`. Without a sandbox, signals of programs
    are unknown.

    Raises:
        ParameterError: a field is missing or no known word.
    """
    return featurise_requests(pipeline, [Request(state, candidates)], sandbox=sandbox)[0]


def featurise_requests(
    pipeline: FeaturePipeline, requests: Sequence[Request], *, sandbox: Sandbox | None
) -> list[DecisionGroup]:
    """The decision groups of several requests: one pass, so that each text is encoded once.

    Raises:
        ParameterError: as `featurise_request`.
    """
    contents: list[TrajectoryContent] = []
    tasks, lengths = [], []
    for number, (state, candidates) in enumerate(requests):
        task = _task(state)
        tasks.append(task)
        # Whose checks are run on a program is told by the task's id, which requests may share.
        alone = replace(task, task_id=f"{number}/{task.task_id}")
        history = tuple(_step(item, where="history") for item in state.get("history") or ())
        lengths.append([len(history) + 1] * len(candidates))
        contents += [
            TrajectoryContent(
                trajectory_id=f"request-{number}/candidate-{place}",
                task=alone,
                agent=_agent(state, item),
                steps=(*history, _step(item, where="candidates")),
            )
            for place, item in enumerate(candidates)
        ]
    # Nothing is kept between requests: whoever serves decides what may be written where.
    runner = None if sandbox is None else SandboxRunner(sandbox)
    arrays = pipeline.transform_contents(contents, {}, runner=runner)
    return _groups(arrays, tasks=tasks, lengths=lengths)


def task_text(state: Mapping[str, Any]) -> str:
    """What stands for the task of a state: its description, else what it begins with."""
    return str(state.get("description") or state.get("initial_state") or "")


class RunFeatures(NamedTuple):
    """A run that goes on, as the actor and the terminal head see it."""

    state: Floats  # [Ds] what is known now
    situation: Situation
    attempts: DecisionGroup | None
    """The attempts so far, the present one last; None before there is any."""


def featurise_run(
    pipeline: FeaturePipeline, state: Mapping[str, Any], *, sandbox: Sandbox | None
) -> RunFeatures:
    """Where a run stands after its `history`.

    `state` is as in `featurise_request`, with what the harness can do where it is known: `tools`
    (names of what can be called), `attempts_left`, and `attempts`, the earlier attempts at the same
    task, each with a `history` and perhaps its own `agent`.

    Raises:
        ParameterError: a field is missing or no known word.
    """
    return featurise_runs(pipeline, [state], sandbox=sandbox)[0]


def featurise_runs(
    pipeline: FeaturePipeline, states: Sequence[Mapping[str, Any]], *, sandbox: Sandbox | None
) -> list[RunFeatures]:
    """Where several runs stand: one pass, so that each text is encoded once.

    Raises:
        ParameterError: as `featurise_run`.
    """
    if not states:
        return []
    runs = [_run(state, number) for number, state in enumerate(states)]
    contents = [content for run in runs for content in run.contents]
    runner = None if sandbox is None else SandboxRunner(sandbox)
    arrays = pipeline.transform_contents(contents, {}, runner=runner)
    lengths = [[len(content.steps) for content in run.contents] for run in runs]
    groups = _groups(arrays, tasks=[run.task for run in runs], lengths=lengths)
    # A run of n steps has n + 1 states.
    ends = np.cumsum([sum(group) + len(group) for group in lengths]) - 1
    found = []
    for run, group, end in zip(runs, groups, ends, strict=True):
        begun = np.array([len(steps) > 0 for steps in run.taken], dtype=np.bool_)
        found.append(
            RunFeatures(
                # What the agent does first has no part in the state before it.
                state=arrays.state[end] if run.taken[-1] else arrays.state[end - 1],
                situation=run.situation,
                attempts=group.take(np.flatnonzero(begun)) if begun.any() else None,
            )
        )
    return found


class _Run(NamedTuple):
    """A run that goes on, read."""

    task: TaskContent
    contents: tuple[TrajectoryContent, ...]
    """Earlier attempts and the present one."""
    taken: tuple[tuple[StepContent, ...], ...]
    """The steps of each, perhaps none."""
    situation: Situation


def _run(state: Mapping[str, Any], number: int) -> _Run:
    task = _task(state)
    attempts = [*(state.get("attempts") or ()), state]
    taken = tuple(
        tuple(_step(item, where="history") for item in attempt.get("history") or ())
        for attempt in attempts
    )
    # Whose checks are run on a program is told by the task's id, which runs may share.
    alone = replace(task, task_id=f"{number}/{task.task_id}")
    contents = tuple(
        TrajectoryContent(
            trajectory_id=f"run-{number}/attempt-{place}",
            task=alone,
            agent=_agent(state, attempt),
            steps=steps or _NOTHING_YET,
        )
        for place, (attempt, steps) in enumerate(zip(attempts, taken, strict=True))
    )
    called = (tool_of(step) for steps in taken for step in steps)
    tools = frozenset(str(tool) for tool in (*(state.get("tools") or ()), *called) if tool)
    harness = harness_of(task, tools, attempts_left=state.get("attempts_left"))
    return _Run(task, contents, taken, situation_after(task, taken[-1], harness))


def _groups(
    arrays: FeatureArrays, *, tasks: Sequence[TaskContent], lengths: Sequence[Sequence[int]]
) -> list[DecisionGroup]:
    """One group a task; its runs of these numbers of steps, at least one, are the candidates."""
    # A run of n steps has n actions, one a step, and n + 1 states.
    n_steps = np.array([n for group in lengths for n in group], dtype=np.int64)
    after = np.cumsum(n_steps + 1) - 1
    last = np.cumsum(n_steps) - 1
    bounds = np.cumsum([0, *map(len, lengths)])
    return [
        _group(
            arrays,
            task=task,
            runs=slice(start, stop),
            after=after[start:stop],
            last=last[start:stop],
            n_steps=n_steps[start:stop],
        )
        for task, start, stop in zip(tasks, bounds[:-1], bounds[1:], strict=True)
    ]


def _group(
    arrays: FeatureArrays,
    *,
    task: TaskContent,
    runs: slice,
    after: Integers,
    last: Integers,
    n_steps: Integers,
) -> DecisionGroup:
    k = len(n_steps)
    rows = [arrays.frame.actions[index] for index in last]
    return DecisionGroup(
        group_id=task.task_id,
        kind=GroupKind.ATTEMPT,
        task_id=task.task_id,
        source=task.source,
        family=task.task_id,
        split=Split.TEST,
        fold=ALL_DEVELOPMENT,
        before=arrays.state[after - 1],
        after=arrays.state[after],
        action=arrays.action[last],
        signals=GroupSignals(
            n_chars=np.array([row.n_chars for row in rows], dtype=np.float32),
            text_key=np.array([row.text_key for row in rows], dtype=np.int64),
            answer_key=np.array([row.answer_key for row in rows], dtype=np.int64),
            visible_rate=np.array([row.submitted.visible_rate for row in rows], dtype=np.float32),
            generated_passed=pad_flags([row.submitted.generated_passed for row in rows]),
            outputs=pad_keys([row.submitted.outputs for row in rows]),
            made_outputs=pad_keys([row.submitted.made_outputs for row in rows]),
            agent_prior=arrays.agent_prior[runs],
        ),
        n_steps=n_steps,
        n_tokens=np.zeros(k, dtype=np.int64),
        success=np.full(k, np.nan, dtype=np.float32),
        dangerous=np.zeros(k, dtype=np.bool_),
        is_taken=np.zeros(k, dtype=np.bool_),
        trusted=True,
    )


def _task(state: Mapping[str, Any]) -> TaskContent:
    return TaskContent(
        task_id=str(state.get("task_id") or _TASK),
        source=str(state.get("source") or ""),
        description=str(state.get("description") or ""),
        initial_state=str(state.get("initial_state") or ""),
        language=_word(Language, state.get("language") or Language.TEXT, where="state.language"),
        entry_point=state.get("entry_point"),
        visible_checks=tuple(state.get("visible_checks") or ()),
        generated_checks=tuple(state.get("generated_checks") or ()),
    )


def _agent(state: Mapping[str, Any], candidate: Mapping[str, Any]) -> AgentKey:
    """Candidates of several agents may meet in one request."""
    agent = candidate.get("agent") or state.get("agent") or {}
    return AgentKey(
        str(state.get("source") or ""), str(agent.get("name") or ""), str(agent.get("model") or "")
    )


def _step(item: Mapping[str, Any], *, where: str) -> StepContent:
    if "kind" not in item:
        raise ParameterError(f"{where}: a step has no 'kind', found {sorted(item)}")
    arguments = orjson.dumps(item.get("arguments") or {}, option=orjson.OPT_SORT_KEYS)
    action = ActionContent(
        kind=_word(ActionKind, item["kind"], where=f"{where}.kind"),
        text=str(item.get("text") or ""),
        arguments=arguments.decode(),
    )
    return StepContent(
        observation=str(item.get("observation") or ""),
        actions=(action,),
        result=str(item.get("result") or ""),
        is_error=item.get("is_error"),
        n_tokens=item.get("n_tokens"),
    )


def _word(words: type[_Word], value: Any, *, where: str) -> _Word:
    try:
        return words(value)
    except ValueError as error:
        known = ", ".join(words)
        raise ParameterError(f"{where}: expected one of {known}; found {value!r}") from error
