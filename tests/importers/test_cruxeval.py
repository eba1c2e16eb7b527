"""Predicted inputs and outputs: answers as texts, and no check that would be the label itself."""

import json
from pathlib import Path

import pytest

from harness_core.importers.tasks import problem_of
from harness_core.trajectories.vocabulary import ActionKind
from tests.importers.conftest import ReadFolder
from tests.importers.golden.regenerate import GOLDEN

FUNCTION = {"code": "def f(x):\n    return x", "input": "1", "output": "1", "id": "sample_7"}


def write(folder: Path, answers: dict[str, object], scores: object, asked: str = "input") -> None:
    (folder / "functions.jsonl").write_text(json.dumps(FUNCTION) + "\n")
    maps = {"raw_generations": answers} | (
        {} if scores is None else {"raw_scored_generations": scores}
    )
    (folder / f"sample_scored_toy_temp0.8_{asked}.json").write_text(json.dumps(maps))


def test_both_questions_about_a_function_are_one_problem(read_folder: ReadFolder):
    tasks = read_folder("cruxeval", GOLDEN / "cruxeval" / "logs").tasks
    assert {problem_of(name) for name in tasks} == {"cruxeval/900", "cruxeval/901"}
    assert len(tasks) == 4


@pytest.mark.parametrize(("asked", "told"), [("input", "f(??) == 3"), ("output", "f(2) == ??")])
def test_what_is_asked_for_is_not_told(asked: str, told: str, read_folder: ReadFolder):
    imported = read_folder("cruxeval", GOLDEN / "cruxeval" / "logs")
    task = imported.tasks[f"cruxeval/900#{asked}"]
    assert task.description == f"def f(x):\n    return x + 1\n\nassert {told}"
    assert (task.visible_checks, task.hidden_checks, task.reference) == ((), (), None)
    (kind,) = {step.action.kind for item in imported.trajectories for step in item.steps}
    assert kind is ActionKind.MESSAGE


def test_scores_are_looked_up_by_id(read_folder: ReadFolder):
    imported = read_folder("cruxeval", GOLDEN / "cruxeval" / "logs")
    outcomes = {
        item.steps[0].action.text: item.outcome.success
        for item in imported.trajectories
        if item.task.task_id == "cruxeval/900#input"
    }
    assert outcomes == {"f(2)": True, "f(4)": False}


@pytest.mark.parametrize(
    ("answers", "scores", "rules"),
    [
        ({"sample_7": ["1"]}, {"sample_7": [True, False]}, ["X-LABELS"]),
        ({"sample_8": ["1"]}, {"sample_8": [True]}, ["X-TASK"]),
        ({"sample_7": []}, {"sample_7": []}, ["X-NO-STEPS"]),
        ({"sample_7": [1]}, {"sample_7": [True]}, ["S-SCHEMA"]),
        ({"sample_7": ["1"]}, {"sample_7": [1]}, ["S-SCHEMA"]),
        ({"sample_8": ["1"], "sample_7": ["1"]}, {"sample_7": [True]}, ["X-TASK"]),
    ],
)
def test_a_task_whose_maps_do_not_fit_is_a_reject(
    answers: dict[str, object], scores: object, rules: list[str], tmp_path, read_folder: ReadFolder
):
    write(tmp_path, answers, scores)
    imported = read_folder("cruxeval", tmp_path)
    assert imported.rules == rules
    assert len(imported.trajectories) == len(answers) - 1
    assert imported.tally.n_records == 1 + len(answers)


def test_without_scores_the_outcome_is_unknown(tmp_path: Path, read_folder: ReadFolder):
    write(tmp_path, {"sample_7": ["f(1)"]}, None)
    (found,) = read_folder("cruxeval", tmp_path).trajectories
    assert found.outcome.success is None


def test_a_file_that_does_not_say_what_was_asked_is_refused(tmp_path, read_folder: ReadFolder):
    write(tmp_path, {"sample_7": ["f(1)"]}, None, asked="both")
    assert read_folder("cruxeval", tmp_path).rules == ["X-NAME"]
