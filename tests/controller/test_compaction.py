"""A plan loses what does nothing, and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.controller.compaction import compact
from harness_core.errors import ParameterError
from tests.controller.scripted import STATE, ScriptedCritic, call, controller

TEST = {"kind": "test", "text": ""}
REVISE = {"kind": "revise", "text": ""}


def reasons(*steps: Any) -> list[tuple[int, str, int | None]]:
    return [(item.index, item.reason, item.same_as) for item in compact(steps).removed]


def test_what_was_said_before_need_not_be_said_again_whatever_stands_between():
    plan = ["1. Read the file", "2. Run the tests", "3. read  the file"]
    assert reasons(*plan) == [(2, "repeated", 0)]
    assert [step["text"] for step in compact(plan).steps] == plan[:2]


def test_testing_again_after_a_change_is_no_repetition():
    assert reasons(TEST, REVISE, TEST) == []
    assert reasons(TEST, TEST, REVISE) == [(1, "repeated", 0)]


def test_only_a_tool_that_reads_is_the_same_when_called_twice():
    assert reasons(call("get_user", id=1), call("get_user", id=1)) == [(1, "repeated", 0)]
    assert reasons(call("get_user", id=1), call("get_user", id=2)) == []
    assert reasons(call("next_page"), call("next_page")) == []
    # Whatever merely begins with the letters of a word that reads need not read.
    assert reasons(call("getaway"), call("getaway")) == []


@pytest.mark.parametrize(
    "step",
    [
        "...",
        "3. (none)",
        "Do nothing.",
        {"kind": "code", "text": "# think about it\n"},
        {"kind": "code", "text": "pass"},
        {"kind": "code", "text": "true"},
    ],
)
def test_a_step_that_says_that_it_does_nothing_is_a_no_op(step):
    assert reasons("Start", step) == [(1, "no_op", None)]


@pytest.mark.parametrize("kind", ["message", "code", "tool_call"])
def test_a_step_without_text_and_arguments_is_empty_but_an_intervention_is_not(kind):
    assert reasons({"kind": kind, "text": "  "}) == [(0, "empty", None)]
    assert reasons(TEST) == []


def test_indentation_tells_programs_apart():
    one, other = {"kind": "code", "text": "if a:\n  b"}, {"kind": "code", "text": "if a:\nb"}
    assert reasons(one, other) == []


def test_a_step_of_an_unknown_kind_is_refused():
    with pytest.raises(ParameterError, match="dance"):
        compact([{"kind": "dance", "text": "a"}])


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["a", "b", "1. a", "...", "", "none", "A  b", "a b"]),
        st.fixed_dictionaries(
            {
                "kind": st.sampled_from(["message", "code", "tool_call", "test", "revise"]),
                "text": st.sampled_from(["", "x", "# x", "pass", "get_it", '{"name": "get_it"}']),
                "arguments": st.sampled_from([{}, {"name": "get_it", "arguments": {}}]),
            }
        ),
    ),
    max_size=12,
)


@given(STEPS)
def test_compacting_twice_is_compacting_once(steps):
    once = compact(steps)
    again = compact(once.steps)
    assert again.steps == once.steps
    assert again.removed == ()


@given(STEPS)
def test_every_step_is_kept_in_order_or_removed_with_a_reason(steps):
    found = compact(steps)
    places = [*found.kept, *(item.index for item in found.removed)]
    assert sorted(places) == list(range(len(steps)))
    assert list(found.kept) == sorted(found.kept)
    assert all(item.same_as in found.kept for item in found.removed if item.reason == "repeated")


def test_a_rewrite_is_accepted_only_where_the_critic_prefers_it(pipeline):
    plan, rewrite = ["Read the task.", "Add the numbers."], "Add the numbers."
    assert controller(pipeline, ScriptedCritic(slope=1.0)).prefer_rewrite(STATE, plan, rewrite)
    worse = controller(pipeline, ScriptedCritic(slope=-1.0))
    assert not worse.prefer_rewrite(STATE, plan, rewrite)
    same = controller(pipeline, ScriptedCritic(slope=0.0))
    assert not same.prefer_rewrite(STATE, plan, rewrite)
