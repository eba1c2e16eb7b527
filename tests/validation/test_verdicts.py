import pyarrow as pa

from harness_core.trajectories.arrow import TRAJECTORIES
from harness_core.validation.verdicts import ExpectationVerdict, oddities, warnings_of


def runs(agents: list[str], outcomes: list[bool | None]) -> pa.Table:
    columns = {
        "agent_name": pa.array(agents),
        "model": pa.array([""] * len(agents)),
        "success": pa.array(outcomes, pa.bool_()),
        "score": pa.nulls(len(agents), TRAJECTORIES.field("score").type),
    }
    return pa.table(columns)


def test_one_agent_that_drowns_the_others_is_odd() -> None:
    (sentence,) = oddities(runs(["a"] * 999 + ["b"], [True, False] * 500))
    assert sentence.startswith("trajectories: 999 of 1000 runs are of one agent, a")


def test_logs_of_a_single_agent_or_of_an_even_mix_are_not_odd() -> None:
    assert oddities(runs(["a"] * 10, [True, False] * 5)) == []
    assert oddities(runs(["a", "b"] * 5, [True, False] * 5)) == []


def test_equal_outcomes_are_odd_and_unknown_ones_do_not_count() -> None:
    (sentence,) = oddities(runs(["a"] * 3, [False, None, False]))
    assert "all 2 logged outcomes are 0" in sentence
    assert oddities(runs(["a"] * 3, [None, None, None])) == []


def test_a_failed_warning_becomes_a_sentence_with_an_example() -> None:
    verdict = ExpectationVerdict(
        table="tasks",
        expectation="expect_column_values_to_be_in_set",
        column="has_description",
        meaning="every task has a description",
        severity="warning",
        passed=False,
        n_rows=10,
        n_unexpected=2,
        observed=None,
        examples=("pack/task/3",),
    )
    (sentence,) = warnings_of([verdict, verdict.model_copy(update={"passed": True})])
    assert sentence == (
        "tasks: every task has a description; 2 of 10 rows break this, for example pack/task/3 "
        "(expect_column_values_to_be_in_set on has_description)"
    )
