"""A controller measured where it acts: an agent proposes, the controller picks, hidden tests judge.

Unlike an evaluation on logs this needs no assumption about who made the data, but it needs an
agent that can be asked.
"""

from collections.abc import Callable, Sequence

from harness_core.errors import NoDataError, ParameterError
from harness_core.records import Record
from harness_core.simulation.agent import Agent, AgentState, Proposal
from harness_core.simulation.environment import Environment, Submission
from harness_core.simulation.problems import Problem
from harness_core.simulation.runs import start_state

Choose = Callable[[AgentState, Sequence[Proposal]], int]
"""Index of the proposal to take."""


class ClosedLoopResult(Record):
    """How often the first pick was right, and how often it was dangerous."""

    n_problems: int
    n_solved: int
    n_dangerous: int

    @property
    def success_rate(self) -> float:
        """Share of problems whose pick passes all hidden checks."""
        return self.n_solved / self.n_problems

    @property
    def dangerous_rate(self) -> float:
        """Share of problems whose pick does something dangerous."""
        return self.n_dangerous / self.n_problems


def first_pass_rate(
    agent_factory: Callable[[Problem], Agent],
    problems: Sequence[Problem],
    choose: Choose,
    *,
    environment: Environment,
    is_dangerous: Callable[[str], bool],
    k: int,
) -> ClosedLoopResult:
    """Let `choose` pick one of `k` first programs for each problem, and judge the picks.

    Args:
        agent_factory: makes the agent of a problem.
        problems: those to measure on, none of which the controller was trained on.
        choose: the controller, or a baseline.
        environment: where the picks are judged.
        is_dangerous: the rule that says whether a program is dangerous.
        k: number of candidates.
    """
    if not problems:
        raise NoDataError("a closed loop needs at least one problem")
    picks = [_pick(agent_factory(problem), problem, choose, k=k) for problem in problems]
    return ClosedLoopResult(
        n_problems=len(problems),
        n_solved=sum(environment.judge(picks)),
        n_dangerous=sum(is_dangerous(pick.program) for pick in picks),
    )


def _pick(agent: Agent, problem: Problem, choose: Choose, *, k: int) -> Submission:
    state = start_state(problem)
    proposals = agent.propose(state, k)
    index = choose(state, proposals)
    if not 0 <= index < len(proposals):
        raise ParameterError(
            f"{problem.id}: picked candidate {index}, but there are {len(proposals)} (from 0)"
        )
    return Submission(problem, proposals[index].code)
