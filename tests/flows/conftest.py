"""One real Prefect server and one whole flywheel, shared by all tests of the flows."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

OFFLINE = Path(__file__).parent / "offline"
SMALL = (
    *("sample.n_runs=4", "sample.n_candidates=3", "train.max_updates=150"),
    *("train.trees.n_trees=60", "train.trees.n_members=1"),
)
"""Enough for every stage to have something to do, little enough for two cores."""


@dataclass(frozen=True)
class Run:
    """What one `harness flywheel` left behind."""

    workdir: Path
    result: dict[str, Any]
    words: str
    network_log: Path
    environment: dict[str, str]

    def harness(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "flows.cli", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.workdir,
            check=False,
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment(folder: Path, root: Path) -> dict[str, str]:
    """This process's environment with the network off, as a machine without any would be."""
    return {
        **os.environ,
        "PYTHONPATH": f"{OFFLINE}{os.pathsep}{root}",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HARNESS_TEST_NETWORK_LOG": str(folder / "network.log"),
        "PREFECT_HOME": str(folder / "prefect"),
        "OMP_NUM_THREADS": "2",
    }


@pytest.fixture(scope="session")
def surroundings(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> dict[str, str]:
    return _environment(tmp_path_factory.mktemp("surroundings"), project_root)


@pytest.fixture(scope="session")
def prefect_server(surroundings: dict[str, str]) -> Iterator[str]:
    """API address of a real server on loopback."""
    port = _free_port()
    command = [sys.executable, "-m", "prefect", "server", "start"]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        env=surroundings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}/api"
    try:
        _wait_until_healthy(url, process, timeout_s=180)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes], *, timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        assert process.poll() is None, "the Prefect server ended while it started"
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"no Prefect server at {url} after {timeout_s} s")


@pytest.fixture(scope="session")
def flywheel_run(
    tmp_path_factory: pytest.TempPathFactory, surroundings: dict[str, str], prefect_server: str
) -> Run:
    """A whole flywheel on small sample logs, against the server, with the network off."""
    workdir = tmp_path_factory.mktemp("flywheel")
    environment = {**surroundings, "PREFECT_API_URL": prefect_server}
    overrides = [part for item in SMALL for part in ("--set", item)]
    command = [sys.executable, "-m", "flows.cli", "flywheel", "--workdir", str(workdir)]
    done = subprocess.run(
        [*command, *overrides],
        capture_output=True,
        text=True,
        env=environment,
        cwd=workdir,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return Run(
        workdir=workdir,
        result=json.loads(done.stdout),
        words=done.stderr,
        network_log=Path(environment["HARNESS_TEST_NETWORK_LOG"]),
        environment=environment,
    )
