"""Which intervention of the harness a logged step amounts to, and which are legal in a state.

Logs hold what the agent did, not what the harness asked it for. The mapping reads that off the
action's kind, its tool or command, what came before, and whether that failed; nothing of how the
run ended is looked at. The legal mask is a function of the same past and of what the harness can
do, so that a logged step and a request at run time are judged alike.

A `draft` is the first answer, a `revise` any later one. A `retry` repeats an action word for word,
or calls a tool again right after its call failed. A `test` runs code. A `retrieve` looks something
up or asks the user. The virtual `submit` behind a run is a `submit`.
"""

import re
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from harness_core.trajectories.vocabulary import INTERVENTIONS, ActionKind, Language

_ESCALATES: Final = re.compile(r"transfer|escalat|hand_?off|human", re.IGNORECASE)
_RUNS_CODE: Final = re.compile(
    r"^(?:i?python|bash|shell|terminal|sql|calculate|calculator|exec\w*|run_\w+)\b", re.IGNORECASE
)
_LOOKS_UP: Final = re.compile(
    r"^(?:get|find|search|list|read|look|view|show|fetch|query|check|count|describe|browse|open"
    r"|retrieve)",
    re.IGNORECASE,
)
_LOOK_UP_COMMANDS: Final = {
    Language.SQL: re.compile(r"^\s*(?:show|desc|describe|explain|use|pragma)\b", re.IGNORECASE),
    # `find`, `grep`, `wc` are not among them: in logs of a shell these are mostly the answer.
    Language.SHELL: re.compile(
        r"^\s*(?:ls|pwd|cat|head|tail|man|which|whoami|tree|file|stat|type|help|less|more)\b"
    ),
}


class StepFacts(NamedTuple):
    """What the mapping needs of a step."""

    kind: ActionKind
    text: str = ""
    tool: str = ""
    """Name of the tool that is called; empty when none is."""
    arguments: str = "{}"
    is_error: bool | None = None
    """Whether the environment answered with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """What the harness around the agent can do at one task."""

    language: Language
    has_checks: bool
    """Whether there are checks that the agent may see."""
    tools: frozenset[str] = frozenset()
    may_escalate: bool = False
    attempts_left: int | None = None
    """How often a new attempt may still be asked for; None where nobody counts."""

    @property
    def runs_code(self) -> bool:
        """Whether one of its tools runs code."""
        return any(_RUNS_CODE.search(tool) for tool in self.tools)

    @property
    def looks_up(self) -> bool:
        """Whether there is anything to look things up in."""
        return bool(self.tools) or self.language in _LOOK_UP_COMMANDS


def may_hand_over(tool: str) -> bool:
    """Whether a tool hands the task over to somebody else."""
    return _ESCALATES.search(tool) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What has happened up to a state, as far as interventions go."""

    harness: Harness
    n_steps: int = 0
    n_drafts: int = 0
    n_tests: int = 0
    is_tested: bool = False
    """Whether anything was tested since the last draft or revision."""
    seen: frozenset[tuple[str, ...]] = frozenset()
    failed_tool: str = ""
    """The tool whose call was the last action and failed."""

    def intervention_of(self, step: StepFacts) -> ActionKind:
        """What the harness asked for when the agent took this step."""
        if step.kind in INTERVENTIONS:
            return step.kind
        if step.kind is ActionKind.TOOL_CALL and may_hand_over(step.tool):
            return ActionKind.ESCALATE
        if _key(step) in self.seen or (step.tool and step.tool == self.failed_tool):
            return ActionKind.RETRY
        if self._looks_up(step):
            return ActionKind.RETRIEVE
        if step.kind is ActionKind.TOOL_CALL and _RUNS_CODE.search(step.tool):
            return ActionKind.TEST
        return ActionKind.REVISE if self.n_drafts else ActionKind.DRAFT

    def after(self, step: StepFacts) -> "Situation":
        """The situation once the step has been taken."""
        intervention = self.intervention_of(step)
        is_answer = intervention in (ActionKind.DRAFT, ActionKind.REVISE)
        is_test = intervention is ActionKind.TEST
        return replace(
            self,
            n_steps=self.n_steps + 1,
            n_drafts=self.n_drafts + is_answer,
            n_tests=self.n_tests + is_test,
            is_tested=is_test or (self.is_tested and not is_answer),
            seen=self.seen if step.kind in INTERVENTIONS else self.seen | {_key(step)},
            failed_tool=step.tool if step.is_error else "",
        )

    def legal(self) -> tuple[ActionKind, ...]:
        """The interventions that make sense here, in the order of `ActionKind`."""
        harness = self.harness
        rules = {
            ActionKind.DRAFT: not self.n_drafts,
            ActionKind.TEST: harness.runs_code or (harness.has_checks and self.n_drafts > 0),
            ActionKind.REVISE: self.n_drafts > 0,
            ActionKind.RETRIEVE: harness.looks_up,
            ActionKind.RETRY: self.n_steps > 0 and harness.attempts_left != 0,
            # What code printed can be handed in, too.
            ActionKind.SUBMIT: self.n_drafts + self.n_tests > 0,
            ActionKind.ESCALATE: harness.may_escalate,
        }
        return tuple(kind for kind in ActionKind if rules.get(kind))

    def _looks_up(self, step: StepFacts) -> bool:
        language = self.harness.language
        if step.kind is ActionKind.TOOL_CALL:
            return _LOOKS_UP.search(step.tool) is not None
        if step.kind is ActionKind.CODE:
            command = _LOOK_UP_COMMANDS.get(language)
            return command is not None and command.search(step.text) is not None
        # A service agent that asks its user wants to know something.
        return language is Language.TOOLS and "?" in step.text


def _key(step: StepFacts) -> tuple[str, ...]:
    return (step.kind.value, step.tool, " ".join(step.text.split()), step.arguments)
