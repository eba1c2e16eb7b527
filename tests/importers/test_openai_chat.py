import orjson
import pytest

from tests.importers.conftest import ReadFolder


def user(text):
    return {"role": "user", "content": text}


def said(text, **keys):
    return {"role": "assistant", "content": text, **keys}


def call(messages, *answers, **keys):
    choices = [{"index": i, "message": answer} for i, answer in enumerate(answers)]
    return {"request": {"messages": messages}, "response": {"choices": choices}, **keys}


@pytest.fixture
def read_calls(tmp_path, read_folder: ReadFolder):
    def read(*calls):
        (tmp_path / "calls.jsonl").write_bytes(b"\n".join(map(orjson.dumps, calls)))
        return read_folder("openai_chat", tmp_path)

    return read


def test_38_a_conversation_logged_call_by_call_is_told_once(read_calls):
    first = [user("hi")]
    second = [*first, said("B"), user("more")]
    third = [*second, said("C"), user("bye")]
    imported = read_calls(
        call(first, said("A"), said("B")), call(second, said("C")), call(third, said("D"))
    )
    (trajectory,) = imported.trajectories
    assert [step.action.text for step in trajectory.steps] == ["B", "C", "D"]
    assert [len(step.candidates) for step in trajectory.steps] == [2, 0, 0]
    assert trajectory.steps[0].chosen_index == 1
    assert imported.tally.warnings == {"O-CONTINUED": 2}


def test_a_growing_log_of_conversations_is_told_once(read_calls):
    short = [user("hi"), said("A")]
    imported = read_calls({"messages": short}, {"messages": [*short, user("more"), said("B")]})
    assert [len(item.steps) for item in imported.trajectories] == [2]


def test_two_equal_conversations_are_two_until_they_are_deduplicated(read_calls):
    imported = read_calls(*[{"messages": [user("hi"), said("A")]}] * 2)
    assert len(imported.trajectories) == 2
    assert len({item.trajectory_id for item in imported.trajectories}) == 1


def test_flat_records_without_wrappers_are_read(read_calls):
    record = call([user("hi")], said("A"), said("B"))
    flat = {**record["request"], **record["response"], "model": "m", "chosen_index": 1}
    (trajectory,) = read_calls(flat).trajectories
    assert trajectory.agent.model == "m"
    assert trajectory.steps[0].action.text == "B"


@pytest.mark.parametrize(
    ("keys", "success", "score"),
    [
        ({}, None, None),
        ({"success": True}, True, None),
        ({"outcome": False}, False, None),
        ({"outcome": 0.5}, None, 0.5),
        ({"score": 1}, None, 1.0),
        ({"score": 7}, None, None),
        ({"metadata": {"success": True, "score": 0.2}}, True, 0.2),
        ({"outcome": {"success": False, "score": 0.0}}, False, 0.0),
        ({"outcome": "fine"}, None, None),
    ],
)
def test_outcomes_are_read_only_where_they_are_what_they_claim(read_calls, keys, success, score):
    (trajectory,) = read_calls(call([user("hi")], said("A"), **keys)).trajectories
    assert (trajectory.outcome.success, trajectory.outcome.score) == (success, score)


def test_an_answer_cut_by_length_is_truncated(read_calls):
    record = call([user("hi")], said("A"))
    record["response"]["choices"][0]["finish_reason"] = "length"
    assert read_calls(record).trajectories[0].truncated


@pytest.mark.parametrize("arguments", ["", "{}", '{"a": 1}', "{oops", "[1]", "[" * 999])
def test_tool_arguments_are_parsed_or_kept_raw(read_calls, arguments):
    tool = {"id": "x", "type": "function", "function": {"name": "t", "arguments": arguments}}
    (trajectory,) = read_calls(call([user("hi")], said(None, tool_calls=[tool]))).trajectories
    action = trajectory.steps[0].action
    assert action.arguments["name"] == "t"
    assert isinstance(action.arguments["arguments"], dict)
    assert orjson.loads(action.text) == action.arguments


def test_parallel_tool_calls_are_one_action(read_calls):
    tools = [{"function": {"name": name, "arguments": "{}"}} for name in "ab"]
    (trajectory,) = read_calls({"messages": [user("hi"), said("", tool_calls=tools)]}).trajectories
    action = trajectory.steps[0].action
    assert [item["name"] for item in orjson.loads(action.text)] == ["a", "b"]
    assert action.arguments["also"] == [{"name": "b", "arguments": {}}]


@pytest.mark.parametrize("record", [{"messages": [user("hi")]}, {"messages": []}, {}])
def test_a_conversation_without_the_assistant_is_rejected(read_calls, record):
    assert read_calls(record).rules == ["O-NO-STEPS"]
