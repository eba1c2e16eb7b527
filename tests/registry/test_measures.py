import string
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness_core.registry.measures import flat_metrics, flat_params
from harness_core.registry.note import run_note


def test_parameters_are_named_by_their_path() -> None:
    assert flat_params({"train": {"iql": {"expectile": 0.9}, "sizes": [2, 4]}, "path": None}) == {
        "train.iql.expectile": "0.9",
        "train.sizes": "[2,4]",
        "path": "null",
    }


def test_a_long_value_is_cut_to_what_the_tracker_takes_and_says_so() -> None:
    (value,) = flat_params({"text": "x" * 10_000}).values()
    assert len(value) == 6000
    assert value.endswith("…")
    assert flat_params({"text": "x" * 6000}) == {"text": "x" * 6000}


def test_a_long_name_is_cut() -> None:
    assert [len(name) for name in flat_params({"n" * 300: 1})] == [250]


def test_metrics_of_an_evaluation_read_like_a_table() -> None:
    evaluation = {
        "k": {
            "8": {"selected": 0.5, "n_tasks": 7, "baselines": {"first": 0.25}},
            "all": {"low": 0},
        },
        "within_task_auc": 0.75,
        "steps_auc_warning": True,
        "calibration": None,
        "interval": [0.1, 0.2],
        "by_family": {"strings": {"selected": 1.0}},
        "loss": float("nan"),
    }
    assert flat_metrics(evaluation, prefix="eval") == {
        "eval/k8/selected": 0.5,
        "eval/k8/n_tasks": 7.0,
        "eval/k8/baselines/first": 0.25,
        "eval/k_all/low": 0.0,
        "eval/within_task_auc": 0.75,
        "eval/steps_auc_warning": 1.0,
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
SAFE = frozenset(string.printable) - set("\t\n\r\x0b\x0c")


@given(st.dictionaries(st.text(), JSON))
def test_any_report_gives_finite_numbers_under_short_names(tree: dict[str, Any]) -> None:
    for name, value in flat_metrics(tree, prefix="p").items():
        assert value == value  # noqa: PLR0124  # not NaN
        assert abs(value) != float("inf")
        assert len(name) <= 250


def test_the_note_says_the_verdict_and_shows_k() -> None:
    verdict = {"verdict": "keep", "summary": "Keep the champion.", "reasons": ["Forgotten: maths."]}
    evaluation: dict[str, Any] = {
        "k": {"8": {"random": 0.2, "selected": 0.4, "oracle": None, "n_tasks": 5, "baselines": {}}}
    }
    note = run_note(verdict, evaluation, warnings=["steps: odd"])
    assert note.startswith("**Keep the champion.**")
    assert "- Forgotten: maths." in note
    assert "| success at K = | 8 |" in note
    assert "| **controller** | 40.0% |" in note
    assert "| oracle | – |" in note
    assert "- steps: odd" in note
    assert run_note({"verdict": "promote"}, {}).startswith("**promote**")
