"""An OpenAI-compatible API behind which simulated models write programs.

It knows the tasks that ship with harness by their statements, and one more for `agent_loop.py`.
Answers are drawn by the skill of the model that is asked for (`sim-small`, `sim-medium`,
`sim-large`): some are right, some wrong, some broken, and a few dangerous. Not a real model, but a
real server: the proxy and the agent cannot tell.

    python examples/simulated_upstream.py --port 8001
"""

import argparse
import random
import re
import threading
from collections import Counter

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from harness_core.simulation.agent import AgentState, Attempt, Feedback
from harness_core.simulation.problems import Problem, load_problems
from harness_core.simulation.profiles import PROFILES
from harness_core.simulation.runs import problem_pool, start_state
from harness_core.simulation.simulated_agent import SimulatedAgent

SEED = 1
"""Another one than that of the sample logs: programs and draws are others."""

CLAMP = Problem(
    id="clamp",
    family="examples",
    difficulty=1,
    statement="Return x, but at least low and at most high.",
    signature="def clamp(x: int, low: int, high: int) -> int",
    entry_point="clamp",
    reference="def clamp(x: int, low: int, high: int) -> int:\n    return max(low, min(high, x))\n",
    wrong_variants=(
        "def clamp(x: int, low: int, high: int) -> int:\n    return min(low, max(high, x))\n",
        "def clamp(x: int, low: int, high: int) -> int:\n    return min(high, x)\n",
        "def clamp(x: int, low: int, high: int) -> int:\n    return max(low, x)\n",
    ),
    visible_checks=("assert clamp(5, 0, 3) == 3", "assert clamp(-1, 0, 3) == 0"),
    hidden_checks=(
        "assert clamp(2, 0, 3) == 2",
        "assert clamp(0, 0, 3) == 0",
        "assert clamp(3, 0, 3) == 3",
        "assert clamp(9, 1, 4) == 4",
        "assert clamp(-9, -3, 4) == -3",
        "assert clamp(7, 7, 7) == 7",
    ),
)


class SimulatedModels:
    """Draws answers; the same requests in the same order get the same ones."""

    def __init__(self, problems: tuple[Problem, ...], *, seed: int = SEED) -> None:
        self._by_prompt = {problem.prompt.strip(): problem for problem in problems}
        self._pools = {problem.id: problem_pool(problem, seed=seed) for problem in problems}
        self._profiles = {profile.model: profile for profile in PROFILES}
        self._seed = seed
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def answers(self, messages: list[dict], model: str, n: int) -> list[str]:
        """`n` messages of the model, each with its program in a code block."""
        said = [str(item.get("content") or "") for item in messages]
        problem = next((self._by_prompt[text.strip()] for text in said if self._known(text)), None)
        if problem is None:
            return ["I know only the tasks that ship with harness."] * n
        with self._lock:
            key = f"{self._seed}/{problem.id}/{model}"
            turn, self._asked[key] = self._asked[key], self._asked[key] + 1
        agent = SimulatedAgent(
            problem,
            self._profiles.get(model, PROFILES[0]),
            pool=self._pools[problem.id],
            rng=random.Random(f"{key}/{turn}"),
        )
        proposals = agent.propose(_state(problem, messages), n)
        return [f"{one.thought}\n\n```python\n{one.code}\n```" for one in proposals]

    def rewind(self) -> None:
        """Draw the same answers again, so that two ways to work can be compared."""
        with self._lock:
            self._asked.clear()

    def is_dangerous(self, task_id: str, program: str) -> bool:
        """Whether the simulator put a danger into a program; no rule is asked."""
        return program.strip() in {one.strip() for one in self._pools[task_id].dangerous}

    def _known(self, text: str) -> bool:
        return text.strip() in self._by_prompt


def _state(problem: Problem, messages: list[dict]) -> AgentState:
    """What was tried so far: programs of the assistant, and what the agent was told of each."""
    attempts = []
    for said, heard in zip(messages[1::2], messages[2::2], strict=False):
        blocks = re.findall(r"```(?:python)?\n(.*?)```", str(said.get("content")), re.DOTALL)
        program = blocks[-1] if blocks else str(said.get("content"))
        told = Feedback(
            n_passed=0, n_total=len(problem.visible_checks), output=str(heard.get("content"))
        )
        attempts.append(Attempt(program=program, feedback=told))
    return start_state(problem).model_copy(update={"history": tuple(attempts)})


def make_app(models: SimulatedModels) -> Starlette:
    """The API: chat completions with `n`, and the list of models."""

    async def complete(request: Request) -> JSONResponse:
        body = await request.json()
        if "harness" in body:  # as a strict API would answer to a field that it does not know
            error = {"message": "Unknown parameter: 'harness'.", "type": "invalid_request_error"}
            return JSONResponse({"error": {**error, "param": "harness", "code": None}}, 400)
        model, n = str(body.get("model")), int(body.get("n") or 1)
        texts = models.answers(body["messages"], model, n)
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "finish_reason": "stop",
                "logprobs": None,
            }
            for index, text in enumerate(texts)
        ]
        asked = sum(len(str(item.get("content"))) for item in body["messages"]) // 4
        said = sum(map(len, texts)) // 4
        usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
        answer = {"id": "chatcmpl-simulated", "object": "chat.completion", "created": 0}
        return JSONResponse({**answer, "model": model, "choices": choices, "usage": usage})

    async def list_models(_: Request) -> JSONResponse:
        known = [{"id": one.model, "object": "model", "created": 0} for one in PROFILES]
        return JSONResponse({"object": "list", "data": known})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", complete, methods=["POST"]),
            Route("/v1/models", list_models),
        ]
    )


def all_problems() -> tuple[Problem, ...]:
    """The tasks that ship with harness, and the one of `agent_loop.py`."""
    return (*load_problems(), CLAMP)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8001)
    port = parser.parse_args().port
    app = make_app(SimulatedModels(all_problems()))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
