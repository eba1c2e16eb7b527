"""The whole circle in one command: `make demo`, ten minutes on two cores.

1. A few sample logs of the simulated agent; a controller learns from them and is registered.
2. The agent works alone, straight against the (simulated) model.
3. The same agent with another `base_url`: the proxy asks for K candidates and answers the best.
4. The agent goes on working on all tasks behind the proxy and reports what its tests said.
5. The decision log is read as logs, the controller learns again, and the gate judges it.
6. The agent behind the proxy once more, with whoever is champion now.

Tasks of 2, 3 and 6 are those of the frozen test slice: no controller learns from them, even where
their decisions are in the log.
"""

import argparse
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from agent_loop import DECISION, ROOT, report_outcome
from openai import OpenAI
from rich.console import Console
from rich.table import Table
from simulated_upstream import SimulatedModels, make_app

from harness_core.controller.manifest import read_manifest
from harness_core.params import load_params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.grader import Grader
from harness_core.serving.conversation import program_in
from harness_core.simulation.environment import Environment, Submission
from harness_core.simulation.problems import Problem, load_problems
from harness_core.simulation.profiles import PROFILES

FEW = ("sample.n_runs=2",)
"""A team that starts with few logs; with more of them there is less to be learnt in part five."""
MANY = ("ingest.max_controller_share=0.8",)
"""And most of what comes later is the controller's own work."""
MODELS = tuple(profile.model for profile in PROFILES)
say = Console(stderr=True).print


@dataclass(frozen=True)
class Answer:
    """A first program for a task."""

    problem: Problem
    program: str
    decision_id: str | None
    solved: bool = False


def main() -> None:
    """Run the circle and print both tables and the verdict."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workdir", type=Path, default=ROOT / "data" / "demo")
    parser.add_argument("--rounds", type=int, default=4, help="Times that each task is asked.")
    parser.add_argument("--work", type=int, default=3, help="Times in the fourth part.")
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], help="section.key=value"
    )
    arguments = parser.parse_args()
    workdir: Path = arguments.workdir.resolve()
    workdir.mkdir(parents=True, exist_ok=True)
    log = workdir / "decisions"
    logging.getLogger("harness").setLevel(logging.WARNING)

    say("[bold]1. A controller learns from a few sample logs")
    few = flags([*FEW, *arguments.overrides])
    first = harness("flywheel", "--workdir", workdir, *few)
    say(f"   {first['summary']}")

    problems = load_problems()
    unseen = tuple(item for item in problems if item.id not in learnt_from(workdir))
    models = SimulatedModels(problems)
    measured: dict[str, list[Answer]] = {}
    with ExitStack() as stack:
        environment = stack.enter_context(opened_environment(workdir))
        upstream = stack.enter_context(serving(models))

        def measure(name: str, base_url: str, session: str | None) -> None:
            models.rewind()  # the same draws each time; the agent's own is the first of K
            answers = ask(base_url, unseen, arguments.rounds, session)
            measured[name] = judged(environment, answers)

        say(f"[bold]2. The agent alone, {len(unseen)} tasks that the controller never sees")
        measure("alone", upstream, None)
        say("[bold]3. The same agent, with the proxy as its base_url")
        with proxied(upstream, workdir, log, k=arguments.k) as proxy:
            measure("proxy", proxy, "measured")
            say(f"[bold]4. It goes on: all {len(problems)} tasks, with outcomes of its tests")
            worked = judged(environment, ask(proxy, problems, arguments.work, "production"))
            for answer in (*measured["proxy"], *worked):
                if answer.decision_id:
                    report_outcome(proxy, answer.decision_id, success=answer.solved)
        say("[bold]5. The decision log comes back as logs; the controller learns again")
        again = harness(
            *("flywheel", "--workdir", workdir, *flags(MANY), *few),
            *("--source", workdir / "data" / "raw" / "sample", "--format", "native"),
            *("--source", log, "--format", "decisions"),
        )
        say(f"   {again['summary']}")
        for reason in again["reasons"]:
            say(f"   - {reason}")
        state = "is the champion now" if again["promoted"] else "is registered, not promoted"
        say(f"   Model version {again['model_version']} {state}.")
        say("[bold]6. The agent behind the proxy, with the champion of now")
        with proxied(upstream, workdir, log, k=arguments.k) as proxy:
            measure("proxy_again", proxy, "measured again")
    show(models, measured)
    print(
        json.dumps(
            {
                "n_tasks": len(unseen),
                "n_answers": len(measured["alone"]),
                "first_pass": {name: share(answers) for name, answers in measured.items()},
                "n_dangerous": {
                    name: dangers(models, answers) for name, answers in measured.items()
                },
                "n_decisions_learnt_from": len(measured["proxy"]) + len(worked),
                "promoted": again["promoted"],
                "model_version": again["model_version"],
            },
            indent=2,
        )
    )


def show(models: SimulatedModels, measured: dict[str, list[Answer]]) -> None:
    """The ways to work side by side."""
    table = Table("", "alone", "behind the proxy", "after learning from it")
    table.add_row("first answers right", *map(rate, measured.values()))
    counts = [dangers(models, answers) for answers in measured.values()]
    table.add_row("dangerous first answers", *map(str, counts))
    say(table)


def ask(
    base_url: str, problems: Sequence[Problem], rounds: int, session: str | None
) -> list[Answer]:
    """First answers to every task from every model; `session` is None where no controller is."""
    work = [(number, problem) for number in range(rounds) for problem in problems]
    with OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        return [_ask_once(client, problem, number, session) for number, problem in work]


def _ask_once(client: OpenAI, problem: Problem, number: int, session: str | None) -> Answer:
    known = {
        "task_id": problem.id,
        "session_id": f"{session}/{problem.id}/{number}",
        "language": "python",
        "entry_point": problem.entry_point,
        "visible_checks": list(problem.visible_checks),
    }
    raw = client.chat.completions.with_raw_response.create(
        model=MODELS[(number + len(problem.id)) % len(MODELS)],
        messages=[{"role": "user", "content": problem.prompt}],
        extra_body=None if session is None else {"harness": known},
    )
    text = raw.parse().choices[0].message.content or ""
    return Answer(problem, program_in(text, problem.entry_point), raw.headers.get(DECISION))


def judged(environment: Environment, answers: Sequence[Answer]) -> list[Answer]:
    """The answers with what the hidden tests say; neither agent nor controller sees those."""
    solved = environment.judge([Submission(one.problem, one.program) for one in answers])
    return [
        Answer(one.problem, one.program, one.decision_id, solved=passed)
        for one, passed in zip(answers, solved, strict=True)
    ]


def dangers(models: SimulatedModels, answers: Sequence[Answer]) -> int:
    """Answers into which the simulator had put a danger."""
    return sum(models.is_dangerous(one.problem.id, one.program) for one in answers)


def rate(answers: Sequence[Answer]) -> str:
    """Share of solved ones in words."""
    n = sum(one.solved for one in answers)
    return f"{n} of {len(answers)} ({n / len(answers):.0%})"


def share(answers: Sequence[Answer]) -> float:
    """Share of solved ones."""
    return sum(one.solved for one in answers) / len(answers)


def learnt_from(workdir: Path) -> frozenset[str]:
    """Tasks that the champion has seen."""
    return frozenset(read_manifest(workdir / "data" / "models" / "candidate").development_tasks)


def harness(*arguments: object) -> dict:
    """The JSON of a command; its progress goes to our standard error."""
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def flags(overrides: Sequence[str]) -> list[str]:
    """`--set` for each."""
    return [part for item in overrides for part in ("--set", item)]


@contextmanager
def opened_environment(workdir: Path) -> Iterator[Environment]:
    """Where programs are judged, isolated."""
    with open_sandbox(load_params(workdir / "params.yaml").sandbox) as boxes:
        yield Environment(Grader(boxes, cache=None))


@contextmanager
def serving(models: SimulatedModels) -> Iterator[str]:
    """The simulated models behind an address of this machine."""
    config = uvicorn.Config(make_app(models), host="127.0.0.1", port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/v1"
    server.should_exit = True
    thread.join()


@contextmanager
def proxied(upstream: str, workdir: Path, log: Path, *, k: int) -> Iterator[str]:
    """`harness proxy` before the upstream, as its owner starts it."""
    options = {
        "--upstream": upstream.removesuffix("/v1"),
        "--model": "champion",
        "--mode": "rerank",
        "--k": k,
        "--budget-ms": 10_000,
        "--port": 0,
        "--log": log,
        "--workdir": workdir,
    }
    words = [str(part) for pair in options.items() for part in pair]
    command = [sys.executable, "-m", "flows.cli", "--quiet", "proxy", "--run-programs", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield json.loads(process.stdout.readline())["base_url"]
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
