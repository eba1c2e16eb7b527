"""Decision groups: the attempts at one task of one source, and the candidates of one state."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness_core.trajectories.vocabulary import GroupKind, Language
from harness_core.transitions.answers import first_answer
from harness_core.transitions.recorded import Recorded, Row, candidate_propensities
from harness_core.transitions.splits import Assignment


def candidate_rows(
    recorded: Iterable[Recorded],
    assignments: Mapping[str, Assignment],
    *,
    max_group_size: int,
    languages: Mapping[tuple[str, str], Language] | None = None,
) -> list[Row]:
    """The rows of `CANDIDATES`, sorted by group and candidate.

    A task with a single attempt makes a group of one: nothing can be chosen there, but it counts.
    With `languages` (of source and task) attempts stand there with their first answers.
    """
    attempts: dict[str, list[Row]] = defaultdict(list)
    rows: list[Row] = []
    for item in recorded:
        task = item.task_columns(assignments)
        if languages is None:
            attempt: Row | None = _attempt(item, task)
        else:
            attempt = _first_answer(item, task, languages[(task["source"], task["task_id"])])
        if attempt is not None:
            attempts[attempt["group_id"]].append(attempt)
        rows.extend(_step_groups(item, task, max_group_size))
    for group in attempts.values():
        kept = sorted(group, key=lambda row: str(row["trajectory_id"]))[:max_group_size]
        rows.extend({**row, "candidate_index": index} for index, row in enumerate(kept))
    return sorted(rows, key=lambda row: (row["group_id"], row["candidate_index"]))


def _attempt(item: Recorded, task: Row) -> Row:
    """A whole trajectory as a candidate. Its label was graded where that could be done."""
    last = item.taken[-1]
    return {
        "group_id": f"{GroupKind.ATTEMPT.value}:{task['source']}:{task['task_id']}",
        "kind": GroupKind.ATTEMPT.value,
        "candidate_index": 0,
        **task,
        "trajectory_id": item.trajectory_id,
        "step_index": last["step_index"],
        "step_candidate": last["candidate_index"],
        "is_taken": True,
        "agent_name": item.row["agent_name"],
        "model": item.row["model"],
        "n_steps": item.row["n_steps"],
        "n_tokens": sum(step["completion_tokens"] or 0 for step in item.steps),
        "success": last["outcome"] if last["solved"] is None else float(last["solved"]),
        "dangerous": item.is_dangerous,
        "trusted": last["trusted"],
        "propensity": None,
    }


def _first_answer(item: Recorded, task: Row, language: Language) -> Row | None:
    """A trajectory up to its first answer, as a candidate."""
    answer = first_answer(item, language)
    if answer is None:
        return None
    taken = item.taken[answer.step_index]
    return {
        **_attempt(item, task),
        "step_index": answer.step_index,
        "step_candidate": taken["candidate_index"],
        "n_steps": answer.step_index + 1,
        "n_tokens": sum(
            step["completion_tokens"] or 0 for step in item.steps[: answer.step_index + 1]
        ),
        "success": answer.success,
        "dangerous": any(row["danger"] for row in item.taken[: answer.step_index + 1]),
        "trusted": taken["trusted"],
    }


def _step_groups(item: Recorded, task: Row, max_group_size: int) -> Iterator[Row]:
    """The candidates of every state up to the end; what came after a dangerous action is void."""
    for index in range(item.n_steps_until_end):
        candidates = item.rewards[index]
        if len(candidates) < 2:  # noqa: PLR2004  # one candidate leaves nothing to choose
            continue
        propensities = candidate_propensities(item.steps[index])
        for place, row in enumerate(_kept(candidates, max_group_size)):
            yield {
                "group_id": f"{item.trajectory_id}:{index}",
                "kind": GroupKind.STEP.value,
                "candidate_index": place,
                **task,
                "trajectory_id": item.trajectory_id,
                "step_index": index,
                "step_candidate": row["candidate_index"],
                "is_taken": row["is_taken"],
                "agent_name": item.row["agent_name"],
                "model": item.row["model"],
                "n_steps": index + 1,
                "n_tokens": 0,
                "success": None if row["solved"] is None else float(row["solved"]),
                "dangerous": bool(row["danger"]),
                "trusted": row["trusted"],
                "propensity": propensities[row["candidate_index"]],
            }


def _kept(candidates: Sequence[Row], max_group_size: int) -> Sequence[Row]:
    """The first candidates; the one taken keeps its place among them whatever its index."""
    kept = list(candidates[:max_group_size])
    if not any(row["is_taken"] for row in kept):
        kept[-1] = next(row for row in candidates if row["is_taken"])
    return kept
