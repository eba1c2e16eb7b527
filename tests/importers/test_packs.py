"""The published logs: as many attempts, tasks and successes as their description says."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from harness_core.trajectories.vocabulary import ActionKind, Language
from tests.importers.conftest import Imported, ReadFolder


def successes(imported: Imported) -> float:
    outcomes = [item.outcome.success for item in imported.trajectories]
    return round(sum(map(bool, outcomes)) / len(outcomes), 3)


def solved_tasks(imported: Imported) -> int:
    return len({item.task.task_id for item in imported.trajectories if item.outcome.success})


@pytest.fixture
def subset(tmp_path: Path, data_packs: Path):
    """A folder with some files of a pack at their places."""

    def copy(pack: str, *patterns: str) -> Path:
        for pattern in patterns:
            for path in (data_packs / pack).glob(pattern):
                target = tmp_path / path.relative_to(data_packs / pack)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        return tmp_path

    return copy


def test_codet(data_packs: Path, read_folder: ReadFolder):
    imported = read_folder("codet", data_packs / "codet")
    assert not imported.rejects
    assert set(Counter(item.task.task_id for item in imported.trajectories).values()) == {100}
    assert (len(imported.trajectories), len(imported.tasks)) == (13_000, 130)
    assert len({item.trajectory_id for item in imported.trajectories}) == 13_000
    assert (successes(imported), solved_tasks(imported)) == (0.211, 94)
    for task in imported.tasks.values():
        assert task.entry_point is not None
        assert "def check(candidate)" in task.hidden_checks[0]
        assert len(task.generated_checks) <= 100
        assert all(task.entry_point in check for check in task.generated_checks)
    # For these the model wrote nothing that is an assert about the function.
    assert sum(not task.generated_checks for task in imported.tasks.values()) == 10


def test_ldb(data_packs: Path, read_folder: ReadFolder):
    imported = read_folder("ldb", data_packs / "ldb")
    assert not imported.rejects
    families = Counter(item.task.family for item in imported.trajectories)
    assert families == {"humaneval": 1820, "mbpp": 2190}
    assert Counter(task.family for task in imported.tasks.values()) == {
        "humaneval": 130,
        "mbpp": 365,
    }
    assert imported.tally.warnings == {"L-TASK-CONFLICT": 2}
    humaneval = [item for item in imported.trajectories if item.task.family == "humaneval"]
    assert round(sum(item.outcome.success is True for item in humaneval) / 1820, 3) == 0.743
    assert {len(task.hidden_checks) for task in imported.tasks.values()} >= {1, 3}
    # Its function is called `f`, which is also how other words begin.
    of_f = [item for item in imported.trajectories if item.task.task_id == "HumanEval/106"]
    assert all("def f(" in step.action.text for item in of_f for step in item.steps)


def test_intercode_sql(subset, read_folder: ReadFolder):
    folder = subset("intercode", "sql/gpt-3.5/*solve*", "sql/gpt-3.5/*react*", "sql/gpt-4/*")
    imported = read_folder("intercode", folder)
    assert imported.rules == ["I-NO-STEPS"]
    assert len(imported.trajectories) + 1 == 4 * 771 + 33
    assert len(imported.tasks) == 771
    assert {task.language for task in imported.tasks.values()} == {Language.SQL}
    assert {item.agent.name for item in imported.trajectories} == {
        "plan_solve",
        "plan_solve_refine_3_turns",
        "react_10_turns",
        "multiturn_10_turns",
        "multiturn_1_turns",
    }
    kinds = Counter(step.action.kind for item in imported.trajectories for step in item.steps)
    assert kinds[ActionKind.SUBMIT] == 771


def test_intercode_bash_and_python(subset, read_folder: ReadFolder):
    folder = subset("intercode", "bash/**/*.xz", "python/**/*.xz")
    imported = read_folder("intercode", folder)
    assert not imported.rejects
    languages = Counter(
        imported.tasks[item.task.task_id].language for item in imported.trajectories
    )
    assert languages == {Language.SHELL: 1387, Language.PYTHON: 160}
    tasks = Counter(task.language for task in imported.tasks.values())
    assert tasks == {Language.SHELL: 154, Language.PYTHON: 81}
    assert imported.tally.warnings == {"I-LENGTH": 108}


def test_tau_bench(data_packs: Path, read_folder: ReadFolder):
    imported = read_folder("tau_bench", data_packs / "tau_bench")
    assert (len(imported.trajectories), len(imported.tasks)) == (156, 39)
    assert successes(imported) == 0.365
    n_steps = sum(len(item.steps) for item in imported.trajectories)
    assert round(n_steps / 156, 2) == 12.41
    assert sum(item.truncated for item in imported.trajectories) == 4


def test_the_hidden_instruction_of_tau_bench_goes_nowhere(
    data_packs: Path, read_folder: ReadFolder
):
    imported = read_folder("tau_bench", data_packs / "tau_bench")
    told = "".join(item.model_dump_json() for item in imported.trajectories)
    told += "".join(task.model_dump_json() for task in imported.tasks.values())
    assert "You are mia_li_3668" not in told
    assert "gt_data_hash" not in told
