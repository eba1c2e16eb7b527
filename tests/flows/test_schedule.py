"""The schedule, served without a work pool and seen by a real Prefect server."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow


def _post(url: str, body: object) -> list[dict[str, object]]:
    request = urllib.request.Request(  # loopback
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # loopback
        found: list[dict[str, object]] = json.loads(answer.read())
    return found


def test_a_schedule_is_seen_by_the_server(
    surroundings: dict[str, str], prefect_server: str, tmp_path: Path
):
    command = [sys.executable, "-m", "flows.cli", "schedule", "--cron", "0 3 * * *"]
    process = subprocess.Popen(
        [*command, "--workdir", str(tmp_path), "--name", "nightly-test"],
        env={**surroundings, "PREFECT_API_URL": prefect_server},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        runs: list[dict[str, object]] = []
        end = time.monotonic() + 120
        while not runs and time.monotonic() < end:
            assert process.poll() is None, "the schedule ended by itself"
            time.sleep(1)
            query = {"deployments": {"name": {"any_": ["nightly-test"]}}}
            runs = _post(f"{prefect_server}/flow_runs/filter", query)
        assert runs
        assert {run["state_type"] for run in runs} == {"SCHEDULED"}
        assert "T03:00:00" in str(runs[0]["expected_start_time"])
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def test_prefect_yaml_deploys_the_flow_of_this_project(project_root: Path):
    document = yaml.safe_load((project_root / "prefect.yaml").read_text(encoding="utf-8"))
    (nightly,) = document["deployments"]
    module, _, name = nightly["entrypoint"].partition(":")
    assert f"def {name}(" in (project_root / module).read_text(encoding="utf-8")
    assert nightly["concurrency_limit"]["collision_strategy"] == "CANCEL_NEW"
