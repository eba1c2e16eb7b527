"""What is asked of the controller, read once: a state, its candidates, and what they are."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from harness_core.errors import ParameterError
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import ActionKind, Language

_DEFAULT_KIND: Final = {Language.PYTHON: "code", Language.TOOLS: "tool_call"}


class SelectRequest(NamedTuple):
    """One question to `Controller.select_many`; the fields are the arguments of `select`."""

    state: Mapping[str, Any]
    candidates: Sequence[Mapping[str, Any]]
    goal: Mapping[str, float] | None = None


class SteerRequest(NamedTuple):
    """One question to `Controller.steer_many`; the fields are the arguments of `steer`."""

    state: Mapping[str, Any]
    legal: Sequence[str] | None = None


class ReadRequest(NamedTuple):
    """A request that makes sense."""

    state: Mapping[str, Any]
    language: Language
    candidates: tuple[dict[str, Any], ...]
    """As given, with a `kind` each."""
    actions: tuple[Action, ...]
    goal: Mapping[str, float] | None


def read_request(request: SelectRequest) -> ReadRequest:
    """Check a request and fill in what may be left out.

    Raises:
        ParameterError: no candidate, one without text, or an unknown word.
    """
    if not request.candidates:
        raise ParameterError("candidates: expected at least one")
    language = language_of(request.state.get("language") or Language.TEXT.value)
    candidates = tuple(complete(candidate, language) for candidate in request.candidates)
    return ReadRequest(
        state=request.state,
        language=language,
        candidates=candidates,
        actions=tuple(map(action_of, candidates)),
        goal=request.goal,
    )


def language_of(name: str) -> Language:
    """The language of a state.

    Raises:
        ParameterError: there is none of this name.
    """
    try:
        return Language(name)
    except ValueError as error:
        known = ", ".join(language.value for language in Language)
        raise ParameterError(f"state.language: {name!r} is none of {known}") from error


def complete(candidate: Mapping[str, Any], language: Language) -> dict[str, Any]:
    """A candidate with the kind that its language suggests, if it names none.

    Raises:
        ParameterError: it has no text.
    """
    if not isinstance(candidate.get("text"), str):
        raise ParameterError("candidates: each needs a `text` (a string)")
    return {"kind": _DEFAULT_KIND.get(language, "message"), **candidate}


def action_of(candidate: Mapping[str, Any]) -> Action:
    """The action that a complete candidate proposes.

    Raises:
        ParameterError: its kind is no known word.
    """
    try:
        kind = ActionKind(candidate["kind"])
    except ValueError as error:
        known = ", ".join(word.value for word in ActionKind)
        raise ParameterError(
            f"candidates: kind {candidate['kind']!r} is none of {known}"
        ) from error
    return Action(kind=kind, text=candidate["text"], arguments=candidate.get("arguments") or {})
