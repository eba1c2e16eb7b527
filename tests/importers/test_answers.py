"""Answers to questions: numbers that compare, labels that fit, and paths through a tree."""

import json
from pathlib import Path

import pytest

from harness_core.features.keys import answer_key
from tests.importers.conftest import ReadFolder
from tests.importers.golden.regenerate import GOLDEN

GSM8K = GOLDEN / "gsm8k_solutions" / "logs"
TREE = "toy-4_0.7_propose1_value3_greedy2_start0_end1.json"


def test_equal_numbers_are_equal_answers_however_they_are_spelt(read_folder: ReadFolder) -> None:
    items = read_folder("gsm8k_solutions", GSM8K).trajectories
    keys = {
        (item.task.task_id, item.agent.name, item.agent.model): answer_key(
            item.steps[0].action.text
        )
        for item in items
    }
    by_task = {task: [keys[key] for key in keys if key[0] == task] for task, _, _ in keys}
    for found, items_of in zip(by_task.values(), (items[:4], items[4:]), strict=True):
        right = {key for key, item in zip(found, items_of, strict=True) if item.outcome.success}
        wrong = {key for key, item in zip(found, items_of, strict=True) if not item.outcome.success}
        assert len(right) == 1
        assert not right & wrong
        assert len(wrong) == 2


@pytest.mark.parametrize(
    ("solution", "text"),
    [
        ("Sum.\nA: 10.0", "Sum.\n#### 10"),
        ("A: 1,200.50\n", "#### 1200.5"),
        ("A: -3", "#### -3"),
        ("A: .5", "#### .5"),
        ("A: 100", "#### 100"),
        ("A: 1/2", "A: 1/2"),
        ("A: 7 is\nmore", "A: 7 is\nmore"),
    ],
)
def test_the_last_line_of_a_solution_gets_the_mark_of_an_answer(
    solution, text, tmp_path, read_folder
) -> None:
    row = {
        "question": "?",
        "ground_truth": "A: 1",
        "6b": {"solution": solution, "is_correct": True},
    }
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    (found,) = read_folder("gsm8k_solutions", tmp_path).trajectories
    assert found.steps[0].action.text == text
    assert (found.agent.name, found.agent.model) == ("6b", "6b")


def test_the_true_answer_of_a_question_goes_nowhere(read_folder: ReadFolder) -> None:
    imported = read_folder("gsm8k_solutions", GSM8K)
    told = "".join(item.model_dump_json() for item in imported.trajectories)
    told += "".join(task.model_dump_json() for task in imported.tasks.values())
    assert "There are 2*4=<<2*4=8>>8 hens" not in told


def test_a_tree_is_a_path_of_lines_each_among_what_was_proposed(read_folder: ReadFolder) -> None:
    imported = read_folder("tot", GOLDEN / "tot" / "logs")
    best, other = imported.trajectories[-2:]
    assert [step.result for step in best.steps] == ["value 60"] * 4
    assert [len(step.candidates) for step in best.steps] == [2, 2, 1, 1]
    assert best.steps[3].action.text == "Answer: (6 * 4) * 1 * 1 = 24"
    assert [step.chosen_index for step in other.steps] == [1, 0, 0, 0]
    assert (best.outcome.success, other.outcome.success) == (True, False)


def test_the_numbers_of_a_puzzle_come_from_its_tree(read_folder: ReadFolder) -> None:
    tasks = read_folder("tot", GOLDEN / "tot" / "logs").tasks
    assert tasks["game24/0"].description.endswith("\nInput: 1 1 4 6")
    assert tasks["game24/1"].description.endswith("\nPuzzle 1")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"infos": [{"r": 1}]}, "W-LABELS"),
        ({"ys": [], "infos": []}, "W-NO-STEPS"),
        ({"ys": ["2 + 2 = 4\n", "3\n"]}, "W-PATH"),
        ({"infos": [{"r": 2}, {"r": 0}]}, "S-SCHEMA"),
    ],
)
def test_a_tree_that_does_not_fit_is_refused(change, rule, tmp_path, read_folder) -> None:
    (row,) = json.loads((GOLDEN / "tot" / "logs" / TREE).read_text())
    (tmp_path / TREE).write_text(json.dumps([row | change]))
    assert read_folder("tot", tmp_path).rules == [rule]


def test_a_file_of_another_name_names_its_agent(tmp_path: Path, read_folder: ReadFolder) -> None:
    row = {"idx": 4, "ys": ["Answer: 4 * 6 = 24"], "accs": [True]}
    (tmp_path / "mine.json").write_text(json.dumps([row]))
    (found,) = read_folder("tot", tmp_path).trajectories
    assert (found.agent.name, found.agent.model) == ("mine", "")
