"""The stage `sample`: play the simulated agent over our own tasks and write native logs."""

import logging
from collections import Counter
from typing import Any, Final

import orjson

from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.grader import Grader
from harness_core.simulation.config import SampleConfig
from harness_core.simulation.environment import Environment
from harness_core.simulation.generated_checks import write_checks
from harness_core.simulation.problems import load_problems
from harness_core.simulation.runs import Run, play, problem_pool
from harness_core.simulation.writer import FORMAT, log_bytes
from harness_core.stages.dag import GUIDANCE, STAGES, Workspace
from harness_core.stages.report import StageReport
from harness_core.tables import publish_bytes
from harness_core.trajectories.guidance_library import NO_TEMPLATES, load_library

_LOG: Final = logging.getLogger("harness")
_FOLDER: Final = STAGES["sample"].outs[0]


def run(sample: SampleConfig, sandbox: SandboxConfig, workspace: Workspace) -> StageReport:
    """Write `logs.jsonl` and `source.json`.

    Raises:
        IsolationUnavailable: the visible checks cannot be run safely on this machine.
        ParameterError: the guidance templates cannot be used.
    """
    has_guidance = sample.guidance_share > 0
    library = load_library(workspace.path(GUIDANCE)) if has_guidance else NO_TEMPLATES
    problems = load_problems()
    _LOG.info("sample: %d tasks, %d runs each", len(problems), sample.n_runs)
    with open_sandbox(sandbox) as boxes:
        environment = Environment(Grader(boxes, cache=None))
        runs = play(problems, config=sample, environment=environment, library=library)
        pools = {problem.id: problem_pool(problem, seed=sample.seed) for problem in problems}
        generated = write_checks(pools, problems, seed=sample.seed, runner=boxes)
    folder = workspace.path(_FOLDER)
    publish_bytes(folder / "logs.jsonl", log_bytes(runs, generated))
    source = orjson.dumps({"format": FORMAT}, option=orjson.OPT_SORT_KEYS)
    publish_bytes(folder / "source.json", source + b"\n")
    return StageReport(stage="sample", figures=_figures(runs))


def _figures(runs: list[Run]) -> dict[str, Any]:
    turns = [(run, turn) for run in runs for turn in run.turns]
    candidates = [(run.problem.id, item.code) for run, turn in turns for item in turn.proposals]
    guided = Counter(turn.guided.id for _, turn in turns if turn.guided and turn.guided.id)
    return {
        "n_tasks": len({run.problem.id for run in runs}),
        "n_families": len({run.problem.family for run in runs}),
        "n_trajectories": len(runs),
        "n_steps": len(turns),
        "n_candidates": len(candidates),
        "n_distinct_programs": len(set(candidates)),
        "n_steps_guided": dict(sorted(guided.items())),
        "visible_pass_rate": round(sum(run.has_passed for run in runs) / len(runs), 4),
    }
