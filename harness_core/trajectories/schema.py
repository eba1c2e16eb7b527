"""What is recorded of an agent: trajectories, their steps, and the tasks they work on.

A superset of ATIF v1.8. Hidden outcomes stand in `Outcome`, `Step.logged_reward`, and in
`TaskSpec.hidden_checks` and `TaskSpec.reference`, and nowhere else: rewards and labels may read
them, features and run-time decisions may not.
"""

import hashlib
from typing import Annotated, Any, Self

import orjson
from pydantic import Field, model_validator

from harness_core.records import Record
from harness_core.trajectories.vocabulary import ActionKind, Language

FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
JsonObject = dict[str, Any]


class TaskRef(Record):
    """The task of a trajectory; `task_id` is canonical (`HumanEval/3` in every source)."""

    task_id: str = Field(min_length=1)
    family: str = Field(min_length=1)
    description: str
    initial_state: str = ""
    """What the agent had before its first step: a code skeleton, a database name, …"""


class Agent(Record):
    """Who acted. `name` and `model` together are what the agent prior is estimated for."""

    name: str = Field(min_length=1)
    version: str = ""
    model: str = ""


class Action(Record):
    """One action: a word of the closed list and free text (code, message, tool call)."""

    kind: ActionKind
    text: str = ""
    arguments: JsonObject = Field(default_factory=dict)
    """For a tool call: `{"name": tool, "arguments": {...}}`, the fields its text is made of."""


class Candidate(Record):
    """One of the K actions that were proposed for a state."""

    action: Action
    propensity: float | None = Field(default=None, ge=0, le=1)


class Usage(Record):
    """What a step cost."""

    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Step(Record):
    """What the agent saw, then the action it took, then what came back."""

    index: int = Field(ge=0)
    observation: str = ""
    """What the agent saw before it acted (beyond the previous step's `result`)."""
    thought: str = ""
    action: Action
    result: str = ""
    """What the environment answered: tool output, visible-test feedback. Seen at run time."""
    is_error: bool | None = None
    """Whether the environment said that the action was invalid or failed; None if it is silent."""
    usage: Usage = Usage()
    logged_reward: FiniteFloat | None = None
    """A graded reward of the log. Hidden: never a feature."""
    candidates: tuple[Candidate, ...] = ()
    """All actions proposed for this state, the taken one among them; empty if not recorded."""
    chosen_index: int | None = Field(default=None, ge=0)
    propensity: float | None = Field(default=None, ge=0, le=1)
    """Probability that the behaviour policy gave the action taken."""
    decision_id: str | None = None

    @model_validator(mode="after")
    def _chosen_is_a_candidate(self) -> Self:
        if self.candidates:
            if self.chosen_index is None or self.chosen_index >= len(self.candidates):
                raise ValueError("chosen_index must name one of the candidates")
            if self.candidates[self.chosen_index].action != self.action:
                raise ValueError("the action taken differs from candidates[chosen_index]")
        return self


class Outcome(Record):
    """How it ended, as far as the log knows. Hidden: rewards and labels only."""

    success: bool | None = None
    score: FiniteFloat | None = None
    """A graded result in [0, 1] where the source has one."""
    n_tests_passed: int | None = Field(default=None, ge=0)
    n_tests_total: int | None = Field(default=None, ge=0)


class Provenance(Record):
    """Where a trajectory came from; no time and no absolute path, so that data are reproducible."""

    importer: str
    source: str
    """Name of the landed source, the folder below `data/raw/`."""
    path: str
    """File inside the source folder."""
    source_sha256: str
    line: int = Field(ge=1)
    """Line (JSON Lines) or record number, from 1."""


class Trajectory(Record):
    """One recorded run of an agent on one task."""

    task: TaskRef
    agent: Agent
    steps: tuple[Step, ...] = Field(min_length=1)
    outcome: Outcome = Outcome()
    terminated: bool
    """The task ended the run."""
    truncated: bool
    """A budget cut the run off. Exactly one of the two is true."""
    provenance: Provenance
    extra: JsonObject = Field(default_factory=dict)
    """What the source said and the schema has no field for."""

    @model_validator(mode="after")
    def _is_coherent(self) -> Self:
        if self.terminated == self.truncated:
            raise ValueError("exactly one of terminated and truncated must be true")
        if [step.index for step in self.steps] != list(range(len(self.steps))):
            raise ValueError("step indices must run 0, 1, 2, … without gaps")
        return self

    @property
    def trajectory_id(self) -> str:
        """Digest of the canonical content: the same run has the same id wherever it was read."""
        content = self.model_dump(mode="json", exclude={"provenance"})
        content["source"] = self.provenance.source
        canonical = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(canonical).hexdigest()[:32]


class TaskSpec(Record):
    """What is known of a task apart from any attempt at it."""

    task_id: str = Field(min_length=1)
    source: str = Field(min_length=1)
    family: str = Field(min_length=1)
    description: str
    initial_state: str = ""
    language: Language
    entry_point: str | None = None
    """Name of the function or class that the checks call."""
    visible_checks: tuple[str, ...] = ()
    """Python assert statements that the agent may see."""
    generated_checks: tuple[str, ...] = ()
    """Assert statements that a model wrote, most frequent first; many are wrong."""
    hidden_checks: tuple[str, ...] = ()
    """Assert statements, or one program that defines `check(candidate)`. Hidden."""
    reference: str | None = None
    """A complete program that solves the task. Hidden."""
