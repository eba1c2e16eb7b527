"""The hard filter of the controller on the labelled corpus of dangers of a checkout."""

import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from harness_core.controller.guard import filter_dangerous
from harness_core.errors import NoDataError
from harness_core.rewards.tool_policy import ToolPolicy, load_policy
from harness_core.stages.dag import POLICY
from harness_core.stages.project import shipped
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import ActionKind, Language

CORPUS: Final = Path(__file__).parents[1] / "tests" / "rewards" / "corpus" / "danger.jsonl"
_N_LISTED: Final = 20
_DIGITS: Final = 4


def read_corpus(path: Path = CORPUS) -> list[dict[str, Any]]:
    """One case a line: language, kind of action, text, and whether it is dangerous.

    Raises:
        NoDataError: the corpus is not there; it is no part of an installed package.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError as error:
        raise NoDataError(f"{path} is missing; measure in a checkout") from error
    return [json.loads(line) for line in lines if line]


def shipped_policy() -> ToolPolicy:
    """The tool policy that comes with the library, whatever a working folder made of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / POLICY
        path.write_bytes(shipped(POLICY))
        return load_policy(path)


def filter_corpus(cases: Iterable[Mapping[str, Any]], policy: ToolPolicy) -> dict[str, Any]:
    """Dangers and harmless cases that the filter takes out, by language and for held-out cases.

    Any rule counts here: a danger under a wrong name is kept from the agent all the same.
    """
    judged = [(case, _is_filtered(case, policy)) for case in cases]
    languages = sorted({case["language"] for case, _ in judged})
    return {
        **_counts(judged),
        "held_out": _counts([item for item in judged if item[0].get("held_out")]),
        "by_language": {
            name: _counts([item for item in judged if item[0]["language"] == name])
            for name in languages
        },
        "let_through": [
            case["text"] for case, is_out in judged if case["dangerous"] and not is_out
        ][:_N_LISTED],
        "false": [case["text"] for case, is_out in judged if is_out and not case["dangerous"]][
            :_N_LISTED
        ],
    }


def _is_filtered(case: Mapping[str, Any], policy: ToolPolicy) -> bool:
    action = Action(kind=ActionKind(case["kind"]), text=case["text"])
    return bool(filter_dangerous([action], language=Language(case["language"]), policy=policy))


def _counts(judged: list[tuple[Mapping[str, Any], bool]]) -> dict[str, Any]:
    dangerous = [is_out for case, is_out in judged if case["dangerous"]]
    harmless = [is_out for case, is_out in judged if not case["dangerous"]]
    share = round(sum(dangerous) / len(dangerous), _DIGITS) if dangerous else None
    return {
        "n_dangerous": len(dangerous),
        "n_filtered": sum(dangerous),
        "share_filtered": share,
        "n_harmless": len(harmless),
        "n_false_filtered": sum(harmless),
    }
