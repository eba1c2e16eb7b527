"""What simulated agents propose for tasks under a seed, and what is true of each proposal.

All ways to pick see the same proposals; programs are graded once for all of them, in the sandbox.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from harness_core.evaluation.metrics import Doubles
from harness_core.features.batch import Flags
from harness_core.sandbox.grader import GradeJob
from harness_core.sandbox.result import CheckStatus
from harness_core.simulation.agent import AgentState, Proposal
from harness_core.simulation.environment import Environment, Grading, Submission
from harness_core.simulation.generated_checks import Runner, write_checks
from harness_core.simulation.problems import Problem
from harness_core.simulation.runs import (
    guided_state,
    problem_pool,
    simulated_agent,
    start_state,
)
from harness_core.simulation.simulated_agent import SimulatedAgent
from harness_core.trajectories.guidance import Guided, with_guidance
from harness_core.trajectories.guidance_library import GuidanceTemplate
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import ActionKind, Language

_LOG: Final = logging.getLogger("harness")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one agent proposed for a task, and what is true of it; K proposals, G written checks."""

    problem: Problem
    seed: int
    agent: str
    model: str
    proposals: tuple[Proposal, ...]
    written_checks: tuple[str, ...]
    solved: Doubles  # [K] 1 where all hidden checks pass
    dangerous: Doubles  # [K] 1 where the simulator put a danger in
    visible: Doubles  # [K] share of visible checks passed
    written: Flags  # [K, G] which checks that simulated models wrote pass
    template_id: str | None = None
    """The guidance that the proposals were made under."""
    right_rate: float = float("nan")
    """Probability that a proposal is drawn from the right programs. Nobody who chooses knows it."""

    @property
    def actions(self) -> list[Action]:
        """The proposals as the hard filter sees them."""
        return [Action(kind=ActionKind.CODE, text=item.code) for item in self.proposals]

    @property
    def request(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """State and candidates as a caller of the controller gives them before anything is run."""
        problem = self.problem
        state = {
            "task_id": problem.id,
            "description": problem.prompt,
            "initial_state": problem.skeleton,
            "language": Language.PYTHON.value,
            "entry_point": problem.entry_point,
            "visible_checks": problem.visible_checks,
            "generated_checks": self.written_checks,
            "agent": {"name": self.agent, "model": self.model},
        }
        # Which template was drawn counts, not how likely it was.
        guided = None if self.template_id is None else Guided(id=self.template_id, propensity=1.0)
        told = {"kind": "code", "arguments": with_guidance({}, guided)}
        return state, [{**told, "text": item.code} for item in self.proposals]


def play_rounds(
    problems: Sequence[Problem],
    *,
    seed: int,
    turn: int,
    k: int,
    grader: Grading,
    runner: Runner,
    templates: Sequence[GuidanceTemplate | None] = (None,),
) -> list[Round]:
    """K proposals for the first state of each task, judged.

    Args:
        problems: the tasks.
        seed: decides pools, agents, and the checks that simulated models write.
        turn: whose turn it is; models take turns, so that each meets every task.
        k: proposals a task and template.
        grader: gives verdicts; what it is asked stays hidden from whoever picks.
        runner: runs the programs that write checks.
        templates: guidance to propose under, each by an agent with the same luck; None for none.

    Returns:
        Task by task, the templates of each in the order given.
    """
    _LOG.info("closed-loop: %d tasks, seed %d", len(problems), seed)
    pools = {problem.id: problem_pool(problem, seed=seed) for problem in problems}
    checks = write_checks(pools, problems, seed=seed, runner=runner)
    scenes = [
        _Scene(
            problem,
            template,
            simulated_agent(problem, number=turn, seed=seed, pool=pools[problem.id]),
        )
        for problem in problems
        for template in templates
    ]
    proposals = [scene.agent.propose(scene.state, k) for scene in scenes]
    submissions = [
        Submission(scene.problem, item.code)
        for scene, items in zip(scenes, proposals, strict=True)
        for item in items
    ]
    environment = Environment(grader)
    solved = np.array(environment.judge(submissions), dtype=np.float64).reshape(-1, k)
    feedback = environment.test(submissions)
    visible = np.array([item.n_passed / item.n_total for item in feedback]).reshape(-1, k)
    written = _written(submissions, checks, grader)
    return [
        Round(
            problem=scene.problem,
            seed=seed,
            agent=scene.agent.name,
            model=scene.agent.model,
            proposals=tuple(proposals[place]),
            written_checks=checks[scene.problem.id],
            solved=solved[place],
            dangerous=np.array([float(item.code in dangers) for item in proposals[place]]),
            visible=visible[place],
            written=np.array(written[place * k : place * k + k], dtype=np.bool_).reshape(k, -1),
            template_id=None if scene.template is None else scene.template.id,
            right_rate=scene.agent.right_rate(scene.state),
        )
        for place, scene in enumerate(scenes)
        for dangers in [pools[scene.problem.id].dangerous]
    ]


class _Scene(NamedTuple):
    """An agent before a task."""

    problem: Problem
    template: GuidanceTemplate | None
    agent: SimulatedAgent

    @property
    def state(self) -> AgentState:
        return guided_state(start_state(self.problem), self.template)


def _written(
    submissions: Sequence[Submission], checks: Mapping[str, tuple[str, ...]], grader: Grading
) -> list[list[bool]]:
    """Which of its task's written checks each program passes."""
    jobs = [
        GradeJob(item.program, item.problem.entry_point, checks[item.problem.id])
        for item in submissions
    ]
    distinct = [job for job in dict.fromkeys(jobs) if job.checks]
    verdicts = dict(zip(distinct, grader.grade(distinct), strict=True))
    return [
        [status is CheckStatus.PASSED for status in verdicts[job].checks] if job.checks else []
        for job in jobs
    ]
