from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.importers.conftest import ReadFolder

USER = {"role": "user", "content": "Hello?"}


def span(number: int, kind: str, inputs: Any, outputs: Any, *, parent: str = "", **more: Any):
    attributes = {"mlflow.spanType": kind, "mlflow.spanInputs": inputs}
    attributes |= {"mlflow.spanOutputs": outputs, **more}
    return {
        "span_id": str(number),
        "parent_span_id": parent,
        "name": f"{kind.lower()}-{number}",
        "start_time_unix_nano": number,
        "status": {"code": "STATUS_CODE_OK"},
        "attributes": {key: orjson.dumps(value).decode() for key, value in attributes.items()},
    }


@pytest.fixture
def told(tmp_path: Path, read_folder: ReadFolder):
    def read(*spans: dict[str, Any], state: str = "OK", assessments: Any = ()):
        info = {"trace_id": "tr-1", "state": state, "assessments": list(assessments)}
        trace = {"info": info, "data": {"spans": list(spans)}}
        (tmp_path / "traces.jsonl").write_bytes(orjson.dumps(trace) + b"\n")
        return read_folder("mlflow_traces", tmp_path)

    return read


def feedback(value: Any, source: str, day: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "assessment_name": "correct",
        "source": {"source_type": source},
        "last_update_time": f"2026-03-{day:02}T00:00:00Z",
        "feedback": {"value": value},
        **more,
    }


def test_calls_that_tell_only_what_is_new_are_steps_in_the_order_of_time(told):
    (trajectory,) = told(
        span(3, "LLM", {"prompt": "And now?"}, "Bye."), span(1, "LLM", "Hello?", "Hi.")
    ).trajectories
    assert [step.action.text for step in trajectory.steps] == ["Hi.", "Bye."]
    assert trajectory.task.description == "Hello?"


def test_what_the_next_call_was_told_is_the_result_where_no_tool_was_traced(told):
    answer = {"role": "assistant", "content": "Who is there?"}
    (trajectory,) = told(
        span(1, "CHAT_MODEL", {"messages": [USER]}, answer),
        span(
            2, "CHAT_MODEL", {"messages": [USER, answer, {"role": "user", "content": "Me."}]}, "Ah."
        ),
    ).trajectories
    assert [step.result for step in trajectory.steps] == ["Me.", ""]


def test_a_call_below_a_call_is_the_same_call_once_more(told):
    (trajectory,) = told(
        span(1, "CHAT_MODEL", {"messages": [USER]}, "Hi."),
        span(2, "CHAIN", None, None, parent="1"),
        span(3, "LLM", "Hello?", "Hi.", parent="2"),
    ).trajectories
    assert len(trajectory.steps) == 1


def test_spans_that_are_above_each_other_are_no_endless_loop(told):
    first = span(1, "LLM", "a", "b", parent="2")
    second = span(2, "CHAIN", None, None, parent="1")
    assert len(told(first, second).trajectories[0].steps) == 1


@pytest.mark.parametrize(
    ("said", "success", "score"),
    [
        ([], None, None),
        ([feedback(True, "LLM_JUDGE"), feedback(False, "HUMAN")], False, None),
        ([feedback(True, "HUMAN", 1), feedback(False, "HUMAN", 2)], False, None),
        ([feedback("yes", "CODE"), feedback(0.5, "HUMAN")], True, 0.5),
        ([feedback(7, "HUMAN"), feedback("perhaps", "HUMAN"), feedback(None, "HUMAN")], None, None),
        ([feedback(True, "HUMAN", valid=False)], None, None),
        ([{"assessment_name": "expected", "expectation": {"value": True}}], None, None),
    ],
)
def test_people_are_believed_first_and_each_source_by_its_last_word(told, said, success, score):
    (trajectory,) = told(span(1, "LLM", "a", "b"), assessments=said).trajectories
    assert (trajectory.outcome.success, trajectory.outcome.score) == (success, score)


@pytest.mark.parametrize("state", ["ERROR", "IN_PROGRESS", ""])
def test_a_trace_that_did_not_end_well_is_cut_off(told, state: str):
    (trajectory,) = told(span(1, "LLM", "a", "b"), state=state).trajectories
    assert trajectory.truncated


def test_a_trace_without_calls_says_what_to_trace(told):
    imported = told(span(1, "CHAIN", "a", "b"))
    assert imported.rules == ["M-NO-STEPS"]
    assert "CHAT_MODEL" in imported.rejects[0].reason


def test_a_value_that_is_no_json_is_a_text(told):
    broken = span(1, "LLM", "a", "b")
    broken["attributes"]["mlflow.spanOutputs"] = "not {json"
    (trajectory,) = told(broken).trajectories
    assert trajectory.steps[0].action.text == "not {json"
