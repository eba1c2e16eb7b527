"""What an action looks like, as a vector of fixed width: length, syntax, keywords, arguments.

Slots are shared between languages where they mean the same; slots of another language are zero.
Counts come as log(1 + n).
"""

import math
import re
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import orjson

from harness_core.features.ascii_text import Counts, counts_of
from harness_core.features.batch import Floats
from harness_core.features.contents import ActionContent, TaskContent
from harness_core.features.program_summary import PROGRAM_NAMES, program_summary
from harness_core.trajectories.guidance import ARGUMENT as GUIDANCE
from harness_core.trajectories.guidance import guidance_of
from harness_core.trajectories.vocabulary import ActionKind, Language

_MAX_CHARS: Final = 20_000
_MAX_KEPT: Final = 128
_MAX_KEPT_CHARS: Final = 1 << 16
"""Of a longer step nothing is remembered: what is kept of a step holds its texts."""
_N_TOOL_BUCKETS: Final = 8
_N_GUIDANCE_BUCKETS: Final = 16
_MIN_VALUE_CHARS: Final = 3
"""Shorter argument values are found in any text by chance."""

_TEXT_NAMES: Final = (
    "is_empty",
    "n_chars",
    "n_lines",
    "n_words",
    "n_numbers",
    "digit_share",
    "upper_share",
    "symbol_share",
    "asks",
    "apologises",
    "has_fence",
    "has_quote",
)
_SQL_WORDS: Final = (
    *("select", "join", "left join", "group by", "order by", "limit", "distinct", "having"),
    *("count", "sum", "avg", "max", "min", "union", "intersect", "except", "not in", "in", "like"),
    *("between", "exists", "where", "as", "desc", "asc", "and", "or", "is null", "case", "show"),
    *("describe", "insert", "update", "delete", "drop", "create"),
)
_SQL_NAMES: Final = (
    *(f"sql_{word.replace(' ', '_')}" for word in _SQL_WORDS),
    "sql_n_tables",
    "sql_n_conditions",
    "sql_n_columns",
    "sql_is_nested",
    "sql_selects_all",
)
_SHELL_NAMES: Final = (
    "shell_n_commands",
    "shell_n_pipes",
    "shell_n_flags",
    "shell_n_redirects",
    "shell_n_substitutions",
    "shell_reads",
    "shell_searches",
    "shell_changes",
)
_TOOL_NAMES: Final = (
    *(f"tool_bucket_{bucket}" for bucket in range(_N_TOOL_BUCKETS)),
    "tool_n_arguments",
    "tool_n_values",
    "tool_seen_share",
    "tool_unseen_values",
    "tool_depth",
)
_GUIDANCE_NAMES: Final = (
    "is_guided",
    *(f"guidance_bucket_{bucket}" for bucket in range(_N_GUIDANCE_BUCKETS)),
)

SUMMARY: Final[tuple[str, ...]] = (
    *_TEXT_NAMES,
    *(f"program_{name}" for name in PROGRAM_NAMES),
    *_SQL_NAMES,
    *_SHELL_NAMES,
    *_TOOL_NAMES,
    *_GUIDANCE_NAMES,
)
"""Names of the columns of `summarise`, in order."""

_PROGRAM: Final = slice(len(_TEXT_NAMES), len(_TEXT_NAMES) + len(PROGRAM_NAMES))
_INDEX: Final = {name: column for column, name in enumerate(SUMMARY)}
_WORD: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"\d+")
_APOLOGIES: Final = ("sorry", "apolog", "unfortunately", "unable", "cannot", "can't")
_APOLOGY: Final = re.compile(rf"\b(?:{'|'.join(_APOLOGIES)})", re.IGNORECASE)
_SQL_PATTERNS: Final = {
    f"sql_{word.replace(' ', '_')}": re.compile(r"\b" + word.replace(" ", r"\s+") + r"\b")
    for word in _SQL_WORDS
}
_SQL_TABLE: Final = re.compile(r"\b(?:from|join)\s+[`\"\w.]+")
_SQL_CONDITION: Final = re.compile(r"<=|>=|<>|!=|=|<|>|\blike\b|\bin\b|\bbetween\b")
_SHELL_READS: Final = re.compile(r"\b(?:cat|ls|head|tail|less|wc|stat|du|df|file|pwd|echo)\b")
_SHELL_SEARCHES: Final = re.compile(r"\b(?:find|grep|awk|sed|sort|uniq|cut|xargs|locate)\b")
_SHELL_CHANGES: Final = re.compile(
    r"\b(?:rm|mv|cp|mkdir|rmdir|touch|chmod|chown|tar|gzip|ln|tee)\b"
)


def summarise(action: ActionContent, task: TaskContent, *, seen: str) -> Floats:
    """The summary of an action, [len(SUMMARY)]; `seen` is what the agent was shown before it."""
    is_long = len(action.text) + len(seen) > _MAX_KEPT_CHARS
    return _summary.__wrapped__(action, task, seen) if is_long else _summary(action, task, seen)


# The candidates of a request share their history: its steps are summarised once, not K times.
@lru_cache(maxsize=_MAX_KEPT)
def _summary(action: ActionContent, task: TaskContent, seen: str) -> Floats:
    row = np.zeros(len(SUMMARY), dtype=np.float32)
    row[: len(_TEXT_NAMES)] = _text(action.text)
    is_code = action.kind is ActionKind.CODE and bool(action.text)
    if is_code and task.language is Language.PYTHON:
        program = program_summary(
            action.text, entry_point=task.entry_point, visible_checks=task.visible_checks
        )
        # Its names stand side by side, in the same order.
        row[_PROGRAM] = list(program.values())
    for name, value in _columns(action, task, seen, is_code=is_code):
        row[_INDEX[name]] = value
    row.flags.writeable = False
    return row


def _columns(
    action: ActionContent, task: TaskContent, seen: str, *, is_code: bool
) -> Iterator[tuple[str, float]]:
    """The columns that few actions have, by name."""
    yield from _guidance(action.arguments)
    if action.kind is ActionKind.TOOL_CALL:
        yield from _tool(action.arguments, seen)
    if is_code and task.language is Language.SQL:
        yield from _sql(action.text[:_MAX_CHARS].lower())
    elif is_code and task.language is Language.SHELL:
        yield from _shell(action.text[:_MAX_CHARS])


def _text(text: str) -> tuple[float, ...]:
    """The columns `_TEXT_NAMES`."""
    head = text[:_MAX_CHARS]
    n = max(len(head), 1)
    counts = counts_of(head.encode()) if head.isascii() else _counts(head)
    return (
        float(not head.strip()),
        _log(len(text)),
        _log(head.count("\n") + 1 if head else 0),
        _log(counts.n_words),
        _log(counts.n_numbers),
        counts.n_digits / n,
        counts.n_upper / n,
        counts.n_symbols / n,
        float("?" in head),
        float(_apologises(head)),
        float("```" in head),
        float('"' in head or "'" in head),
    )


def _counts(head: str) -> Counts:
    # No character is both of the two.
    n_other = sum(map(str.isalnum, head)) + sum(map(str.isspace, head))
    return Counts(
        n_words=len(_WORD.findall(head)),
        n_numbers=len(_NUMBER.findall(head)),
        n_digits=sum(map(str.isdigit, head)),
        n_upper=sum(map(str.isupper, head)),
        n_symbols=len(head) - n_other,
    )


def _apologises(head: str) -> bool:
    if head.isascii():
        lowered = head.lower()
        # Hardly a program has any of them, and looking for words is fast.
        if not any(word in lowered for word in _APOLOGIES):
            return False
    return _APOLOGY.search(head) is not None


def _sql(query: str) -> Iterator[tuple[str, float]]:
    for name, pattern in _SQL_PATTERNS.items():
        yield name, _log(len(pattern.findall(query)))
    columns = query.partition("select")[2].partition("from")[0]
    yield "sql_n_tables", _log(len(_SQL_TABLE.findall(query)))
    yield "sql_n_conditions", _log(len(_SQL_CONDITION.findall(query)))
    yield "sql_n_columns", _log(columns.count(",") + 1 if columns.strip() else 0)
    yield "sql_is_nested", float("select" in query.partition("select")[2])
    yield "sql_selects_all", float(columns.strip() == "*")


def _shell(command: str) -> Iterator[tuple[str, float]]:
    commands = re.split(r"\||;|&&|\n", command)
    yield "shell_n_commands", _log(sum(bool(part.strip()) for part in commands))
    yield "shell_n_pipes", _log(command.replace("||", "").count("|"))
    yield "shell_n_flags", _log(len(re.findall(r"(?:^|\s)--?[A-Za-z]", command)))
    yield "shell_n_redirects", _log(command.count(">"))
    yield "shell_n_substitutions", _log(command.count("$(") + command.count("`") // 2)
    yield "shell_reads", _log(len(_SHELL_READS.findall(command)))
    yield "shell_searches", _log(len(_SHELL_SEARCHES.findall(command)))
    yield "shell_changes", _log(len(_SHELL_CHANGES.findall(command)))


def _tool(arguments: str, seen: str) -> Iterator[tuple[str, float]]:
    call = _parse_call(arguments)
    name = str(call.get("name", ""))
    given = call.get("arguments", {})
    leaves = list(_leaves(given))
    values = [leaf.text for leaf in leaves if len(leaf.text) >= _MIN_VALUE_CHARS]
    n_seen = sum(value in seen for value in values)
    yield f"tool_bucket_{_bucket(name, _N_TOOL_BUCKETS)}", 1.0
    yield "tool_n_arguments", _log(len(given) if isinstance(given, Mapping) else 0)
    yield "tool_n_values", _log(len(values))
    yield "tool_seen_share", n_seen / len(values) if values else 0.0
    yield "tool_unseen_values", _log(len(values) - n_seen)
    yield "tool_depth", _log(max((leaf.depth for leaf in leaves), default=0))


def _guidance(arguments: str) -> Iterator[tuple[str, float]]:
    """Under which guidance the action was proposed; its text was seen before the action."""
    guided = guidance_of(_parse_call(arguments)) if GUIDANCE in arguments else None
    if guided is not None and guided.id is not None:
        yield "is_guided", 1.0
        yield f"guidance_bucket_{_bucket(guided.id, _N_GUIDANCE_BUCKETS)}", 1.0


def _bucket(name: str, n_buckets: int) -> int:
    return zlib.crc32(name.encode("utf-8", "replace")) % n_buckets


def _parse_call(arguments: str) -> dict[str, Any]:
    try:
        call = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {}
    return call if isinstance(call, dict) else {}


class _Leaf(NamedTuple):
    text: str
    depth: int


def _leaves(value: Any) -> Iterator[_Leaf]:
    """Scalars of a JSON value, without recursion, in order."""
    stack = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, Mapping):
            stack.extend((child, depth + 1) for child in reversed(list(item.values())))
        elif isinstance(item, list):
            stack.extend((child, depth + 1) for child in reversed(item))
        elif item is not None and not isinstance(item, bool):
            yield _Leaf(str(item), depth)


def _log(count: int) -> float:
    return math.log1p(count)
