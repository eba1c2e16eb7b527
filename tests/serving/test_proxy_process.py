"""Decisions are made in a process that may die at any time without a failed request."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness_core.errors import ModelError
from harness_core.serving.conversation import Question
from harness_core.serving.deciding import Answered, Wish
from harness_core.serving.process_decider import ProcessDecider
from harness_core.serving.selector import Located
from harness_core.serving.worker_process import WorkerGone, WorkerProcess
from tests.serving.conftest import Proxied, ask, proxied, python
from tests.serving.fake_worker import COMMAND, DIES, HANGS, WAITS
from tests.serving.stub_documents import GOOD

START_S = 30.0


class Running:
    """A proxy whose decisions are made elsewhere."""

    def __init__(self) -> None:
        self.decider: ProcessDecider | None = None

    def make(self, metrics: Any) -> ProcessDecider:
        self.decider = ProcessDecider(
            COMMAND, max_waiting=64, hang_s=0.5, note_end=metrics.scorer_ends.inc
        )
        return self.decider


@pytest.fixture(scope="module")
def running() -> Running:
    return Running()


@pytest.fixture(scope="module")
def proxy(running: Running) -> Iterator[Proxied]:
    with proxied(mode="rerank", k=2, make_decider=running.make, poll_s=0.02) as started:
        yield started


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_for_model(proxy: Proxied, version: str = "1") -> None:
    wait_until(lambda: httpx.get(f"{proxy.url}/readyz").json()["model"] == version)


def reason_of(proxy: Proxied, **fields: Any) -> str:
    answer = proxy.chat("plain:bad+good", **python(**fields))
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == GOOD
    return answer.headers["x-harness-reason"]


def test_what_another_process_decides_is_answered_and_logged(proxy: Proxied):
    wait_for_model(proxy)
    answer = proxy.chat("plain:long+good", **python())
    assert answer.json()["choices"][0]["message"]["content"] == GOOD
    assert answer.headers["x-harness-reason"] == "best_score"
    assert proxy.sink.has(answer.headers["x-controller-decision-id"])
    assert proxy.sink.entries[-1].decision["model_version"] == "1"


def test_killing_it_under_load_fails_no_request(proxy: Proxied, running: Running):
    wait_for_model(proxy)
    assert running.decider is not None
    stop, answers = threading.Event(), []

    def ask_on(mode: str) -> None:
        with httpx.Client(timeout=30) as client:
            while not stop.is_set():
                body = {**ask("plain:bad+good"), **python()}
                url, headers = f"{proxy.url}/v1/chat/completions", {"x-harness-mode": mode}
                answers.append((mode, client.post(url, json=body, headers=headers)))

    threads = [threading.Thread(target=ask_on, args=(mode,)) for mode in ("rerank", "shadow")]
    for thread in threads:
        thread.start()
    n_before = proxy.count("harness_proxy_scorer_ends_total")
    wait_until(lambda: len(answers) > 10)
    os.kill(process_of(running.decider), signal.SIGKILL)
    wait_until(lambda: proxy.count("harness_proxy_scorer_ends_total") == n_before + 1)
    wait_for_model(proxy)
    stop.set()
    for thread in threads:
        thread.join()
    assert {answer.status_code for _, answer in answers} == {200}
    ranked = [answer for mode, answer in answers if mode == "rerank"]
    assert {one.json()["choices"][0]["message"]["content"] for one in ranked} == {GOOD}
    assert {one.headers["x-harness-reason"] for one in ranked} == {"best_score", "scorer_error"}
    assert reason_of(proxy) == "best_score"
    for _, answer in answers:
        assert proxy.sink.has(answer.headers["x-controller-decision-id"])


@pytest.mark.parametrize("death", [DIES, HANGS])
def test_a_decision_that_ends_its_process_harms_only_itself(proxy: Proxied, death: str):
    wait_for_model(proxy)
    assert reason_of(proxy, description=death) == "scorer_error"
    wait_for_model(proxy)
    assert reason_of(proxy) == "best_score"


@pytest.mark.parametrize("version", ["damaged", "deadly"])
def test_a_model_that_cannot_be_opened_leaves_the_one_in_use(proxy: Proxied, version: str):
    wait_for_model(proxy)
    n_before = proxy.count("harness_proxy_model_loads_total", result="failed")
    proxy.models.version = version
    wait_until(lambda: proxy.count("harness_proxy_model_loads_total", result="failed") > n_before)
    wait_for_model(proxy)
    assert reason_of(proxy) == "best_score"


def test_another_model_is_opened_aside(proxy: Proxied):
    proxy.models.version = "2"
    wait_for_model(proxy, "2")
    assert reason_of(proxy) == "best_score"
    assert proxy.sink.wait_for(1)[-1].decision["model_version"] == "2"


def wish(told: str, *, is_urgent: bool = True) -> Wish:
    state = {"description": told, "language": "text", "history": []}
    candidate = {"kind": "message", "text": "four"}
    return Wish(Question(state, (candidate,)), is_urgent=is_urgent)


@asynccontextmanager
async def deciding(**options: Any) -> AsyncIterator[ProcessDecider]:
    decider = ProcessDecider(COMMAND, **{"max_waiting": 3, **options})
    try:
        await decider.open(Located("1", Path("one")))
        yield decider
    finally:
        await decider.close()


def test_who_waits_for_a_decision_overtakes_shadow_which_gives_way(tmp_path: Path):
    flag = tmp_path / "go"

    async def run() -> list[str]:
        done: list[str] = []

        async def one(name: str, told: str, *, is_urgent: bool) -> None:
            found = await decider.decide(wish(told, is_urgent=is_urgent))
            done.append(f"{name} {'decided' if isinstance(found, Answered) else found}")

        async with deciding() as decider, asyncio.TaskGroup() as group:
            group.create_task(one("first", f"{WAITS}{flag}", is_urgent=False))
            await asyncio.sleep(0.05)
            for name in ("oldest", "old", "late"):
                group.create_task(one(name, "", is_urgent=False))
            await asyncio.sleep(0)
            group.create_task(one("urgent", "", is_urgent=True))
            await asyncio.sleep(0.05)
            flag.touch()
        return done

    assert asyncio.run(run()) == [
        "late busy",
        "oldest busy",
        "first decided",
        "urgent decided",
        "old decided",
    ]


def test_a_decision_that_is_given_up_leaves_its_place_to_others(tmp_path: Path):
    flag = tmp_path / "go"

    async def run() -> Any:
        async with deciding() as decider:
            first = asyncio.create_task(decider.decide(wish(f"{WAITS}{flag}")))
            await asyncio.sleep(0.05)
            for _ in range(5):
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await decider.decide(wish(""))
            last = asyncio.create_task(decider.decide(wish("")))
            await asyncio.sleep(0)
            flag.touch()
            return await first, await last

    assert all(isinstance(one, Answered) for one in asyncio.run(run()))


def test_a_number_that_json_cannot_hold_is_no_reason_to_raise():
    async def run() -> Any:
        async with deciding() as decider:
            question = wish("").question
            state = {**question.state, "attempts_left": 1 << 70}
            return await decider.decide(Wish(question._replace(state=state)))

    assert asyncio.run(run()) == "bad_state"


def test_a_program_that_cannot_be_started_is_no_model():
    async def run() -> Any:
        decider = ProcessDecider(["/does/not/exist"], max_waiting=1)
        with pytest.raises(ModelError):
            await decider.open(Located("1", Path("one")))
        found = await decider.decide(wish(""))
        await decider.close()
        return found

    assert asyncio.run(run()) == "no_model"


def test_the_process_ends_with_whoever_started_it():
    async def run() -> int:
        worker = await WorkerProcess.start(COMMAND)
        await worker.ask({"do": "open", "version": "1", "folder": "one"})
        code = await worker.end(patience_s=START_S)
        with pytest.raises(WorkerGone):
            await worker.ask({"do": "open", "version": "2", "folder": "two"})
        return code

    assert asyncio.run(run()) == 0


def process_of(decider: ProcessDecider) -> int:
    pid = decider.pid
    assert pid is not None
    return pid
