"""Turns told apart, verdicts of the hidden grader kept out of what was seen, ids found again."""

import io
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from harness_core.importers import known_problems
from harness_core.importers.mint_tasks import MintTask, task_spec
from harness_core.importers.tasks import canonical_task_id, family_of, gsm8k_id
from harness_core.trajectories.schema import Step, Trajectory
from harness_core.trajectories.vocabulary import ActionKind, Language
from tests.importers.conftest import Imported, ReadFolder
from tests.importers.golden.regenerate import GOLDEN

LOGS = GOLDEN / "mint" / "logs"
RUN = "Toy-1B/F=None/max3_p2+tool+cd/reasoning/math"
COUNT = "You have 2 steps left and 1 chances to propose solution left.\n"
WRONG = "Your answer is wrong."


def logged(*contents: str, success: bool = False, instructions: str = "<execute>") -> str:
    roles = ("user", "assistant") * len(contents)
    history = [
        {"role": role, "content": content}
        for role, content in zip(roles, (instructions, *contents), strict=False)
    ]
    state = {"history": history, "success": success, "terminate_reason": "max_steps"}
    task = {"task_id": 3, "prompt": "What is 1 + 1?", "reference": "2"}
    return json.dumps({"state": state, "task": task})


def steps_of(folder: Path, read_folder: ReadFolder, *lines: str) -> tuple[Step, ...]:
    file = folder / RUN / "results.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(lines))
    imported = read_folder("mint", folder)
    assert not imported.rejects
    return imported.trajectories[0].steps


def seen(imported: Imported) -> list[Any]:
    """What features can be made of."""
    hidden: Any = {"provenance": True, "outcome": True, "steps": {"__all__": {"logged_reward"}}}
    return [item.model_dump(exclude=hidden) for item in imported.trajectories]


def copied(folder: Path, old: str, new: str) -> Path:
    shutil.copytree(LOGS, folder, dirs_exist_ok=True)
    n_changed = 0
    for file in folder.rglob("*.jsonl"):
        n_changed += old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
    assert n_changed
    return folder


def test_the_verdict_of_the_hidden_grader_stands_nowhere_in_what_was_seen(
    tmp_path: Path, read_folder: ReadFolder
) -> None:
    truth = read_folder("mint", LOGS)
    praised = read_folder("mint", copied(tmp_path / "a", WRONG, "Your answer is right."))
    broken = read_folder("mint", copied(tmp_path / "b", WRONG, "Traceback: 12 is not 8"))
    assert seen(praised) == seen(broken) == seen(truth)
    won = read_folder("mint", copied(tmp_path / "c", '"success": false', '"success": true'))
    assert seen(won) == seen(truth)
    assert won.trajectories != truth.trajectories
    told = "".join(step.result for item in truth.trajectories for step in item.steps)
    assert "wrong" not in told
    assert "chances" not in told


def test_each_answer_has_its_verdict_as_its_graded_reward(read_folder: ReadFolder) -> None:
    for item in read_folder("mint", LOGS).trajectories:
        *before, last = item.steps
        assert {step.logged_reward for step in before} <= {None, 0.0}
        assert (last.logged_reward == 1) is item.outcome.success
        answers = [step for step in before if step.action.kind is ActionKind.CODE]
        assert all(step.logged_reward == 0 for step in answers)


def test_a_failed_call_of_the_model_is_counted_and_is_no_attempt(read_folder: ReadFolder) -> None:
    imported = read_folder("mint", LOGS)
    assert imported.tally.warnings == {"M-CALL-FAILED": 1}
    assert imported.tally.n_records == len(imported.trajectories) + 1
    assert not imported.rejects


@pytest.mark.parametrize(
    ("text", "taken_for"),
    [
        ("Assistant:\n<execute> a() </execute>", ("tool_call", "a()", "")),
        ("<execute>a()</execute> and <execute>b()</execute>", ("tool_call", "a()\nb()", "and")),
        ("<execute> a() </execute> <solution> 2 </solution>", ("message", "2", "a()")),
        ("Is it <solution>2</solution>?", ("message", "2", "Is it ?")),
    ],
)
def test_a_turn_is_what_the_environment_takes_it_for(
    text, taken_for, tmp_path, read_folder
) -> None:
    (step,) = steps_of(tmp_path, read_folder, logged(text))
    action = step.action
    said = action.arguments["arguments"]["code"] if action.arguments else action.text
    assert (action.kind, said, step.thought) == taken_for
    assert step.is_error is None


@pytest.mark.parametrize(
    "text", ["```python\na()\n```", "<solution> 2", "<execute> </execute>", "No tag.", ""]
)
def test_a_turn_that_is_not_understood_is_an_error(text, tmp_path, read_folder) -> None:
    (step,) = steps_of(tmp_path, read_folder, logged(text))
    assert (step.action.kind, step.action.text, step.thought) == ("message", text, "")
    assert (step.is_error, step.logged_reward) == (True, None)


def test_fences_are_code_where_the_instructions_say_so(
    tmp_path: Path, read_folder: ReadFolder
) -> None:
    text = "```python\na()\n```"
    (step,) = steps_of(tmp_path, read_folder, logged(text, instructions="enclose in ```python"))
    assert step.action.arguments == {"name": "python", "arguments": {"code": "a()"}}


@pytest.mark.parametrize(
    ("reply", "is_error"),
    [
        ("4", False),
        ("[Executed Successfully with No Output]", False),
        ("Errors happen", False),
        ("KeyError Traceback (most recent call last)\n1 d['a']\nKeyError: 'a'", True),
        ("Cell In[1], line 1\n    x y\nSyntaxError: invalid syntax", True),
        ("numpy.linalg.LinAlgError: Singular matrix", True),
    ],
)
def test_code_fails_when_its_output_ends_in_an_exception(
    reply, is_error, tmp_path, read_folder
) -> None:
    turns = (
        "<execute> a() </execute>",
        f"Observation:\n{reply}\n{COUNT}",
        "<solution>2</solution>",
    )
    first, last = steps_of(tmp_path, read_folder, logged(*turns, success=True))
    assert (first.result, first.is_error) == (reply, is_error)
    assert (last.result, last.is_error, last.logged_reward) == ("", None, 1.0)


def test_a_folder_that_names_no_run_is_refused(tmp_path: Path, read_folder: ReadFolder) -> None:
    (tmp_path / "results.jsonl").write_text(logged("<solution>2</solution>"))
    assert read_folder("mint", tmp_path).rules == ["M-PATH"]


def test_budgets_of_one_model_are_agents_of_their_own(read_folder: ReadFolder) -> None:
    agents = {
        (item.agent.name, item.agent.model) for item in read_folder("mint", LOGS).trajectories
    }
    assert agents == {("mint-1", "Toy-1B"), ("mint-3", "Toy-1B"), ("mint-3", "Toy-70B")}


def test_an_archive_gives_the_same_as_its_files(tmp_path: Path, read_folder: ReadFolder) -> None:
    with tarfile.open(tmp_path / "all.tar.xz", "w:xz") as archive:
        for file in sorted(LOGS.rglob("*.jsonl")):
            archive.add(file, file.relative_to(LOGS).as_posix())
        notes = tarfile.TarInfo("notes.txt")
        archive.addfile(notes, io.BytesIO())
    plain, packed = (read_folder("mint", folder) for folder in (LOGS, tmp_path))
    assert {item.trajectory_id: item.steps for item in packed.trajectories} == {
        item.trajectory_id: item.steps for item in plain.trajectories
    }
    assert packed.tasks == plain.tasks
    assert packed.trajectories[0].provenance.path.startswith("all.tar.xz/Toy-1B/F=None/")


def test_a_broken_archive_is_a_reject(tmp_path: Path, read_folder: ReadFolder) -> None:
    (tmp_path / "all.tar").write_bytes(b"no archive" * 200)
    assert read_folder("mint", tmp_path).rules == ["F-DAMAGED"]


def test_a_problem_that_nobody_knows_keeps_its_number_in_the_set() -> None:
    task = MintTask(task_id=58, prompt="…", reference="import math\nassert f(2) == 4")
    spec = task_spec(task, "mbpp", "test")
    assert (spec.task_id, spec.family) == ("mint-mbpp/58", "mbpp")
    assert spec.hidden_checks == (task.reference,)


def test_known_problems_have_canonical_ids_and_no_text() -> None:
    table = json.loads(known_problems.TABLE.read_bytes())
    assert all(re.fullmatch("[0-9a-f]{12}", digest) for digest in table)
    assert all(canonical_task_id(name) == name for name in table.values())
    assert {family_of(name, default="?") for name in table.values()} == {"humaneval", "mbpp"}
    assert known_problems.known_id("A problem of nobody") is None


def test_a_question_has_one_id_in_every_source() -> None:
    prompt = "How many  hens? Solution output format: an integer."
    spec = task_spec(MintTask(task_id=0, prompt=prompt, reference="3"), "gsm8k", "test")
    assert spec.task_id == gsm8k_id("How many hens?")
    assert (spec.language, spec.description) == (Language.TEXT, prompt)


def test_an_attempt_cut_off_by_its_turns_is_truncated(read_folder: ReadFolder) -> None:
    def reason(item: Trajectory) -> str:
        return str(item.extra["terminate_reason"])

    cut = {reason(item): item.truncated for item in read_folder("mint", LOGS).trajectories}
    assert cut == {"task_success": False, "max_propose_steps": False, "max_steps": True}
