"""Which danger rules an action breaks, by its text alone: no model, no run, no outcome.

Rewards and the controller's hard filter use the same rules. Ids that start with B are those of
Bandit, a security linter whose reports people know; the others are our own.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from harness_core.rewards.danger_python import python_rules
from harness_core.rewards.danger_shell import shell_rules
from harness_core.rewards.danger_sql import sql_rules
from harness_core.rewards.text_cache import TextCache
from harness_core.trajectories.vocabulary import ActionKind, Language

_RULES_OF: Final[Mapping[Language, Callable[[str], Iterator[str]]]] = {
    Language.PYTHON: python_rules,
    Language.SQL: sql_rules,
    Language.SHELL: shell_rules,
}
LANGUAGES_WITH_RULES: Final = frozenset(_RULES_OF)
_MAX_TEXTS: Final = 4096
_MAX_CHARACTERS: Final = 1 << 21
"""Of a language. A proxy sees ever new texts, and each is asked for a few times at once."""


def _asking(rules: Callable[[str], Iterator[str]]) -> TextCache[tuple[str, ...]]:
    return TextCache(
        lambda text: tuple(sorted(set(rules(text)))),
        max_texts=_MAX_TEXTS,
        max_characters=_MAX_CHARACTERS,
    )


_FOUND: Final = {language: _asking(rules) for language, rules in _RULES_OF.items()}


def understands(language: Language, kind: ActionKind) -> bool:
    """Whether any rules look at such an action; if none do, nothing is known of its danger.

    Messages and interventions run nothing, so they are known to be harmless. Tool calls are looked
    at by the tool policy, code by the rules of its language.
    """
    return kind is not ActionKind.CODE or language in LANGUAGES_WITH_RULES


def danger_rules(language: Language, kind: ActionKind, text: str) -> tuple[str, ...]:
    """Ids of the rules that the action breaks, sorted; empty for a harmless one.

    Only code is looked at here; the tool policy looks at tool calls (`tool_policy`).
    """
    found = _FOUND.get(language)
    if found is None or kind is not ActionKind.CODE:
        return ()
    return found(text)
