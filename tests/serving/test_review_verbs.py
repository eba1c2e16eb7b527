"""`harness review` and `harness blind` from the command line."""

import os
import re
import signal
import subprocess
import sys

import httpx
import orjson
import pytest

from harness_core.cli import app, run_app
from harness_core.serving.decision_log import DecisionLog
from tests.serving.review_scene import abstained, decided


@pytest.fixture
def log_folder(tmp_path):
    with DecisionLog(tmp_path / "log") as log:
        log.append(abstained(1))
        for number in range(2, 8):
            log.append(decided(number, chosen=1))
    return tmp_path / "log"


def test_the_server_says_where_it_is_and_ends_when_interrupted(log_folder):
    program = "import sys; from harness_core.cli import app, run_app; sys.exit(run_app(app))"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "review", "--log", str(log_folder), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+/", line)
    assert found is not None, line
    assert "1 decision waits" in httpx.get(found[0]).text
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


def test_a_study_goes_from_the_log_to_its_result(log_folder, tmp_path, capsys):
    study = str(tmp_path / "study")
    prepare = ["blind", "prepare", "--log", str(log_folder), "--study", study, "--n", "3"]
    assert run_app(app, prepare) == 0
    assert orjson.loads(capsys.readouterr().out)["n_pairs"] == 3
    assert run_app(app, prepare) == 2
    result = ["blind", "result", "--study", study, "--no-record"]
    assert run_app(app, result) == 3
    assert "nothing was judged" in capsys.readouterr().err


def test_a_log_that_is_not_there_is_refused_in_words(tmp_path, capsys):
    assert run_app(app, ["review", "--log", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert run_app(app, ["blind", "judge", "--study", str(tmp_path)]) == 3
    assert "run `harness blind prepare` first" in capsys.readouterr().err
