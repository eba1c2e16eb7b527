"""Logs of reflecting and searching agents: what is an attempt, and what would tell its outcome."""

import json
from pathlib import Path, PurePosixPath

import pytest

from harness_core.importers.assertions import hidden_checks
from harness_core.importers.programming import whole_program
from harness_core.importers.reflexion_rows import agent_of
from harness_core.importers.tasks import problem_of, variant_of
from harness_core.trajectories.vocabulary import Language
from tests.importers.conftest import ReadFolder
from tests.importers.golden.regenerate import GOLDEN

ROW = {
    "task_id": "HumanEval/998",
    "prompt": 'def inc(x):\n    """Add one."""\n',
    "entry_point": "inc",
    "test": "def check(candidate):\n    assert candidate(1) == 2\n",
}
PASSED = ROW | {"solution": "    return x + 1", "is_solved": True}
FAILED = ROW | {"solution": "    return x", "is_solved": False}
LOST = FAILED | {"solution": ""}


def write(path: Path, *rows: dict[str, object]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("rows", "n_attempts"),
    [
        ((PASSED, LOST), 0),
        ((PASSED, FAILED, LOST), 3),
        ((PASSED, FAILED), 2),
        ((PASSED, PASSED), 2),
        ((LOST,), 0),
    ],
)
def test_where_only_the_programs_that_failed_are_lost_a_program_tells_that_it_passed(
    rows, n_attempts: int, tmp_path: Path, read_folder: ReadFolder
):
    write(tmp_path / "run.jsonl", *rows)
    imported = read_folder("reflexion", tmp_path)
    assert len(imported.trajectories) == n_attempts
    n_left_out = len(rows) - n_attempts
    assert imported.tally.warnings == ({"R-CENSORED": n_left_out} if n_left_out else {})
    assert bool(imported.tasks) is bool(n_attempts)


def test_a_broken_line_says_nothing_of_its_file(tmp_path: Path, read_folder: ReadFolder):
    write(tmp_path / "run.jsonl", PASSED, FAILED)
    (tmp_path / "run.jsonl").write_bytes((tmp_path / "run.jsonl").read_bytes() + b"7\n{\n")
    imported = read_folder("reflexion", tmp_path)
    assert len(imported.trajectories) == 2
    assert imported.rules == ["S-SCHEMA", "F-TRUNCATED"]


def test_a_row_without_an_id_is_a_reject(tmp_path: Path, read_folder: ReadFolder):
    write(tmp_path / "run.jsonl", PASSED | {"task_id": None}, FAILED)
    assert read_folder("reflexion", tmp_path).rules == ["S-SCHEMA"]


def test_a_search_that_kept_no_program_is_a_reject(tmp_path: Path, read_folder: ReadFolder):
    write(tmp_path / "run.jsonl", PASSED | {"implementations": []})
    assert read_folder("lats", tmp_path).rules == ["A-NO-STEPS"]


def test_a_program_without_feedback_is_a_step_without_a_result(
    tmp_path: Path, read_folder: ReadFolder
):
    feedback = {"implementations": ["a = 1", "a = 2"], "test_feedback": ["Tested passed:"]}
    write(tmp_path / "run.jsonl", PASSED | feedback)
    (found,) = read_folder("lats", tmp_path).trajectories
    assert [step.result for step in found.steps] == ["Tested passed:", ""]


def test_reflections_stand_where_no_feature_looks(read_folder: ReadFolder):
    for name in ("reflexion", "lats"):
        found = read_folder(name, GOLDEN / name / "logs").trajectories
        reflections = [text for item in found for text in item.extra.get("reflections", ())]
        assert reflections
        seen = "".join(
            step.observation + step.thought + step.action.text + step.result
            for item in found
            for step in item.steps
        )
        assert not any(text in seen for text in reflections)


def test_a_rust_task_has_a_place_of_its_own_and_no_checks(read_folder: ReadFolder):
    tasks = read_folder("reflexion", GOLDEN / "reflexion" / "logs").tasks
    rust = {name: task for name, task in tasks.items() if task.language is Language.RUST}
    assert rust.keys() == {"mbpp/997#rust", "sum-of-things#rust"}
    for name, task in rust.items():
        assert tasks[problem_of(name)].language is Language.PYTHON
        assert task.visible_checks == task.generated_checks == task.hidden_checks == ()


def test_only_known_variants_belong_to_another_problem():
    assert problem_of(variant_of("HumanEval/3", "rust")) == "HumanEval/3"
    for name in ("HumanEval/3", "issue#12", "#", "a#rusty", "rust", "a#rust#b"):
        assert problem_of(name) == name


@pytest.mark.parametrize(
    ("path", "name", "model", "version"),
    [
        ("r/mbpp-py._reflexion_5_gpt-4_pass_at_k_1_py.jsonl.xz", "reflexion", "gpt-4", "r"),
        ("r/reflexion-ucs_5_toy-1.5_pass_at_k_1.jsonl", "reflexion-ucs", "toy-1.5", "r"),
        ("r/a-py..gz_simple_1_toy-003_pass_at_k_1_py.jsonl", "simple", "toy-003", "r"),
        ("new_gpt4_run/tasks.jsonl", "new_gpt4_run", "gpt-4", "new_gpt4_run"),
        ("tasks.jsonl.xz", "tasks", "", ""),
    ],
)
def test_file_and_folder_name_the_agent(path: str, name: str, model: str, version: str):
    agent = agent_of(PurePosixPath(path))
    assert (agent.name, agent.model, agent.version) == (name, model, version)


def test_a_body_goes_on_where_the_prompt_ends():
    assert whole_program("def f(x):\n", "    return x", "f") == "def f(x):\n    return x"
    assert whole_program("def f(x):\n", "def f (x): pass", "f") == "def f (x): pass"
    assert whole_program("def f(x):\n", "    factorial(x)", "f") == "def f(x):\n    factorial(x)"


def test_what_only_calls_check_is_no_part_of_the_check():
    check = "def check(candidate):\n    assert candidate(1)\n"
    ends = ("\ncheck(f)\n", "\ndef test_check():\n    check(f)\n\ntest_check()\n", "\n")
    assert {hidden_checks(check + end, "f") for end in ends} == {(check,), (check + "\n",)}
    more = "\ndef test_check():\n    check(f)\n    assert f(2)\n\ntest_check()\n"
    assert "assert f(2)" in hidden_checks(check + more, "f")[0]
