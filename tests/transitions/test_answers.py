"""First answers of attempts, and groups made of them."""

import pytest

from harness_core.trajectories.vocabulary import Language, Split
from harness_core.transitions.answers import Answer, first_answer
from harness_core.transitions.groups import candidate_rows
from harness_core.transitions.recorded import Recorded, Row
from harness_core.transitions.splits import Assignment

PLACES = {"t": Assignment(Split.TRAIN, 0)}
SQL = {("s", "t"): Language.SQL}


def turn(text: str, reward: float | None, *, error: bool = False, kind: str = "code") -> Row:
    return {
        "action_kind": kind,
        "action_text": text,
        "is_error": error,
        "logged_reward": reward,
        "completion_tokens": 3,
        "candidates": [],
    }


def run(*turns: Row, name: str = "a", solved: dict[int, bool] | None = None) -> Recorded:
    known = solved or {}
    row = {"trajectory_id": name, "source": "s", "task_id": "t", "family": "f"}
    rewards = [
        {
            "step_index": index,
            "candidate_index": 0,
            "is_taken": True,
            "outcome": 1.0 if index == len(turns) - 1 else None,
            "danger": 0.0,
            "solved": known.get(index),
            "ends_here": False,
            "trusted": True,
        }
        for index in range(len(turns))
    ]
    return Recorded(
        {**row, "agent_name": "a", "model": "m", "n_steps": len(turns), "terminated": True},
        turns,
        tuple((reward,) for reward in rewards),
    )


def test_a_query_that_reads_and_ran_is_the_first_answer() -> None:
    recorded = run(
        turn("SHOW TABLES", 0.0),
        turn("SELECT nme FROM pets", 0.0, error=True),
        turn("select name from pets", 0.4),
        turn("SELECT name FROM pets WHERE age > 3", 1.0),
    )
    assert first_answer(recorded, Language.SQL) == Answer(2, 0.4)


def test_any_action_that_was_graded_answers_in_other_languages() -> None:
    recorded = run(turn("ls", None), turn("wc -l notes.txt", 0.5))
    assert first_answer(recorded, Language.SHELL) == Answer(1, 0.5)


def test_our_own_grade_comes_before_that_of_the_log() -> None:
    recorded = run(turn("def f(): pass", 1.0), solved={0: False})
    assert first_answer(recorded, Language.PYTHON) == Answer(0, 0.0)


@pytest.mark.parametrize(("reward", "success"), [(1.5, 1.0), (-0.2, 0.0)])
def test_grades_lie_between_nothing_and_all(reward: float, success: float) -> None:
    assert first_answer(run(turn("SELECT 1", reward)), Language.SQL) == Answer(0, success)


def test_attempts_without_an_answer_are_left_out_of_groups_of_first_answers() -> None:
    answered = run(turn("SELECT 1", 0.0), turn("SELECT 2", 1.0), name="a")
    silent = run(turn("SHOW TABLES", 0.0), name="b")
    rows = candidate_rows([answered, silent], PLACES, max_group_size=9, languages=SQL)
    assert [(row["trajectory_id"], row["step_index"], row["success"]) for row in rows] == [
        ("a", 0, 0.0)
    ]
    # What came after the answer counts for nothing: neither its steps nor its tokens.
    assert (rows[0]["n_steps"], rows[0]["n_tokens"]) == (1, 3)
    complete = candidate_rows([answered, silent], PLACES, max_group_size=9)
    assert [row["success"] for row in complete] == [1.0, 1.0]
