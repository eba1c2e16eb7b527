"""The verb `harness proxy`: a process of its own, from its first line to its last."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import orjson
import pytest

from harness_core.cli import app, run_app
from harness_core.serving.decision_log import read_log
from tests.serving.conftest import ask
from tests.serving.servers import served
from tests.serving.stub_documents import GOOD
from tests.serving.stub_upstream import Stub

UPSTREAM = ["--upstream", "http://127.0.0.1:9/v1"]


@contextmanager
def running_proxy(
    *options: str, **environment: str
) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    command = [sys.executable, "-m", "flows.cli", "proxy", "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, **environment, "OMP_NUM_THREADS": "1"}
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        yield orjson.loads(line)["base_url"], process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_it_serves_says_where_and_ends_its_answers_before_itself(tmp_path: Path):
    stub = Stub()
    with (
        served(stub.app) as upstream,
        running_proxy(
            *("--upstream", f"{upstream}/v1", "--workdir", str(tmp_path)),
            *("--log", str(tmp_path / "log"), "--api-key-env", "OURS"),
            OURS="sk-a sk-b",
        ) as (base_url, process),
    ):
        key = {"authorization": "Bearer sk-b"}
        url = f"{base_url}/chat/completions"
        assert httpx.post(url, json=ask("plain")).status_code == 401
        answer = httpx.post(url, json=ask("plain"), headers=key)
        assert answer.json()["choices"][0]["message"]["content"] == GOOD
        said = []
        body = ask("drips:good", stream=True)
        thread = threading.Thread(
            target=lambda: said.append(httpx.post(url, json=body, headers=key).content)
        )
        thread.start()
        while len(stub.seen.bodies) < 2:
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        thread.join()
        assert said[0].endswith(b"data: [DONE]\n\n")
        decided = list(read_log(tmp_path / "log"))
        assert answer.headers["x-controller-decision-id"] in {one.decision_id for one in decided}
        assert {getattr(one, "failure", None) for one in decided} == {"no_model"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--mode", "best"], "--mode"),
        (["--k", "17"], "--k"),
        (["--budget-ms", "0"], "--budget-ms"),
        (["--host", "0.0.0.0"], "--api-key-env"),
        (["--api-key-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE"),
        (["--upstream", "not an address"], "--upstream"),
    ],
)
def test_wrong_options_are_named(options, words, tmp_path, capsys):
    code = run_app(app, ["proxy", *UPSTREAM, "--workdir", str(tmp_path), *options])
    assert code == 2
    assert words in capsys.readouterr().err
