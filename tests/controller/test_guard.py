"""The hard filter holds without a model."""

import pytest

from harness_core.controller.decision import FilteredCandidate
from harness_core.controller.guard import screen
from harness_core.errors import ParameterError
from harness_core.rewards.tool_policy import ALLOW_ALL
from tests.controller.scripted import (
    BAD,
    GOOD,
    POLICY,
    STATE,
    TOOLS,
    ScriptedCritic,
    call,
    controller,
)


def test_without_a_model_danger_and_policy_still_filter():
    assert [item.index for item in screen([GOOD, BAD], language="python", policy=ALLOW_ALL)] == [1]
    denied = screen([call("delete_user", id=1)], language="tools", policy=POLICY)
    assert denied == (FilteredCandidate(index=0, rules=("policy:no-deletes",)),)


def test_nothing_is_screened_out_of_nothing():
    assert screen([], language="text", policy=ALLOW_ALL) == ()


def test_a_controller_screens_as_it_selects(pipeline):
    built = controller(pipeline, ScriptedCritic())
    for state, candidates in (
        (STATE, [GOOD, BAD, GOOD]),
        (TOOLS, [call("delete_user", id=1), call("find_user", id=1)]),
    ):
        found = built.screen(candidates, language=state["language"])
        assert found == built.select(state, candidates).filtered


@pytest.mark.parametrize(
    ("candidates", "language", "message"),
    [([{"code": "x"}], "python", "`text`"), ([GOOD], "cobol", "cobol")],
)
def test_what_cannot_be_read_is_refused(candidates, language, message):
    with pytest.raises(ParameterError, match=message):
        screen(candidates, language=language, policy=ALLOW_ALL)
