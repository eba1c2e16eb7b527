"""A small agent that MLflow traces; a program of its own, since tracing sets MLflow's globals.

python -m tests.registry.traced_agent TRACKING_URI ARTIFACTS N_RUNS
"""

import sys
from typing import Any

import mlflow
from mlflow.entities import AssessmentSource


@mlflow.trace(span_type="TOOL")
def measure(city: str) -> str:
    return f"21 degrees in {city}"


@mlflow.trace(span_type="CHAT_MODEL")
def chat(messages: list[dict[str, Any]]) -> dict[str, Any]:
    if messages[-1]["role"] == "tool":
        return {"choices": [{"message": {"role": "assistant", "content": "It is 21 degrees."}}]}
    call = {"name": "measure", "arguments": '{"city": "Rome"}'}
    tool_calls = [{"id": "1", "type": "function", "function": call}]
    message = {"role": "assistant", "content": None, "tool_calls": tool_calls}
    return {"choices": [{"message": message}], "usage": {"prompt_tokens": 9}}


@mlflow.trace(name="forecast", span_type="AGENT")
def ask(question: str) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    messages.append(chat(messages)["choices"][0]["message"])
    messages.append({"role": "tool", "tool_call_id": "1", "content": measure("Rome")})
    answer: str = chat(messages)["choices"][0]["message"]["content"]
    return answer


def main() -> None:
    uri, artifacts, n_runs = sys.argv[1:]
    mlflow.set_tracking_uri(uri)
    mlflow.create_experiment("agent", artifact_location=artifacts)
    mlflow.set_experiment("agent")
    for _ in range(int(n_runs)):
        ask("How warm is it in Rome?")
    mlflow.flush_trace_async_logging()
    trace_id = mlflow.get_last_active_trace_id()
    assert trace_id is not None
    person = AssessmentSource(source_type="HUMAN", source_id="somebody")
    mlflow.log_feedback(trace_id=trace_id, name="correct", value=True, source=person)


if __name__ == "__main__":
    main()
