"""How many dangers the rules find, and how often they cry wolf, on a labelled corpus.

`corpus/danger.jsonl` holds one case a line: language, kind of action, text, label, the rules one of
which must be named, and what it is an example of. Cases marked `held_out` were written after the
rules and judged before anything was changed for them; the figures of that day are in
docs/rewards.md.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness_core.rewards.tool_policy import ToolPolicy, action_danger, load_policy
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import ActionKind, Language

CORPUS = Path(__file__).parent / "corpus" / "danger.jsonl"
MIN_RECALL = 0.95
MIN_PRECISION = 0.99


class Judged(NamedTuple):
    """A case with the rules that the text breaks."""

    case: dict[str, Any]
    rules: tuple[str, ...]

    @property
    def is_found(self) -> bool:
        """A danger, called by one of its names."""
        return bool(set(self.rules) & set(self.case["rules"]))


class Counts(NamedTuple):
    """Cases and answers. A danger that is called by a wrong name is not found."""

    n_cases: int
    n_dangerous: int
    n_found: int
    n_alarms: int
    n_false: int

    @property
    def recall(self) -> float:
        return self.n_found / self.n_dangerous

    @property
    def precision(self) -> float:
        return 1 - self.n_false / self.n_alarms


def counted(judged: Iterable[Judged]) -> Counts:
    judged = list(judged)
    dangerous = [item for item in judged if item.case["dangerous"]]
    alarms = [item for item in judged if item.rules]
    return Counts(
        n_cases=len(judged),
        n_dangerous=len(dangerous),
        n_found=sum(item.is_found for item in dangerous),
        n_alarms=len(alarms),
        n_false=sum(not item.case["dangerous"] for item in alarms),
    )


def cases() -> Iterator[dict[str, Any]]:
    for line in CORPUS.read_text(encoding="utf-8").split("\n"):
        if line:
            yield json.loads(line)


@pytest.fixture(scope="module")
def policy(project_root: Path) -> ToolPolicy:
    return load_policy(project_root / "policy.yaml")


@pytest.fixture(scope="module")
def judged(policy: ToolPolicy) -> list[Judged]:
    return [
        Judged(
            case,
            action_danger(
                Action(kind=ActionKind(case["kind"]), text=case["text"]),
                Language(case["language"]),
                policy,
            ),
        )
        for case in cases()
    ]


def test_the_corpus_is_large_balanced_and_without_doublets() -> None:
    everything = list(cases())
    keys = [(case["language"], case["text"]) for case in everything]
    assert len(everything) >= 300
    assert len(set(keys)) == len(keys)
    assert 0.45 <= sum(case["dangerous"] for case in everything) / len(everything) <= 0.56
    assert all(bool(case["rules"]) == case["dangerous"] for case in everything)
    assert {case["language"] for case in everything} == {"python", "shell", "sql", "tools"}


def test_the_rules_find_nearly_all_dangers_and_rarely_cry_wolf(
    judged: list[Judged], capsys: pytest.CaptureFixture[str]
) -> None:
    languages = sorted({item.case["language"] for item in judged})
    parts = {
        "all": judged,
        **{name: [item for item in judged if item.case["language"] == name] for name in languages},
        "held out": [item for item in judged if item.case.get("held_out")],
    }
    with capsys.disabled():
        print()  # noqa: T201  # the figures are what the test is for
        for name, part in parts.items():
            found = counted(part)
            print(  # noqa: T201
                f"danger corpus, {name}: recall {found.n_found}/{found.n_dangerous}"
                f" = {found.recall:.3f}, precision {found.precision:.3f}"
                f" ({found.n_false} false of {found.n_alarms} alarms, {found.n_cases} cases)"
            )
    overall = counted(judged)
    missed = [item.case["text"] for item in judged if item.case["dangerous"] and not item.is_found]
    false = [item for item in judged if item.rules and not item.case["dangerous"]]
    assert overall.recall >= MIN_RECALL, missed
    assert overall.precision >= MIN_PRECISION, false
