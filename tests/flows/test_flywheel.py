"""The whole flywheel, from sample logs to a registered model, on a real Prefect server."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.flows.conftest import SMALL, Run

pytestmark = pytest.mark.slow

DATA_STAGES = ("sample", "ingest", "rewards", "transitions")
STAGE_FILES = (
    "data/raw/sample/logs.jsonl",
    "data/interim/rewards.parquet",
    "data/models/candidate/weights.safetensors",
    "data/reports/report.html",
)


def _outputs(workdir: Path, stage: str) -> dict[str, str]:
    lock = yaml.safe_load((workdir / "dvc.lock").read_text(encoding="utf-8"))
    return {out["path"]: out["md5"] for out in lock["stages"][stage]["outs"]}


def test_the_result_keeps_its_contract(flywheel_run: Run):
    result = flywheel_run.result
    assert {"run_id", "verdict", "promoted", "model_version", "evaluation"} <= result.keys()
    row = result["evaluation"]["k"]["4"]
    assert {"random", "selected", "oracle", "gap_closed", "low", "high", "n_tasks"} <= row.keys()
    assert {"first", "agent_prior", "boosted_trees"} <= row["baselines"].keys()
    assert 0 <= row["random"] <= row["oracle"] <= 1


def test_the_verdict_stands_in_words(flywheel_run: Run):
    assert flywheel_run.result["summary"] in flywheel_run.words
    assert "MLflow" in flywheel_run.words


def test_nothing_tried_to_reach_the_network(flywheel_run: Run):
    log = flywheel_run.network_log
    assert not log.exists(), log.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", STAGE_FILES)
def test_every_stage_left_its_output(flywheel_run: Run, path: str):
    assert (flywheel_run.workdir / path).stat().st_size > 0


def test_a_second_run_changes_nothing(flywheel_run: Run):
    before = {path: (flywheel_run.workdir / path).stat().st_mtime_ns for path in STAGE_FILES}
    again = flywheel_run.harness("flywheel", "--workdir", str(flywheel_run.workdir))
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == flywheel_run.result
    assert before == {p: (flywheel_run.workdir / p).stat().st_mtime_ns for p in STAGE_FILES}


def test_dvc_has_nothing_to_do_after_the_flow(flywheel_run: Run):
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "repro", "--dry"],
        capture_output=True,
        text=True,
        env=flywheel_run.environment,
        cwd=flywheel_run.workdir,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Running stage" not in done.stdout
    assert "up to date" in done.stdout


def test_dvc_repro_elsewhere_gives_the_same_data(flywheel_run: Run, tmp_path: Path):
    for name in ("params.yaml", "dvc.yaml", "policy.yaml", "guidance.yaml"):
        shutil.copy(flywheel_run.workdir / name, tmp_path / name)
    for command in (["init", "--no-scm", "-q"], ["repro", "-q", DATA_STAGES[-1]]):
        done = subprocess.run(
            [sys.executable, "-m", "dvc", *command],
            capture_output=True,
            text=True,
            env=flywheel_run.environment,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
    for stage in DATA_STAGES:
        assert _outputs(tmp_path, stage) == _outputs(flywheel_run.workdir, stage)


def test_overrides_are_kept_in_the_parameters(flywheel_run: Run):
    written = yaml.safe_load((flywheel_run.workdir / "params.yaml").read_text(encoding="utf-8"))
    for override in SMALL:
        name, _, value = override.partition("=")
        found = written
        for key in name.split("."):
            found = found[key]
        assert found == int(value)


def test_the_candidate_decides_on_a_request(flywheel_run: Run):
    request = {
        "state": {
            "description": "Return the sum of two numbers.",
            "language": "python",
            "entry_point": "add",
            "visible_checks": ["assert add(1, 2) == 3"],
        },
        "candidates": [
            {"text": "import os\ndef add(a, b):\n    os.system('id')\n    return a + b\n"},
            {"text": "def add(a, b):\n    return a - b\n"},
            {"text": "def add(a, b):\n    return a + b\n"},
        ],
    }
    arguments = ("score", "--model", "candidate", "--workdir", str(flywheel_run.workdir))
    done = flywheel_run.harness(*arguments, stdin=json.dumps(request))
    assert done.returncode == 0, done.stderr
    decision = json.loads(done.stdout)
    assert decision["chosen_index"] == 2
    assert decision["filtered"][0]["index"] == 0
    assert decision["scores"][0] is None


def test_a_malformed_request_is_refused_in_words(flywheel_run: Run):
    arguments = ("score", "--model", "candidate", "--workdir", str(flywheel_run.workdir))
    done = flywheel_run.harness(*arguments, stdin='{"state": 1}')
    assert done.returncode == 2
    assert "expected" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_logs_are_judged_on_unseen_tasks_only(flywheel_run: Run, tmp_path: Path):
    logs = tmp_path / "others"
    shutil.copytree(flywheel_run.workdir / "data/raw/sample", logs)
    done = flywheel_run.harness(
        *("evaluate", "--source", str(logs), "--format", "native"),
        *("--model", "candidate", "--workdir", str(flywheel_run.workdir)),
    )
    assert done.returncode == 0, done.stderr
    evaluation = json.loads(done.stdout)["evaluation"]
    assert evaluation["n_tasks_seen_in_training"] > evaluation["n_tasks"] > 0
