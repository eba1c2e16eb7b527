"""A coding agent that does not know whether a controller stands before its model.

It asks an OpenAI-compatible API for a program, tries the visible checks, goes on from what failed,
and reports at the end what its tests said. With the controller only `base_url` is another one:

    harness proxy --upstream http://127.0.0.1:8001 --mode rerank --log data/decisions &
    python examples/agent_loop.py --base-url http://127.0.0.1:8100/v1

`examples/simulated_upstream.py` is an upstream to try it with.
"""

import argparse
import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from openai import OpenAI

from harness_core.api import open_sandbox
from harness_core.params import load_params
from harness_core.sandbox.grader import GradeJob, Grader

ROOT = Path(__file__).resolve().parents[1]

DECISION = "x-controller-decision-id"
TASK = {
    "task_id": "clamp",
    "prompt": (
        "Return x, but at least low and at most high.\n\n"
        "def clamp(x: int, low: int, high: int) -> int"
    ),
    "entry_point": "clamp",
    "visible_checks": ["assert clamp(5, 0, 3) == 3", "assert clamp(-1, 0, 3) == 0"],
}


@dataclass
class Attempt:
    """One program, and what the visible checks said of it."""

    program: str
    decision_id: str | None
    feedback: str
    passed: bool


class Tests:
    """Runs the checks that the agent may see, isolated: it is a model that wrote the program."""

    def __init__(self, grader: Grader) -> None:
        self._grader = grader

    @classmethod
    @contextmanager
    def opened(cls) -> Iterator["Tests"]:
        """With the limits of `params.yaml`."""
        with open_sandbox(load_params(ROOT / "params.yaml").sandbox) as boxes:
            yield cls(Grader(boxes, cache=None))

    def feedback(self, program: str, task: dict) -> str:
        """Checks that fail, a line each; empty if all pass."""
        checks = tuple(task["visible_checks"])
        verdict = self._grader.grade([GradeJob(program, task["entry_point"], checks)])[0]
        pairs = zip(checks, verdict.checks, strict=True)
        return "\n".join(f"{check}: {status}" for check, status in pairs if status != "passed")


@dataclass
class Agent:
    """Asks, tries, revises; at most `max_attempts` times."""

    client: OpenAI
    tests: Tests
    model: str = "sim-medium"
    max_attempts: int = 3
    has_controller: bool = True
    attempts: list[Attempt] = field(default_factory=list)

    def solve(self, task: dict) -> Attempt:
        """Work on a task until its visible checks pass."""
        session = uuid.uuid4().hex
        messages = [{"role": "user", "content": task["prompt"]}]
        while len(self.attempts) < self.max_attempts:
            attempt = self._try(messages, task, session)
            self.attempts.append(attempt)
            if attempt.passed:
                break
            messages += [
                {"role": "assistant", "content": f"```python\n{attempt.program}\n```"},
                {"role": "user", "content": attempt.feedback},
            ]
        return self.attempts[-1]

    def _try(self, messages: list, task: dict, session: str) -> Attempt:
        # What stands under `harness` is for the controller and never reaches the model. It may be
        # left out: then the controller knows the messages only.
        known = {"task_id": task["task_id"], "session_id": session, "language": "python"}
        known |= {name: task[name] for name in ("entry_point", "visible_checks")}
        raw = self.client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=messages,
            extra_body={"harness": known} if self.has_controller else None,
        )
        text = raw.parse().choices[0].message.content or ""
        blocks = re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)
        program = blocks[-1] if blocks else text
        feedback = self.tests.feedback(program, task)
        return Attempt(program, raw.headers.get(DECISION), feedback, passed=not feedback)


def report_outcome(base_url: str, decision_id: str, *, success: bool) -> None:
    """Say what came of a decision; it is joined to the log, now or days later."""
    outcome = {"decision_id": decision_id, "success": success, "source": "tests"}
    httpx.post(f"{base_url}/harness/outcomes", json=outcome).raise_for_status()


def main() -> None:
    """Solve one task and say how it went."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", default="http://127.0.0.1:8100/v1")
    base_url = parser.parse_args().base_url
    with Tests.opened() as tests:
        agent = Agent(OpenAI(base_url=base_url, api_key="none"), tests)
        last = agent.solve(TASK)
    if last.decision_id:
        report_outcome(base_url, last.decision_id, success=last.passed)
    print(
        json.dumps(
            {
                "passed": last.passed,
                "n_attempts": len(agent.attempts),
                "decision_ids": [one.decision_id for one in agent.attempts],
            }
        )
    )


if __name__ == "__main__":
    main()
