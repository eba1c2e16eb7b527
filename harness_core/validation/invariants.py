"""What must hold in every row of the interim tables, as text-free columns of facts.

Each function turns a table into one row a record with the column `id` and one column a fact. Facts
hold flags, counts and ids, never the text of a log, so that no report made of them can leak one.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from harness_core.trajectories.vocabulary import INTERVENTIONS, ActionKind, Language

Flags = npt.NDArray[np.bool_]

_KINDS = [kind.value for kind in ActionKind]
_INTERVENTIONS = [kind.value for kind in INTERVENTIONS]
_LANGUAGES = [language.value for language in Language]
_SHA256_LENGTH = 64
_PROPENSITY_SLACK = 1e-6
"""Logged propensities are rounded; their sum may exceed 1 by this much."""


def trajectory_facts(trajectories: pa.Table, *, steps: pa.Table, tasks: pa.Table) -> pa.Table:
    """One row a trajectory; `outcome_unknown`: neither logged nor gradable by hidden checks."""
    n_steps = Counter(steps["trajectory_id"].to_pylist())
    keys = _task_keys(trajectories)
    has_hidden = pc.greater(pc.list_value_length(tasks["hidden_checks"]), 0)
    gradable = dict(zip(_task_keys(tasks), _flags(has_hidden), strict=True))
    ids = trajectories["trajectory_id"].to_pylist()
    declared = trajectories["n_steps"].to_pylist()
    is_unlogged = pc.and_(
        pc.and_(pc.is_null(trajectories["success"]), pc.is_null(trajectories["score"])),
        pc.is_null(trajectories["n_tests_total"]),
    )
    return pa.table(
        {
            "id": trajectories["trajectory_id"],
            "task_id": trajectories["task_id"],
            "agent": _agents(trajectories),
            "follows_previous": _is_ascending(ids),
            "ends_exactly_once": _flags(
                pc.xor(trajectories["terminated"], trajectories["truncated"])
            ),
            "has_all_steps": _array(
                n == n_steps[name] and bool(n) for name, n in zip(ids, declared, strict=True)
            ),
            "has_task": _array(key in gradable for key in keys),
            "has_family": _is_filled(trajectories["family"]),
            "has_agent": _is_filled(trajectories["agent_name"]),
            "has_provenance": _has_provenance(trajectories),
            "extra_is_json": _is_json_object(trajectories["extra"]),
            "score": trajectories["score"],
            "tests_add_up": _tests_add_up(trajectories),
            "outcome_agrees_with_tests": _outcome_agrees_with_tests(trajectories),
            "outcome_unknown": (
                _flags(is_unlogged) & ~_array(gradable.get(key, False) for key in keys)
            ).astype(np.int8),
        }
    )


def step_facts(steps: pa.Table, *, trajectories: pa.Table) -> pa.Table:
    """One row a step, with id `trajectory_id:step_index`."""
    ids = steps["trajectory_id"].to_pylist()
    index = steps["step_index"].to_pylist()
    kinds = steps["action_kind"]
    is_intervention = _flags(pc.is_in(kinds, pa.array(_INTERVENTIONS)))
    has_text = _is_filled(steps["action_text"])
    n_candidates = _lengths(steps["candidates"])
    return pa.table(
        {
            "id": [f"{name}:{number}" for name, number in zip(ids, index, strict=True)],
            "has_trajectory": _flags(
                pc.is_in(steps["trajectory_id"], trajectories["trajectory_id"].combine_chunks())
            ),
            "follows_previous": _is_ascending(ids, index),
            "index_is_next": _index_is_next(ids, index),
            "kind_is_known": _flags(pc.is_in(kinds, pa.array(_KINDS))),
            "arguments_are_json": _is_json_object(steps["action_arguments"]),
            "has_content": is_intervention | has_text,
            "intervention_is_bare": ~is_intervention | ~has_text,
            "n_candidates": n_candidates,
            "chosen_is_a_candidate": _chosen_is_a_candidate(steps, n_candidates),
            "chosen_is_the_action": _chosen_is_the_action(steps, n_candidates),
            "propensity": steps["propensity"],
            "candidate_propensities_add_up": _candidate_propensities_add_up(steps),
            "prompt_tokens": steps["prompt_tokens"],
            "completion_tokens": steps["completion_tokens"],
            "cost_usd": steps["cost_usd"],
            "reward_is_finite": _is_finite(steps["logged_reward"]),
            "failed": _flags(steps["is_error"]).astype(np.int8),
        }
    )


def task_facts(tasks: pa.Table, *, trajectories: pa.Table) -> pa.Table:
    """One row a task of a source, with id `source/task_id`."""
    keys = _task_keys(tasks)
    used = set(_task_keys(trajectories))
    visible, hidden = tasks["visible_checks"], tasks["hidden_checks"]
    is_python = _flags(pc.equal(tasks["language"], Language.PYTHON.value))
    has_checks = (_lengths(visible) > 0) | (_lengths(hidden) > 0)
    return pa.table(
        {
            "id": [f"{source}/{name}" for source, name in keys],
            "is_named": _is_filled(tasks["source"]) & _is_filled(tasks["task_id"]),
            "has_family": _is_filled(tasks["family"]),
            "has_description": _is_filled(tasks["description"]),
            "language_is_known": _flags(pc.is_in(tasks["language"], pa.array(_LANGUAGES))),
            "checks_are_filled": _texts_are_filled(visible)
            & _texts_are_filled(tasks["generated_checks"])
            & _texts_are_filled(hidden),
            "checks_have_entry_point": ~is_python | ~has_checks | _is_filled(tasks["entry_point"]),
            "has_trajectory": _array(key in used for key in keys),
        }
    )


def _task_keys(table: pa.Table) -> list[tuple[str, str]]:
    return list(zip(table["source"].to_pylist(), table["task_id"].to_pylist(), strict=True))


def _agents(trajectories: pa.Table) -> list[str]:
    names, models = trajectories["agent_name"].to_pylist(), trajectories["model"].to_pylist()
    return [f"{name} {model}".strip() for name, model in zip(names, models, strict=True)]


def _array(facts: Iterable[bool]) -> Flags:
    return np.fromiter(facts, dtype=np.bool_)


def _flags(values: Any) -> Flags:
    """A boolean Arrow column as an array; null is False."""
    filled: Flags = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return filled.astype(bool)


def _lengths(lists: Any) -> npt.NDArray[np.int64]:
    counts: npt.NDArray[np.int64] = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return counts.astype(np.int64)


def _is_filled(texts: Any) -> Flags:
    return _flags(pc.greater(pc.utf8_length(texts), 0))


def _is_finite(numbers: Any) -> Flags:
    """Whether each number is finite; null is fine."""
    finite: Flags = pc.fill_null(pc.is_finite(numbers), True).to_numpy(zero_copy_only=False)
    return finite.astype(bool)


def _is_ascending(*columns: Sequence[Any]) -> Flags:
    """Readers walk trajectories and steps side by side, so both must be sorted."""
    keys = list(zip(*columns, strict=True))
    facts = [None not in key for key in keys]
    for number, (before, after) in enumerate(itertools.pairwise(keys), start=1):
        facts[number] = None not in (*before, *after) and before < after
    return _array(facts)


def _is_json_object(texts: Any) -> Flags:
    distinct = {text: _parses_as_object(text) for text in pc.unique(texts).to_pylist()}
    return _array(distinct[text] for text in texts.to_pylist())


def _parses_as_object(text: str | None) -> bool:
    try:
        return isinstance(orjson.loads(text or ""), dict)
    except orjson.JSONDecodeError:
        return False


def _has_provenance(trajectories: pa.Table) -> Flags:
    is_digest = pc.equal(pc.utf8_length(trajectories["source_sha256"]), _SHA256_LENGTH)
    has_line: Flags = _flags(pc.greater_equal(trajectories["line"], 1))
    return _flags(is_digest) & has_line & _is_filled(trajectories["importer"])


def _tests_add_up(trajectories: pa.Table) -> Flags:
    passed, total = trajectories["n_tests_passed"], trajectories["n_tests_total"]
    both = _flags(pc.and_(pc.less_equal(passed, total), pc.greater_equal(passed, 0)))
    return both | _flags(pc.is_null(passed)) | _flags(pc.is_null(total))


def _outcome_agrees_with_tests(trajectories: pa.Table) -> Flags:
    passed, total = trajectories["n_tests_passed"], trajectories["n_tests_total"]
    comparable = pc.and_(pc.is_valid(trajectories["success"]), pc.greater(total, 0))
    agrees = pc.equal(trajectories["success"], pc.equal(passed, total))
    return ~_flags(comparable) | ~_flags(pc.is_valid(passed)) | _flags(agrees)


def _index_is_next(ids: Sequence[str], index: Sequence[int | None]) -> Flags:
    facts: list[bool] = []
    before: tuple[str | None, int | None] = (None, None)
    for name, number in zip(ids, index, strict=True):
        expected = before[1] + 1 if name == before[0] and before[1] is not None else 0
        facts.append(number == expected)
        before = (name, number)
    return _array(facts)


def _chosen_is_a_candidate(steps: pa.Table, n_candidates: npt.NDArray[np.int64]) -> Flags:
    chosen = steps["chosen_index"]
    is_below = _flags(pc.less(chosen, pa.array(n_candidates)))
    has_none: Flags = np.asarray(n_candidates == 0)
    return (_flags(pc.greater_equal(chosen, 0)) & is_below) | (
        has_none & _flags(pc.is_null(chosen))
    )


def _chosen_is_the_action(steps: pa.Table, n_candidates: npt.NDArray[np.int64]) -> Flags:
    """Where a valid candidate is marked as chosen, it is the action that was taken."""
    facts = np.ones(steps.num_rows, dtype=bool)
    rows = np.flatnonzero((n_candidates > 0) & _chosen_is_a_candidate(steps, n_candidates))
    if len(rows) == 0:
        return facts
    lists = steps["candidates"].combine_chunks()
    chosen = steps["chosen_index"].combine_chunks().take(pa.array(rows)).to_numpy()
    candidates = lists.values.take(pa.array(lists.offsets.to_numpy()[rows] + chosen))
    for column in ("kind", "text", "arguments"):
        taken = steps[f"action_{column}"].take(pa.array(rows)).combine_chunks()
        facts[rows] &= _flags(pc.equal(taken, candidates.field(column)))
    return facts


def _candidate_propensities_add_up(steps: pa.Table) -> Flags:
    """The propensities of the candidates of a step lie in [0, 1] and sum to no more than 1."""
    lists = steps["candidates"].combine_chunks()
    parents = pc.list_parent_indices(lists).to_numpy()
    values = lists.flatten().field("propensity").to_numpy(zero_copy_only=False)
    known = ~np.isnan(values)
    sums = np.bincount(parents[known], weights=values[known], minlength=steps.num_rows)
    facts: Flags = np.asarray(sums <= 1 + _PROPENSITY_SLACK)
    facts[parents[known & ~((values >= 0) & (values <= 1))]] = False
    return facts


def _texts_are_filled(lists: Any) -> Flags:
    facts = np.ones(len(lists), dtype=bool)
    combined = lists.combine_chunks()
    empty = ~_is_filled(pc.utf8_trim_whitespace(combined.flatten()))
    facts[pc.list_parent_indices(combined).to_numpy()[empty]] = False
    return facts
