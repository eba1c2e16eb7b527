"""What agents logged is said again by an upstream: through the proxy, into its log, and back."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from harness_core.importers.base import ImportContext
from harness_core.importers.catalogue import IMPORTERS
from harness_core.importers.rejects import Reject
from harness_core.serving.decision_log import DecisionLog
from harness_core.simulation.config import SampleConfig
from harness_core.simulation.environment import Environment
from harness_core.simulation.problems import load_problems
from harness_core.simulation.runs import play
from harness_core.simulation.writer import log_bytes
from harness_core.trajectories.schema import Trajectory
from tests.importers.conftest import CONFIG
from tests.serving.conftest import proxied
from tests.serving.replayed_logs import LoggedRun, ReplayingUpstream, single_attempts, whole_runs
from tests.serving.servers import served
from tests.simulation.conftest import KnowingGrader

K = 8
N_TASKS = 20


def imported(name: str, folder: Path) -> Iterator[Any]:
    return IMPORTERS[name].read(folder, ImportContext(source=name, config=CONFIG))


def of_codet(data_packs: Callable[[], Path], folder: Path) -> list[LoggedRun]:
    del folder
    return single_attempts(imported("codet", data_packs() / "codet"), n_tasks=N_TASKS, k=K)


def of_samples(data_packs: Callable[[], Path], folder: Path) -> list[LoggedRun]:
    """Runs of the simulated agent, which tries again when its program fails."""
    del data_packs
    problems = load_problems()[:N_TASKS]
    config = SampleConfig(seed=0, n_runs=1, n_candidates=4, max_attempts=3, guidance_share=0)
    environment = Environment(KnowingGrader(frozenset(one.reference for one in problems)))
    runs = play(problems, config=config, environment=environment)
    (folder / "logs.jsonl").write_bytes(log_bytes(runs))
    return whole_runs(imported("native", folder), n_runs=N_TASKS)


@pytest.fixture(scope="module", params=[of_codet, of_samples])
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[LoggedRun]:
    made: list[LoggedRun] = request.param(
        lambda: request.getfixturevalue("data_packs"), tmp_path_factory.mktemp("source")
    )
    assert len(made) == N_TASKS
    return made


def decided(folder: Path) -> list[Trajectory]:
    items = list(imported("decisions", folder))
    assert not [item for item in items if isinstance(item, Reject)]
    return [item for item in items if isinstance(item, Trajectory)]


def test_answers_are_logged_candidates_and_come_back_as_the_runs_that_took_place(
    runs: list[LoggedRun], tmp_path: Path
):
    answers: dict[str, list[str]] = {}
    log = DecisionLog(tmp_path)
    stub = ReplayingUpstream(runs)
    with (
        proxied(mode="rerank", k=K, stub=stub, sink=log) as proxy,
        openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="sk-own", max_retries=0) as client,
    ):
        for run in runs:
            said = answers.setdefault(run.name, [])
            for turn in run.turns:
                made = client.chat.completions.create(**run.asked(said))
                text = made.choices[0].message.content
                assert text in turn.candidates
                said.append(text)
    assert any(
        text != turn.candidates[0]
        for run in runs
        for text, turn in zip(answers[run.name], run.turns, strict=True)
    )

    found = {item.extra["session_id"]: item for item in decided(tmp_path)}
    assert found.keys() == answers.keys()
    for run in runs:
        trajectory = found[run.name]
        assert trajectory.task.task_id == run.task.task_id
        assert trajectory.extra["controller"]["policy"] == "controller"
        assert [step.action.text for step in trajectory.steps] == answers[run.name]
        for step, turn in zip(trajectory.steps, run.turns, strict=True):
            assert {item.action.text for item in step.candidates} == set(turn.candidates)
            assert len(step.candidates) == K
            assert step.propensity == 1.0
        results = [step.result for step in trajectory.steps][:-1]
        assert results == [turn.result or "Once more." for turn in run.turns][:-1]


@pytest.mark.parametrize("options", [{}, {"n": 3}, {"stream": True}], ids=["one", "three", "parts"])
def test_in_shadow_every_answer_is_the_upstreams_byte_for_byte(
    runs: list[LoggedRun], tmp_path: Path, options: dict[str, Any]
):
    log = DecisionLog(tmp_path)
    stub = ReplayingUpstream(runs)
    with served(stub.app) as direct, proxied(mode="shadow", stub=stub, sink=log) as proxy:
        for run in runs:
            asked = run.asked(()) | options
            harness = asked.pop("extra_body")
            bare = httpx.post(f"{direct}/v1/chat/completions", json=asked, timeout=30)
            ours = httpx.post(
                f"{proxy.url}/v1/chat/completions", json={**asked, **harness}, timeout=30
            )
            assert ours.content == bare.content
            assert ours.status_code == bare.status_code == 200
    found = decided(tmp_path)
    assert {item.extra["controller"]["policy"] for item in found} == {"agent"}
    firsts = {item.extra["session_id"]: item.steps[0].action.text for item in found}
    assert firsts == {run.name: run.turns[0].candidates[0] for run in runs}
