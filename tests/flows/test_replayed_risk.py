"""What a trained model decided through the proxy, decided once more under its own risk curve."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness_core.cli import app, run_app
from harness_core.controller.abstention import Abstention
from harness_core.controller.manifest import read_manifest
from harness_core.stages.dag import CANDIDATE_MODEL, Workspace
from tests.flows.conftest import Run
from tests.serving.conftest import ask, python
from tests.serving.servers import served
from tests.serving.stub_upstream import Stub
from tests.serving.test_proxy_command import running_proxy

pytestmark = pytest.mark.slow

N = 6
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def log(flywheel_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the proxy logged of some requests, with programs run as the model was calibrated."""
    folder = tmp_path_factory.mktemp("decided") / "log"
    stub = Stub()
    with (
        served(stub.app) as upstream,
        running_proxy(
            *("--upstream", f"{upstream}/v1", "--workdir", str(flywheel_run.workdir)),
            *("--model", "candidate", "--mode", "rerank", "--k", "3", "--run-programs"),
            *("--log", str(folder)),
        ) as (base_url, _),
    ):
        deadline = time.monotonic() + PATIENCE_S
        origin = base_url.removesuffix("/v1")
        while httpx.get(f"{origin}/readyz").json()["model"] is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for number in range(N):
            body = {**ask("plain:long+bad+good"), **python(session_id=str(number))}
            answer = httpx.post(
                f"{base_url}/chat/completions",
                json=body,
                headers={"x-harness-budget-ms": "20000"},
                timeout=60,
            )
            assert answer.headers["x-harness-reason"] == "best_score"
    return folder


def replayed(log: Path, run: Run, capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    where = ["--log", str(log), "--workdir", str(run.workdir), "--model", "candidate"]
    assert run_app(app, ["replay", *where, *options]) == 0
    said = capsys.readouterr()
    return json.loads(said.out), said.err


@pytest.fixture
def curve(flywheel_run: Run) -> Abstention:
    found = read_manifest(Workspace(flywheel_run.workdir).path(CANDIDATE_MODEL)).abstention
    assert found is not None
    return found


def test_nothing_changes_where_nothing_is_asked_for(log: Path, flywheel_run: Run, capsys):
    result, _ = replayed(log, flywheel_run, capsys)
    assert (result["n_replayed"], result["n_picks_changed"]) == (N, 0)
    assert (result["n_other_scores"], result["n_programs_not_run"]) == (0, 0)
    assert result["abstained"] == {"before": 0, "after": 0}


def test_a_risk_beyond_the_curve_stands_aside_and_says_what_can_be_promised(
    log: Path, flywheel_run: Run, curve: Abstention, capsys
):
    max_risk = 0.001
    assert curve.with_confidence(max_risk, confidence=0.9) is None
    result, words = replayed(log, flywheel_run, capsys, "--max-risk", str(max_risk))
    assert result["abstained"] == {"before": 0, "after": N}
    assert "cannot be promised" in " ".join(words.split())


def test_a_risk_on_the_curve_accepts_what_is_above_its_threshold(
    log: Path, flywheel_run: Run, curve: Abstention, capsys
):
    accepted = [p for p in curve.points if curve.risk_bound(p, confidence=0.9) < 0.999]
    assert accepted
    max_risk = min(curve.risk_bound(point, confidence=0.9) for point in accepted) + 1e-6
    point = curve.with_confidence(max_risk, confidence=0.9)
    assert point is not None
    result, words = replayed(log, flywheel_run, capsys, "--max-risk", str(max_risk), "--k", "2")
    asides = 0 if result["risk"]["n_after"] else N
    assert result["abstained"]["after"] == asides
    if result["risk"]["after"] is not None:
        assert 1 - result["risk"]["after"] > point.threshold
    assert "takes standing aside in" in " ".join(words.split())
    assert result["settings"]["k"] == 2
