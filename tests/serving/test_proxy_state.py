"""What is served has the features of what is imported; streams amount to what they say."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.features.contents import (
    ActionContent,
    AgentKey,
    StepContent,
    TaskContent,
    TrajectoryContent,
)
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.runtime import featurise_request
from harness_core.importers.base import ImportContext
from harness_core.importers.openai_chat import OpenaiChatImporter
from harness_core.params import Params
from harness_core.serving.candidates import Candidate
from harness_core.serving.chat_dialect import ChatDialect
from harness_core.serving.conversation import question_of
from harness_core.serving.knobs import HarnessFields
from harness_core.serving.responses_dialect import ResponsesDialect
from harness_core.serving.streams import read_stream
from harness_core.trajectories.schema import Trajectory
from harness_core.trajectories.vocabulary import Language
from tests.features.world import make_config, make_world
from tests.serving.stub_documents import MESSAGES, TOOL_CALL, response_document

DIALECT = ChatDialect()
FUNCTION: dict[str, str] = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How warm is it in Paris?"},
    {"role": "user", "content": "In degrees."},
]
WITH_TOOLS = [
    *TALK,
    {"role": "assistant", "content": "Let me look.", "tool_calls": [TOOL_CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Error: no such city"},
    {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "21"},
]


@pytest.fixture(scope="module")
def pipeline() -> FeaturePipeline:
    return FeaturePipeline.fit(make_world().tables(), make_config())


def imported(messages, answer, tmp_path, params: Params) -> Trajectory:
    call = {
        "request": {"messages": messages, "model": "m"},
        "response": {"choices": [{"message": answer}], "model": "m"},
    }
    (tmp_path / "log.jsonl").write_bytes(orjson.dumps(call) + b"\n")
    context = ImportContext(source="s", config=params.ingest)
    items = OpenaiChatImporter().read(tmp_path, context)
    (found,) = [item for item in items if isinstance(item, Trajectory)]
    return found


def content_of(trajectory: Trajectory, language: str) -> TrajectoryContent:
    """As the batch path reads it from the tables."""
    return TrajectoryContent(
        trajectory_id="t",
        task=TaskContent(
            task_id=trajectory.task.task_id,
            source="",
            description=trajectory.task.description,
            initial_state=trajectory.task.initial_state,
            language=Language(language),
        ),
        agent=AgentKey("", trajectory.agent.name, trajectory.agent.model),
        steps=tuple(
            StepContent(
                observation=step.observation,
                actions=(
                    ActionContent(
                        kind=step.action.kind,
                        text=step.action.text,
                        arguments=orjson.dumps(
                            step.action.arguments, option=orjson.OPT_SORT_KEYS
                        ).decode(),
                    ),
                ),
                result=step.result,
                is_error=step.is_error,
            )
            for step in trajectory.steps
        ),
    )


@pytest.mark.parametrize("messages", [TALK, WITH_TOOLS, WITH_TOOLS[:5]])
@pytest.mark.parametrize("answer", ["words", "tool", "two_tools", "refusal", "reasoning"])
def test_a_served_conversation_has_the_features_of_its_log(
    pipeline, messages, answer, tmp_path, params
):
    said = MESSAGES[answer]
    trajectory = imported(messages, said, tmp_path, params)
    question = question_of(
        DIALECT.messages({"messages": messages}),
        [DIALECT.said({"message": said})],
        HarnessFields(),
        model="m",
    )
    assert question.state["task_id"] == trajectory.task.task_id
    served = featurise_request(pipeline, question.state, question.candidates, sandbox=None)
    batch = pipeline.transform_contents(
        [content_of(trajectory, question.state["language"])], {}, runner=None
    )
    assert served.before[0].tolist() == batch.state[-2].tolist()
    assert served.after[0].tolist() == batch.state[-1].tolist()
    assert served.action[0].tolist() == batch.action[-1].tolist()


def test_responses_and_chat_give_the_same_state():
    items = [
        {"role": "user", "content": "How warm?"},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", **FUNCTION},
        {"type": "function_call_output", "call_id": "c", "output": "21"},
    ]
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How warm?"},
        {"role": "assistant", "tool_calls": [TOOL_CALL]},
        {"role": "tool", "content": "21"},
    ]
    said = MESSAGES["words"]
    responses = ResponsesDialect()
    document = response_document(said, model="m")
    one = question_of(
        responses.messages({"instructions": "Be brief.", "input": items}),
        [responses.said(document)],
        HarnessFields(),
        model="m",
    )
    other = question_of(
        DIALECT.messages({"messages": chat}),
        [DIALECT.said({"message": said})],
        HarnessFields(),
        model="m",
    )
    assert one == other


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_CALL = st.builds(
    lambda name, arguments, number: {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    },
    st.text("abc", min_size=1, max_size=5),
    _TEXT,
    st.integers(0, 99),
)
_MESSAGE = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": _TEXT},
    optional={
        "refusal": _TEXT,
        "reasoning_content": _TEXT,
        "tool_calls": st.lists(_CALL, min_size=1, max_size=3),
    },
)


@given(st.lists(_MESSAGE, min_size=1, max_size=4))
def test_a_stream_that_we_make_says_what_the_answer_says(messages):
    choices = [
        {"index": index, "message": one, "logprobs": None, "finish_reason": "length"}
        for index, one in enumerate(messages)
    ]
    reply = {"id": "c", "model": "m", "choices": choices}
    picked = [Candidate(reply=reply, choice=choice) for choice in choices]
    answer = DIALECT.answer(picked, decision_id="d")
    stream = read_stream(b"".join(DIALECT.stream(answer, {})))
    assert DIALECT.assemble(stream)["choices"] == choices
    assert stream.oddities == set()


@given(st.binary(max_size=400))
def test_no_bytes_break_the_reader_of_streams(raw):
    stream = read_stream(raw)
    assert isinstance(DIALECT.assemble(stream)["choices"], list)


_KEYS = st.sampled_from(
    [
        "choices",
        "delta",
        "index",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "content",
        "role",
        "usage",
        "logprobs",
        "finish_reason",
        "message",
        "type",
        "output",
        "text",
    ]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(_KEYS, _JSON, max_size=5), max_size=4))
def test_no_payload_breaks_what_is_made_of_streams(payloads):
    raw = b"".join(b"data: " + orjson.dumps(one) + b"\n\n" for one in payloads)
    for dialect in (DIALECT, ResponsesDialect()):
        reply = dialect.assemble(read_stream(raw))
        for choice in dialect.choices(reply):
            try:
                dialect.said(choice)
            except ValueError:
                continue
