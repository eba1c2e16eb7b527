"""The closed word lists of a trajectory."""

from enum import StrEnum


class ActionKind(StrEnum):
    """What an action is. The interventions carry no text: they steer the harness."""

    CODE = "code"
    MESSAGE = "message"
    TOOL_CALL = "tool_call"
    DRAFT = "draft"
    TEST = "test"
    REVISE = "revise"
    RETRIEVE = "retrieve"
    RETRY = "retry"
    SUBMIT = "submit"
    ESCALATE = "escalate"


INTERVENTIONS: frozenset[ActionKind] = frozenset(
    {
        ActionKind.DRAFT,
        ActionKind.TEST,
        ActionKind.REVISE,
        ActionKind.RETRIEVE,
        ActionKind.RETRY,
        ActionKind.SUBMIT,
        ActionKind.ESCALATE,
    }
)


class Language(StrEnum):
    """What the text of a task's answer is written in; decides which rules and graders apply."""

    PYTHON = "python"
    RUST = "rust"
    SQL = "sql"
    SHELL = "shell"
    TOOLS = "tools"
    TEXT = "text"


class GroupKind(StrEnum):
    """What the candidates of a decision group are."""

    ATTEMPT = "attempt"
    """Complete attempts at one task; one of them is submitted."""
    STEP = "step"
    """Actions proposed for one state of one trajectory; one of them is taken."""


class Split(StrEnum):
    """Which part of the tasks a task belongs to; never a property of a row."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"
