from itertools import permutations
from pathlib import Path

import pytest

from harness_core.errors import ParameterError
from harness_core.serving.decision_log import DecisionLog
from harness_core.serving.outcomes import find_decision, report_outcome
from harness_core.trajectories.decision_log import settled
from tests.serving.logged import decision, outcome


def test_a_late_outcome_is_joined_to_its_decision(tmp_path: Path):
    with DecisionLog(tmp_path) as log:
        log.append(decision("a"))
        log.append(decision("b"))
    reported = report_outcome(tmp_path, "a", source="tests", success=True)
    story = find_decision(tmp_path, "a")
    assert story is not None
    assert story.outcome == reported
    assert story.decision == decision("a")
    other = find_decision(tmp_path, "b")
    assert other is not None
    assert other.outcome is None
    assert find_decision(tmp_path, "c") is None


def test_the_proxy_reports_into_the_log_that_it_has_open(tmp_path: Path):
    with DecisionLog(tmp_path) as log:
        log.append(decision("a"))
        report_outcome(log, "a", source="user", score=0.5)
        assert len(list(tmp_path.iterdir())) == 1


def test_one_report_told_twice_counts_once(tmp_path: Path):
    with DecisionLog(tmp_path) as log:
        log.append(decision("a"))
        for success in (True, False):
            report_outcome(log, "a", source="user", success=success, outcome_id="o")
    story = find_decision(tmp_path, "a")
    assert story is not None
    assert [item.success for item in story.outcomes] == [True]


def test_tests_are_believed_before_people_and_the_latest_word_of_each_counts():
    said = (
        outcome("1", "a", source="user", hour=1, success=True),
        outcome("2", "a", source="user", hour=3, success=False, score=0.25),
        outcome("3", "a", source="tests", hour=2, success=True),
        outcome("4", "a", source="hearsay", hour=4, success=False, score=1.0),
    )
    for order in permutations(said):
        settled_one = settled(order)
        assert settled_one is not None
        assert (settled_one.source, settled_one.success, settled_one.score) == ("tests", True, 0.25)
    assert settled(()) is None


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, "score in"),
        ({"score": 1.5}, "score"),
        ({"score": float("nan")}, "score"),
        ({"success": True, "source": ""}, "source"),
        ({"success": True, "outcome_id": ""}, None),
    ],
)
def test_an_outcome_that_says_nothing_is_refused(tmp_path: Path, said, reason: str | None):
    given = {"source": "user", **said}
    if reason is None:
        assert report_outcome(tmp_path, "a", **given).outcome_id
        return
    with pytest.raises(ParameterError, match=reason):
        report_outcome(tmp_path, "a", **given)
    assert list(tmp_path.iterdir()) == []
