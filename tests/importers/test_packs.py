"""The published logs: as many attempts, tasks and successes as their description says."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from harness_core.trajectories.vocabulary import ActionKind, Language
from tests.importers.conftest import Imported, ReadFolder


def successes(imported: Imported) -> float:
    outcomes = [item.outcome.success for item in imported.trajectories]
    return round(sum(map(bool, outcomes)) / len(outcomes), 3)


def mean_by_family(imported: Imported) -> dict[str, float]:
    outcomes: dict[str, list[bool]] = {}
    for item in imported.trajectories:
        outcomes.setdefault(item.task.family, []).append(item.outcome.success is True)
    return {family: round(sum(flags) / len(flags), 3) for family, flags in outcomes.items()}


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


def test_reflexion(data_packs: Path, read_folder: ReadFolder):
    imported = read_folder("reflexion", data_packs / "reflexion")
    assert not imported.rejects
    left_out = {"R-CENSORED": 520, "R-TESTS": 130}
    assert imported.tally.warnings == left_out
    assert Counter(item.task.family for item in imported.trajectories) == {
        "humaneval": 1082 - sum(left_out.values()),
        "humaneval-rust": 652,
        "mbpp": 1084,
        "mbpp-rust": 534,
        "leetcode-hard": 182,
        "leetcode-hard-rust": 58,
    }
    assert Counter(task.family for task in imported.tasks.values()) == {
        "humaneval": 130,
        "humaneval-rust": 122,
        "mbpp": 299,
        "mbpp-rust": 267,
        "leetcode-hard": 29,
        "leetcode-hard-rust": 29,
    }
    # The whole pack has 0.717 of humaneval; failures that lost their program are not among these.
    assert mean_by_family(imported) == {
        "humaneval": 0.859,
        "humaneval-rust": 0.779,
        "mbpp": 0.789,
        "mbpp-rust": 0.725,
        "leetcode-hard": 0.077,
        "leetcode-hard-rust": 0.069,
    }
    assert all(item.steps[0].action.text.strip() for item in imported.trajectories)


def test_lats(data_packs: Path, read_folder: ReadFolder):
    imported = read_folder("lats", data_packs / "lats")
    assert not imported.rejects
    assert imported.tally.warnings == {"A-NO-LABEL": 214}
    families = Counter(item.task.family for item in imported.trajectories)
    assert families == {"humaneval": 677, "mbpp": 292}
    assert mean_by_family(imported) == {"humaneval": 0.693, "mbpp": 0.671}
    tasks = imported.tasks.values()
    assert Counter(task.family for task in tasks) == {"humaneval": 130, "mbpp": 292}
    assert {len(item.steps) for item in imported.trajectories} == {2}
    # Two files of one run share fifty rows.
    assert len({item.trajectory_id for item in imported.trajectories}) == 677 + 292 - 50
    assert all(task.generated_checks for task in tasks)


def test_the_same_problem_has_the_same_id_in_every_pack(data_packs: Path, read_folder: ReadFolder):
    folders = ("ldb/input_data/mbpp/test", "reflexion/simple_mbpp_py", "lats/test_dfs")
    ldb, reflexion, lats = (
        read_folder(folder.partition("/")[0], data_packs / folder).tasks for folder in folders
    )
    assert len(ldb.keys() & reflexion.keys()) == 174
    assert len(reflexion.keys() & lats.keys()) == 292
    # Prompts are worded anew, so that the words tell whether numbers mean the same.
    words = [
        [set(re.findall(r"\w+", tasks[task_id].description.lower())) for tasks in (ldb, reflexion)]
        for task_id in ldb.keys() & reflexion.keys()
    ]
    shares = sorted(len(one & other) / len(one) for one, other in words)
    assert shares[0] > 0.5
    assert shares[len(shares) // 2] == 1.0


def test_cruxeval(data_packs: Path, read_folder: ReadFolder):
    imported = read_folder("cruxeval", data_packs / "cruxeval")
    assert not imported.rejects
    families = Counter(item.task.family for item in imported.trajectories)
    assert families == {"cruxeval-input": 6050, "cruxeval-output": 6050}
    assert set(Counter(item.task.task_id for item in imported.trajectories).values()) == {10}
    assert len(imported.tasks) == 2 * 605
    assert mean_by_family(imported) == {"cruxeval-input": 0.356, "cruxeval-output": 0.347}
    assert solved_tasks(imported) == round(605 * 0.473) + round(605 * 0.42)


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


MINT = {
    "humaneval": (10_686, 163, 39, 0.207),
    "mbpp": (16_988, 125, 62, 0.118),
    "alfworld": (5_200, 292, 100, 0.433),
    "gsm8k": (2_090, 55, 38, 0.395),
    "math": (4_015, 176, 73, 0.145),
    "mmlu": (3_245, 128, 59, 0.361),
    "theoremqa": (1_980, 108, 36, 0.179),
    "hotpotqa": (2_028, 74, 39, 0.220),
}


@pytest.mark.parametrize("name", MINT)
def test_mint(name: str, subset, read_folder: ReadFolder):
    imported = read_folder("mint", subset("mint", f"{name}.tar.xz"))
    # The mean is of all attempts: those whose call of the model failed count as failures there.
    n_attempts, n_failed, n_tasks, mean = MINT[name]
    assert not imported.rejects
    assert imported.tally.warnings == {"M-CALL-FAILED": n_failed}
    assert imported.tally.n_records == n_attempts == len(imported.trajectories) + n_failed
    assert (len(imported.tasks), len({item.task.task_id for item in imported.trajectories})) == (
        n_tasks,
        n_tasks,
    )
    n_won = sum(item.outcome.success is True for item in imported.trajectories)
    assert round(n_won / n_attempts, 3) == mean
    runs = {(item.task.task_id, item.agent) for item in imported.trajectories}
    assert len(runs) == len(imported.trajectories)
    prefix = {"humaneval": "HumanEval/", "mbpp": "mbpp/", "gsm8k": "gsm8k/"}.get(name, "")
    assert all(task_id.startswith(prefix) for task_id in imported.tasks)
    for item in imported.trajectories:
        for step in item.steps:
            assert "Your answer is wrong" not in step.result
            assert "chances to propose" not in step.result


def test_mint_and_the_other_sources_name_their_common_tasks_alike(
    subset, data_packs: Path, read_folder: ReadFolder
):
    folder = subset("mint", "gsm8k.tar.xz")
    asked = read_folder("mint", folder).tasks
    assert (
        asked.keys() <= read_folder("gsm8k_solutions", data_packs / "gsm8k_solutions").tasks.keys()
    )


def test_gsm8k_solutions(data_packs: Path, read_folder: ReadFolder):
    imported = read_folder("gsm8k_solutions", data_packs / "gsm8k_solutions")
    assert not imported.rejects
    assert (len(imported.trajectories), len(imported.tasks)) == (3_924, 981)
    assert (successes(imported), solved_tasks(imported)) == (0.382, round(0.682 * 981))
    marked = sum("\n#### " in item.steps[0].action.text for item in imported.trajectories)
    assert marked == 3_915


def test_tot(data_packs: Path, read_folder: ReadFolder):
    imported = read_folder("tot", data_packs / "tot")
    assert not imported.rejects
    assert imported.tally.warnings == {"W-CROSSWORD": 44}
    assert len(imported.tasks) == 77
    assert all("\nInput: " in task.description for task in imported.tasks.values())
    won: dict[str, list[bool]] = {}
    for item in imported.trajectories:
        won.setdefault(item.agent.name, []).append(item.outcome.success is True)
        assert len(item.steps) == (4 if item.agent.name.startswith("propose") else 1)
    assert {
        name: (len(flags), round(sum(flags) / len(flags), 3)) for name, flags in won.items()
    } == {
        "cot": (7_700, 0.038),
        "standard": (7_700, 0.075),
        "propose1_value3_greedy5": (385, 0.252),
    }
