import csv
import io
import re
from typing import Any

import numpy as np
import pytest

from harness_core.evaluation.calibration import reliability
from harness_core.evaluation.comparison import compare_with_behaviour, frozen_slice
from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.evaluation.evaluate import evaluate_groups
from harness_core.evaluation.gate import decide
from harness_core.evaluation.labels import percent, percent_interval, points
from harness_core.evaluation.metrics import json_ready
from harness_core.evaluation.plots import FIGURES, render, write_plots
from harness_core.evaluation.report import render_report
from harness_core.trajectories.vocabulary import GroupKind

_HOSTILE = "<script>alert(1)</script>\x1b[31m\u202egnp.exe' onload='x $\\frac{1}{0}$"

_STAGES: dict[str, dict[str, Any]] = {
    "ingest": {"sources": {_HOSTILE: _HOSTILE, "n": 3}},
    "train": {"loss": 0.25, "folds": [{"n_updates": 150}, {"n_updates": 1100}]},
}


@pytest.fixture(scope="module")
def judged_logs(params, critic, many_groups, group):
    """Evaluation and verdict of logs whose every name is hostile."""
    evaluation = params.evaluation.model_copy(update={"n_resamples": 200, "n_subsets": 4})
    judged = CrossFit(final=Model(critic=critic()))
    groups = [
        *many_groups(n_tasks=16, family=_HOSTILE, quality=0.6, source=_HOSTILE),
        *many_groups(n_tasks=8, family="strings", quality=0.6),
        group([0, 1], task_id="step", kind=GroupKind.STEP),
    ]
    report = evaluate_groups(judged, groups, evaluation)
    exam = frozen_slice(groups, seen_in_training=())
    comparison = compare_with_behaviour(judged, exam, evaluation=evaluation, gate=params.gate)
    verdict = decide(comparison, report, params.gate, trusted=True, leaking_tasks=[_HOSTILE])
    return report, json_ready(verdict.model_dump(mode="json"))


@pytest.fixture(scope="module")
def page(judged_logs):
    report, verdict = judged_logs
    return render_report(verdict=verdict, evaluation=report, stages=_STAGES, confidence=0.95)


def test_hostile_names_are_shown_as_text(page):
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "onload='x" not in page
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page)


def test_the_page_loads_nothing(page):
    assert 'content="default-src &#39;none&#39;' in page or "content=\"default-src 'none'" in page
    sources = re.findall(r"""(?:src|href|action)\s*=\s*["']([^"']*)""", page)
    assert all(source.startswith("#") for source in sources)
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page


def test_figures_of_stages_are_shown_flat(page):
    for name, value in (("sources · n", "3"), ("loss", "0.25"), ("folds · 1 · n_updates", "1,100")):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in page


def test_the_verdict_stands_first_and_in_words(page, judged_logs):
    _, verdict = judged_logs
    assert "Keep the agent as it is:" in verdict["summary"]
    body = page[page.index("<main>") :]
    assert body.index("Keep the agent as it is:") < body.index("Best of K")
    for section in ("Best of K", "family by family", "Calibration", "How this was judged"):
        assert section in body


def test_the_page_is_the_same_for_the_same_numbers(page, judged_logs):
    report, verdict = judged_logs
    again = render_report(verdict=verdict, evaluation=report, stages=_STAGES, confidence=0.95)
    assert again == page


def test_a_report_of_logs_without_any_choice_still_says_so(critic, evaluation, gate, group):
    judged = CrossFit(final=Model(critic=critic()))
    groups = [group([1.0], task_id=str(n)) for n in range(3)]
    report = evaluate_groups(judged, groups, evaluation)
    comparison = compare_with_behaviour(judged, [], evaluation=evaluation, gate=gate)
    verdict = json_ready(
        decide(comparison, report, gate, trusted=False, leaking_tasks=[]).model_dump(mode="json")
    )
    page = render_report(verdict=verdict, evaluation=report, stages={}, confidence=0.95)
    assert verdict["verdict"] == "keep"
    assert "there was nothing to choose between" in page


@pytest.mark.parametrize("form", ["png", "svg"])
@pytest.mark.parametrize("name", list(FIGURES))
def test_figures_have_the_same_bytes_each_time(judged_logs, name, form):
    report, _ = judged_logs
    first, second = (render(FIGURES[name], report, form=form) for _ in range(2))
    assert first == second


def test_curves_are_written_as_csv_too(judged_logs, tmp_path):
    report, _ = judged_logs
    write_plots(report, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "k_curve.csv", "differences.csv", "calibration.csv", "over_optimisation.csv",
        "k_curve.png", "differences.png", "calibration.png", "over_optimisation.png",
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO((tmp_path / "k_curve.csv").read_text())))
    controller = {row["k"]: float(row["success"]) for row in rows if row["selector"] == "selected"}
    assert controller["8"] == report["k"]["8"]["selected"]


def test_calibrated_probabilities_have_no_calibration_error():
    label = np.repeat([0.0, 1.0], [30, 10])
    found = reliability(np.full(40, 0.25), np.random.default_rng(0).permutation(label))
    assert found["ece"] == pytest.approx(0.0)
    label = np.repeat([0.0, 1.0], 20)
    exact = reliability(label, label)
    assert (exact["ece"], exact["brier"]) == (0.0, 0.0)
    assert reliability(1 - label, label)["ece"] == 1.0


def test_the_isotonic_curve_never_falls():
    rng = np.random.default_rng(0)
    probability = rng.random(200)
    curve = reliability(probability, rng.random(200) < probability**2)["isotonic"]
    observed = [point["observed"] for point in curve]
    assert observed == sorted(observed)


def test_numbers_for_people():
    assert percent(0.615) == "62 %"
    assert percent(None) == "unknown"
    assert percent_interval(-0.001, 0.69) == "[0, 69]"
    assert points(-0.031, -0.1, 0.0) == "−3.1 points [−10.0, 0.0]"
    assert points(0.4, None, None) == "+40.0 points (no interval)"
