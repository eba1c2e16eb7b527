"""The interface of an agent that writes programs: what it sees and what it proposes.

A live agent and the simulated one conform to it alike, so that a controller can be measured with
either of them in a closed loop.
"""

from typing import Protocol

from pydantic import Field

from harness_core.records import Record


class Feedback(Record):
    """What the visible checks said about a program."""

    n_passed: int = Field(ge=0)
    n_total: int = Field(ge=0)
    output: str

    @property
    def all_passed(self) -> bool:
        """Whether no visible check is left to pass."""
        return self.n_passed == self.n_total


class Attempt(Record):
    """A program that was tried, and what came back."""

    program: str
    feedback: Feedback


class Guidance(Record):
    """A template that was put before the prompt."""

    id: str
    text: str


class AgentState(Record):
    """All that an agent may know when it acts."""

    task_id: str
    prompt: str
    entry_point: str
    visible_checks: tuple[str, ...]
    history: tuple[Attempt, ...] = ()
    guidance: Guidance | None = None
    """What the harness says before the prompt. A live agent reads the text; the simulated one
    responds to the id (`simulation.responses`)."""


class Proposal(Record):
    """One candidate action."""

    thought: str
    code: str
    """A complete program."""
    n_tokens: int = Field(ge=0)
    """Completion tokens of thought and code."""


class Agent(Protocol):
    """Something that proposes programs."""

    @property
    def name(self) -> str:
        """Name of the agent: the scaffold, not the model."""
        ...

    @property
    def version(self) -> str:
        """Version of the agent."""
        ...

    @property
    def model(self) -> str:
        """Name of the model behind it."""
        ...

    def propose(self, state: AgentState, k: int) -> list[Proposal]:
        """Exactly `k` candidate actions for a state; equal ones may occur."""
        ...
