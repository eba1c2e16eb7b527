"""The examples as a person runs them: an agent before a simulated model, and the proxy between."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.grader import Grader
from harness_core.serving.decision_log import read_log
from harness_core.simulation.environment import Environment
from harness_core.trajectories.decision_log import LoggedDecision, LoggedOutcome
from tests.flows.conftest import Run

K = 4


@pytest.fixture(scope="module")
def demo(project_root: Path) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(project_root / "examples"))
        yield importlib.import_module("demo")


@pytest.fixture(scope="module")
def upstream(demo) -> Iterator[str]:
    simulated = importlib.import_module("simulated_upstream")
    with demo.serving(simulated.SimulatedModels(simulated.all_problems())) as address:
        yield address


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("examples") / "decisions"
    return folder


@pytest.fixture(scope="module")
def proxy(demo, upstream: str, flywheel_run: Run, log: Path) -> Iterator[str]:
    with demo.proxied(upstream, flywheel_run.workdir, log, k=K) as address:
        yield address


def agent_loop(root: Path, base_url: str) -> dict[str, Any]:
    command = [sys.executable, "examples/agent_loop.py", "--base-url", base_url]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_agent_works_behind_the_proxy_and_its_outcome_comes_back(
    project_root: Path, proxy: str, log: Path, flywheel_run: Run
):
    found = agent_loop(project_root, proxy)
    assert found["n_attempts"] == len(found["decision_ids"]) <= 3
    entries = list(read_log(log))
    decisions = {one.decision_id: one for one in entries if isinstance(one, LoggedDecision)}
    assert decisions.keys() >= set(found["decision_ids"])
    first = decisions[found["decision_ids"][0]]
    assert first.mode == "rerank"
    assert len(first.candidates) == K
    assert first.failure is None
    assert first.state["entry_point"] == "clamp"
    assert first.decision is not None
    assert first.answered_index == first.decision["chosen_index"]
    outcomes = [one for one in entries if isinstance(one, LoggedOutcome)]
    assert [one.success for one in outcomes] == [found["passed"]]
    said = flywheel_run.harness("why", first.decision_id, "--log", str(log))
    assert said.returncode == 0, said.stderr
    why = json.loads(said.stdout)
    assert why["decision"]["decision_id"] == found["decision_ids"][0]
    assert why["model"]["registered"]
    assert why["nearest"]["rows"]
    # The working folder of this test is no git repository; all else is found.
    assert [item.partition(":")[0] for item in why["missing"]] == ["revision"]


def test_first_answers_are_judged_by_tests_that_neither_agent_nor_controller_sees(
    demo, proxy: str, upstream: str, params
):
    problems = demo.load_problems()[:2]
    alone = demo.ask(upstream, problems, 1, None)
    behind = demo.ask(proxy, problems, 1, "measured")
    assert [one.decision_id for one in alone] == [None, None]
    assert all(one.decision_id for one in behind)
    with open_sandbox(params.sandbox) as boxes:
        environment = Environment(Grader(boxes, cache=None))
        answers = [
            *(demo.Answer(item, item.reference, None) for item in problems),
            *(demo.Answer(item, item.wrong_variants[0], None) for item in problems),
        ]
        judged = demo.judged(environment, answers)
    assert [one.solved for one in judged] == [True, True, False, False]
    assert demo.rate(judged) == "2 of 4 (50%)"
