import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from harness_core.cli import app, run_app
from harness_core.controller.controller import Controller
from harness_core.controller.manifest import read_manifest
from harness_core.errors import NoDataError
from harness_core.serving.decision_log import DecisionLog
from harness_core.serving.outcomes import report_outcome
from harness_core.stages.dag import CANDIDATE_MODEL, FEATURES, Workspace
from harness_core.stages.why import explain
from harness_core.stages.why_words import in_words
from harness_core.trajectories.decision_log import LoggedDecision, LoggedRound
from tests.stages.small_run import finished_run

STATE = {
    "description": "sql task 1: do the thing number 1 properly",
    "language": "sql",
    "source": "sql",
    "agent": {"name": "agent 0", "model": "m1"},
    "history": [{"kind": "code", "text": "SHOW TABLES", "result": "singer, concert"}],
}
CANDIDATES = (
    {"text": "DROP TABLE singer", "kind": "code"},
    {"text": "SELECT name FROM singer WHERE age > 1", "kind": "code", "result": "[('a', 0)]"},
    {"text": "SELECT 1", "kind": "code"},
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, params) -> Workspace:
    return finished_run(tmp_path_factory.mktemp("run"), params)


@pytest.fixture
def workspace(made: Workspace, tmp_path: Path) -> Workspace:
    shutil.copytree(made.root, tmp_path / "run")
    return Workspace(tmp_path / "run")


def put(workspace: Workspace, log: Path, **changes: Any) -> LoggedDecision:
    decision = Controller.load(workspace.path(CANDIDATE_MODEL)).select(STATE, CANDIDATES)
    values: dict[str, Any] = {
        "decision_id": "d-1",
        "decided_at": datetime(2026, 3, 4, tzinfo=UTC),
        "mode": "rerank",
        "state": STATE,
        "candidates": CANDIDATES,
        "decision": decision.model_dump(mode="json"),
        "answered_index": decision.chosen_index,
        "propensity": decision.propensity,
    }
    logged = LoggedDecision(**(values | changes))
    with DecisionLog(log) as opened:
        opened.append(logged)
    return logged


def test_a_decision_is_explained_down_to_the_rows_that_its_model_learnt_from(
    workspace: Workspace, tmp_path: Path, params
):
    logged = put(workspace, tmp_path / "log")
    report_outcome(tmp_path / "log", "d-1", source="tests", success=True)
    told = explain(tmp_path / "log", "d-1", params, workspace, n_nearest=3)
    chosen = logged.answered_index
    assert told["rule"]["reason"] == (logged.decision or {})["reason"]
    assert [item["is_chosen"] for item in told["candidates"]] == [n == chosen for n in range(3)]
    assert told["candidates"][0]["filtered_by"]
    assert told["candidates"][0]["score"] is None
    assert told["outcome"]["success"] is True
    assert told["model"]["folder"] == str(workspace.path(CANDIDATE_MODEL))
    rows = told["nearest"]["rows"]
    assert len(rows) == 3
    assert [row["distance"] for row in rows] == sorted(row["distance"] for row in rows)
    assert {row["success"] for row in rows} <= {0.0, 1.0}
    assert all(row["reward"] == row["success"] for row in rows)
    assert told["missing"] == ["registered version: nothing is registered in this working folder"]


def test_what_is_nearest_is_an_attempt_at_a_task_of_the_same_kind(
    workspace: Workspace, tmp_path: Path, params
):
    put(workspace, tmp_path / "log")
    told = explain(tmp_path / "log", "d-1", params, workspace, n_nearest=1)
    (row,) = told["nearest"]["rows"]
    assert row["task_id"].startswith("sql/")


def test_words_name_what_decided_and_obey_nothing_in_a_text(
    workspace: Workspace, tmp_path: Path, params
):
    hostile = {**STATE, "description": "be\x1b[2Jware\nof this"}
    put(workspace, tmp_path / "log", state=hostile)
    words = in_words(explain(tmp_path / "log", "d-1", params, workspace, n_nearest=2))
    assert "\x1b" not in words
    assert "be?[2Jware of this" in words
    assert "Nobody reported what came of it." in words
    assert "Nearest training attempts" in words
    assert "Missing: registered version" in words


def test_a_model_that_is_gone_is_named_and_the_rest_is_told(
    workspace: Workspace, tmp_path: Path, params
):
    put(workspace, tmp_path / "log")
    shutil.rmtree(workspace.path(CANDIDATE_MODEL))
    told = explain(tmp_path / "log", "d-1", params, workspace, n_nearest=3)
    assert told["model"]["folder"] is None
    assert told["nearest"]["rows"] == []
    assert told["candidates"][1]["text"] == CANDIDATES[1]["text"]
    assert told["missing"][0].endswith("is no longer there")
    assert "is no longer there" in in_words(told)


def test_features_that_are_gone_are_named(workspace: Workspace, tmp_path: Path, params):
    put(workspace, tmp_path / "log")
    shutil.rmtree(workspace.path(FEATURES))
    told = explain(tmp_path / "log", "d-1", params, workspace, n_nearest=3)
    assert "the features that the model learnt from" in told["missing"][0]


def test_a_decision_that_was_never_made_says_why(workspace: Workspace, tmp_path: Path, params):
    put(workspace, tmp_path / "log", decision=None, failure="timeout", answered_index=0)
    told = explain(tmp_path / "log", "d-1", params, workspace, n_nearest=3)
    assert told["rule"] == {"reason": None, "failure": "timeout", "threshold": None}
    assert "There was no decision: timeout." in in_words(told)


def test_tries_that_were_turned_down_are_told_with_what_decided(
    workspace: Workspace, tmp_path: Path, params
):
    alone = CANDIDATES[:1]
    filtered = Controller.load(workspace.path(CANDIDATE_MODEL)).select(STATE, alone)
    before = LoggedRound(candidates=alone, decision=filtered.model_dump(mode="json"))
    unanswered = LoggedRound(candidates=CANDIDATES[2:], decision=None, failure="timeout")
    put(workspace, tmp_path / "log", turned_down=(before, unanswered))
    told = explain(tmp_path / "log", "d-1", params, workspace, n_nearest=0)
    first, second = told["turned_down"]
    assert first["rule"]["reason"] == "all_filtered"
    assert first["candidates"][0]["filtered_by"]
    assert second["rule"]["failure"] == "timeout"
    assert not any(item["is_answered"] for one in (first, second) for item in one["candidates"])
    assert "turned_down" not in told["decision"]
    words = in_words(told)
    assert "(the hard filter took every candidate out):\n  0: no score; filtered by" in words
    assert "from which nothing was answered (timeout):" in words


def test_a_decision_that_is_not_in_the_log_is_refused(workspace: Workspace, tmp_path: Path, params):
    put(workspace, tmp_path / "log")
    with pytest.raises(NoDataError, match="no decision d-2"):
        explain(tmp_path / "log", "d-2", params, workspace, n_nearest=3)


def test_the_verbs_print_one_json_object_and_refuse_in_words(
    workspace: Workspace, tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str]
):
    log = ["--log", str(tmp_path / "log")]
    for name in ("params.yaml", "policy.yaml", "guidance.yaml"):
        shutil.copy(project_root / name, workspace.root)
    put(workspace, tmp_path / "log")
    assert run_app(app, ["outcome", "d-2", *log, "--source", "user", "--success"]) == 3
    assert run_app(app, ["outcome", "d-1", *log, "--source", "user"]) == 2
    assert run_app(app, ["outcome", "d-1", *log, "--source", "user", "--score", "7"]) == 2
    capsys.readouterr()
    runner = CliRunner()
    done = runner.invoke(
        app, ["outcome", "d-1", *log, "--source", "user", "--failure", "--score", "0.25"]
    )
    assert orjson.loads(done.stdout)["success"] is False
    home = ["--workdir", str(workspace.root)]
    done = runner.invoke(app, ["-q", "why", "d-1", *log, *home])
    assert orjson.loads(done.stdout)["outcome"]["score"] == 0.25
    assert "Reported by user: failure, score 0.25." in done.stderr
    done = runner.invoke(app, ["-q", "replay", *log, *home, "--model", "candidate"])
    told = orjson.loads(done.stdout)
    assert told["n_picks_changed"] == 0
    assert told["model_digest"] == read_manifest(workspace.path(CANDIDATE_MODEL)).digest
    assert "0 of 1" in done.stderr
