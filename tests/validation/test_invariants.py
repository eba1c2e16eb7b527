from collections.abc import Callable

import pyarrow as pa
import pytest

from harness_core.validation.invariants import step_facts, task_facts, trajectory_facts

Tables = dict[str, pa.Table]


def facts_of(tables: Tables) -> Tables:
    return {
        "trajectories": trajectory_facts(
            tables["trajectories"], steps=tables["steps"], tasks=tables["tasks"]
        ),
        "steps": step_facts(tables["steps"], trajectories=tables["trajectories"]),
        "tasks": task_facts(tables["tasks"], trajectories=tables["trajectories"]),
    }


def flags(table: pa.Table) -> list[str]:
    return [field.name for field in table.schema if field.type == pa.bool_()]


def test_every_fact_holds_on_coherent_tables(good_tables: Tables) -> None:
    for table in facts_of(good_tables).values():
        assert all(all(table[name].to_pylist()) for name in flags(table))


def test_facts_hold_no_text_of_the_logs(good_tables: Tables) -> None:
    for table in facts_of(good_tables).values():
        assert "must-not-leak" not in str(table.to_pylist())


CANDIDATE = {"kind": "code", "text": "x", "arguments": "{}", "propensity": None}

BREAKS = [
    ("trajectories", "ends_exactly_once", {"truncated": True}),
    ("trajectories", "ends_exactly_once", {"terminated": None}),
    ("trajectories", "has_all_steps", {"n_steps": 7}),
    ("trajectories", "has_task", {"task_id": "task/none"}),
    ("trajectories", "has_task", {"source": "elsewhere"}),
    ("trajectories", "has_family", {"family": ""}),
    ("trajectories", "has_agent", {"agent_name": ""}),
    ("trajectories", "has_provenance", {"source_sha256": "abc"}),
    ("trajectories", "has_provenance", {"line": 0}),
    ("trajectories", "extra_is_json", {"extra": "[1]"}),
    ("trajectories", "extra_is_json", {"extra": None}),
    ("trajectories", "tests_add_up", {"n_tests_passed": 2}),
    ("trajectories", "outcome_agrees_with_tests", {"success": True, "n_tests_passed": 0}),
    ("trajectories", "follows_previous", {"trajectory_id": ""}),
    ("trajectories", "follows_previous", {"trajectory_id": None}),
    ("steps", "has_trajectory", {"trajectory_id": "nobody"}),
    ("steps", "index_is_next", {"step_index": 9}),
    ("steps", "follows_previous", {"trajectory_id": "0"}),
    ("steps", "kind_is_known", {"action_kind": "dance"}),
    ("steps", "arguments_are_json", {"action_arguments": "{"}),
    ("steps", "has_content", {"action_text": ""}),
    ("steps", "intervention_is_bare", {"action_kind": "submit"}),
    ("steps", "chosen_is_a_candidate", {"chosen_index": 2}),
    ("steps", "chosen_is_a_candidate", {"chosen_index": -1}),
    ("steps", "chosen_is_a_candidate", {"chosen_index": None}),
    ("steps", "chosen_is_a_candidate", {"candidates": []}),
    ("steps", "chosen_is_the_action", {"chosen_index": 0}),
    ("steps", "chosen_is_the_action", {"action_text": "something else"}),
    (
        "steps",
        "candidate_propensities_add_up",
        {"candidates": [{**CANDIDATE, "propensity": 0.7}, {**CANDIDATE, "propensity": 0.7}]},
    ),
    (
        "steps",
        "candidate_propensities_add_up",
        {"candidates": [{**CANDIDATE, "propensity": -0.1}]},
    ),
    ("steps", "reward_is_finite", {"logged_reward": float("nan")}),
    ("tasks", "is_named", {"task_id": ""}),
    ("tasks", "has_family", {"family": ""}),
    ("tasks", "has_description", {"description": ""}),
    ("tasks", "language_is_known", {"language": "latin"}),
    ("tasks", "checks_are_filled", {"hidden_checks": ["assert f(1)", "  "]}),
    ("tasks", "checks_are_filled", {"visible_checks": [None]}),
    ("tasks", "checks_have_entry_point", {"entry_point": None}),
    ("tasks", "has_trajectory", {"task_id": "task/unused"}),
]


@pytest.mark.parametrize(("table", "fact", "cells"), BREAKS)
def test_a_broken_row_breaks_its_fact_and_leaves_the_other_rows_alone(
    good_tables: Tables,
    broken: Callable[..., Tables],
    table: str,
    fact: str,
    cells: dict[str, object],
) -> None:
    row = 5
    found = facts_of(broken(good_tables, table, row, **cells))[table][fact].to_pylist()
    assert not found[row]
    # A row out of place also makes its neighbour look out of place.
    others = (
        found[:row] + found[row + (2 if fact in {"follows_previous", "index_is_next"} else 1) :]
    )
    assert all(others)


def test_a_missing_step_is_noticed_in_both_tables(good_tables: Tables) -> None:
    steps = good_tables["steps"]
    first = steps["step_index"].to_pylist().index(1) - 1
    tables = {**good_tables, "steps": pa.concat_tables([steps[:first], steps[first + 1 :]])}
    facts = facts_of(tables)
    assert facts["trajectories"]["has_all_steps"].to_pylist().count(False) == 1
    assert not facts["steps"]["index_is_next"][first].as_py()


def test_a_task_with_hidden_checks_makes_an_unlogged_outcome_known(
    good_tables: Tables, broken: Callable[..., Tables]
) -> None:
    nothing = {"success": None, "score": None, "n_tests_passed": None, "n_tests_total": None}
    unlogged = broken(good_tables, "trajectories", 0, **nothing)
    assert facts_of(unlogged)["trajectories"]["outcome_unknown"].to_pylist() == [0] * 24
    rows = [{**row, "hidden_checks": []} for row in good_tables["tasks"].to_pylist()]
    tasks = pa.Table.from_pylist(rows, schema=good_tables["tasks"].schema)
    found = facts_of({**unlogged, "tasks": tasks})["trajectories"]["outcome_unknown"]
    assert found.to_pylist() == [1] + [0] * 23


def test_empty_tables_have_empty_facts(good_tables: Tables) -> None:
    empty = {name: table[:0] for name, table in good_tables.items()}
    assert all(table.num_rows == 0 for table in facts_of(empty).values())


def test_facts_of_a_slice_are_the_slice_of_the_facts(good_tables: Tables) -> None:
    steps = good_tables["steps"]
    start = steps["step_index"].to_pylist().index(0, 3)
    whole = step_facts(steps, trajectories=good_tables["trajectories"])
    part = step_facts(steps[start:], trajectories=good_tables["trajectories"])
    assert part.to_pylist() == whole[start:].to_pylist()
