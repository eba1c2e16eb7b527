"""The native log of simulated runs."""

from typing import Any

import orjson
import pytest

from harness_core.params import Params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.grader import Grader
from harness_core.simulation.config import SampleConfig
from harness_core.simulation.environment import Environment
from harness_core.simulation.problems import Problem
from harness_core.simulation.runs import play
from harness_core.simulation.writer import log_bytes

CONFIG = SampleConfig(seed=0, n_runs=3, n_candidates=4, max_attempts=3, guidance_share=0.0)
ROW_KEYS = {
    *("problem_id", "problem_description", "initial_state", "family", "language", "entry_point"),
    *(
        "visible_checks",
        "generated_checks",
        "hidden_checks",
        "reference",
        "agent",
        "run",
        "action_sequence",
        "reward",
    ),
    *("terminal", "truncated"),
}
ACTION_KEYS = {
    *("kind", "observation", "thought", "code_generated", "test_executed", "result", "candidates"),
    *("chosen_index", "propensity", "usage"),
}


def rows_of(log: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in log.splitlines()]


@pytest.fixture
def log(problems: tuple[Problem, ...], references_only: Environment) -> bytes:
    return log_bytes(play(problems[:12], config=CONFIG, environment=references_only))


def test_rows_have_the_keys_of_the_native_format_and_no_others(log: bytes):
    for row in rows_of(log):
        assert set(row) == ROW_KEYS
        assert set(row["agent"]) == {"name", "version", "model"}
        for action in row["action_sequence"]:
            assert set(action) == ACTION_KEYS
            assert set(action["test_executed"]) == {"passed", "total", "output"}


def test_the_action_taken_is_one_of_the_candidates(log: bytes):
    for row in rows_of(log):
        for action in row["action_sequence"]:
            chosen = action["candidates"][action["chosen_index"]]
            assert chosen["code_generated"] == action["code_generated"]
            assert action["propensity"] == chosen["propensity"] == 1 / CONFIG.n_candidates
            assert action["usage"]["completion_tokens"] > 0


def test_a_run_is_either_terminal_or_truncated_and_claims_its_visible_share(log: bytes):
    for row in rows_of(log):
        last = row["action_sequence"][-1]["test_executed"]
        assert row["terminal"] != row["truncated"]
        assert row["terminal"] == (last["passed"] == last["total"])
        assert row["reward"] == pytest.approx(last["passed"] / last["total"], abs=1e-5)


def test_the_log_tells_nothing_of_the_hidden_checks(
    problems: tuple[Problem, ...], references_only: Environment, log: bytes
):
    """Other hidden checks leave every byte of a row as it was, but the checks themselves."""
    swapped = [
        problem.model_copy(update={"hidden_checks": ("assert False == True",) * 6})
        for problem in problems[:12]
    ]
    other = log_bytes(play(swapped, config=CONFIG, environment=references_only))
    for row, changed in zip(rows_of(log), rows_of(other), strict=True):
        del row["hidden_checks"], changed["hidden_checks"]
        assert row == changed


def test_a_seed_decides_every_byte(
    problems: tuple[Problem, ...], references_only: Environment, log: bytes
):
    again = log_bytes(play(problems[:12], config=CONFIG, environment=references_only))
    other = CONFIG.model_copy(update={"seed": 1})
    assert again == log
    assert log_bytes(play(problems[:12], config=other, environment=references_only)) != log


def test_the_number_of_workers_changes_no_byte(params: Params, problems: tuple[Problem, ...]):
    logs = []
    for n_workers in (1, 2):
        config = params.sandbox.model_copy(update={"n_workers": n_workers})
        with open_sandbox(config) as boxes:
            runs = play(
                problems[:6], config=CONFIG, environment=Environment(Grader(boxes, cache=None))
            )
        logs.append(log_bytes(runs))
    assert logs[0] == logs[1]
