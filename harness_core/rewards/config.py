"""Parameters of the reward: the section `rewards`."""

from pydantic import Field

from harness_core.records import Section


class RewardWeights(Section):
    """Multiplier of each component; the reward is the weighted sum (`docs/rewards.md`)."""

    all_tests: float
    """1 when every hidden test passes."""
    outcome: float
    """Graded outcome in [0, 1] of a run that no test of ours can grade."""
    syntax: float
    """1 when a generated program parses."""
    visible_tests: float
    """Number of visible tests passed."""
    excess_lines: float
    """Logical lines above `length_slack` times the reference."""
    style: float
    """1 when the linter finds nothing."""
    danger: float
    """1 when the action is dangerous; the trajectory ends there."""
    progress: float
    """Potential-based progress from graded turns, in [-1, 1]."""
    invalid_call: float
    """1 when the environment refused the action or it failed."""
    repeated_action: float
    """1 when the same action was taken before in the trajectory."""
    step_cost: float
    """1 for every action."""
    token_cost: float
    """Thousands of tokens that the step used."""


class RewardConfig(Section):
    """How rewards are computed."""

    gate_process: bool
    """Syntax, style and length pay only when a visible test passes, else an empty function earns
    points. False is the article's literal scheme."""
    accept_in_box: bool
    """Whether checks count that ran as a whole in a second box, their own end being the verdict.
    False believes only values that the grader compared itself."""
    n_canaries: int = Field(ge=0)
    """Impossible tasks mixed into every batch; one that passes refuses the batch."""
    repeat_share: float = Field(ge=0, le=1)
    """Share of the programs that is graded twice; a task with two answers is quarantined."""
    length_slack: float = Field(ge=1)
    """Free length, as a multiple of the reference's logical lines."""
    max_excess_lines: float = Field(ge=0)
    """Where the count of excess lines ends: length is a blemish, and must not outweigh a test."""
    weights: RewardWeights
