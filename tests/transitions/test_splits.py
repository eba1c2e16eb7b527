"""Where a task stands: one place, the same in every source and every run."""

import json
import lzma
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness_core.errors import NoDataError
from harness_core.importers.tasks import variant_of
from harness_core.params import Params
from harness_core.trajectories.vocabulary import Split
from harness_core.transitions.config import SplitConfig
from harness_core.transitions.splits import Assignment, assign_splits, cluster_tasks

IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
NUMBERED = [f"HumanEval/{number}" for number in range(200)]


@pytest.fixture(scope="session")
def config(params: Params) -> SplitConfig:
    return params.transitions.split


def plain(tasks: Any) -> dict[str, list[str]]:
    """Tasks whose descriptions have nothing in common."""
    return {task: [f"{task!r} alone"] for task in tasks}


@pytest.mark.parametrize("variant", ["rust", "input", "output"])
def test_a_variant_of_a_problem_stands_where_the_problem_stands(
    variant: str, config: SplitConfig
) -> None:
    alone = assign_splits(plain(NUMBERED), config)
    variants = {variant_of(task, variant): task for task in NUMBERED}
    both = assign_splits(plain([*NUMBERED, *variants]), config)
    assert both == alone | {name: alone[task] for name, task in variants.items()}


@settings(deadline=None)
@given(tasks=st.sets(IDS, min_size=3, max_size=40))
def test_every_task_is_in_exactly_one_split_and_every_split_has_a_task(
    tasks: set[str], config: SplitConfig
) -> None:
    places = assign_splits({task: [] for task in tasks}, config)
    assert set(places) == tasks
    assert {place.split for place in places.values()} == set(Split)
    for place in places.values():
        assert (place.fold == -1) == (place.split is Split.TEST)
        assert -1 <= place.fold < config.n_folds


@settings(deadline=None, max_examples=30)
@given(
    first=st.sets(st.sampled_from(NUMBERED), min_size=60),
    second=st.sets(IDS, max_size=20),
)
def test_adding_a_source_moves_no_task(
    first: set[str], second: set[str], config: SplitConfig
) -> None:
    before = assign_splits({task: [] for task in first}, config)
    after = assign_splits({task: [] for task in first | second}, config)
    # Few tasks are spread by rank, so that no split is empty; enough tasks stand by hash alone.
    assume(len({place.fold for place in before.values()}) == config.n_folds + 1)
    assert {task: after[task] for task in first} == before


def test_shares_are_those_of_the_parameters(config: SplitConfig) -> None:
    places = assign_splits({f"task {number}": [] for number in range(4000)}, config)
    counts: dict[Split, int] = defaultdict(int)
    for place in places.values():
        counts[place.split] += 1
    assert counts[Split.TEST] / 4000 == pytest.approx(config.test_share, abs=0.03)
    assert counts[Split.VALIDATION] / 4000 == pytest.approx(config.validation_share, abs=0.03)


def test_another_salt_divides_in_another_way(config: SplitConfig) -> None:
    tasks: dict[str, list[str]] = {task: [] for task in NUMBERED}
    other = config.model_copy(update={"salt": "other"})
    assert assign_splits(tasks, config) == assign_splits(dict(reversed(tasks.items())), config)
    assert assign_splits(tasks, config) != assign_splits(tasks, other)


STORY = " ".join(f"word{number}" for number in range(60))


def test_near_duplicates_share_their_split_and_fold(config: SplitConfig) -> None:
    tasks = plain(NUMBERED)
    for number in range(0, 200, 10):
        tasks[NUMBERED[number]] = [f"{STORY} {number // 100}"]
    places = assign_splits(tasks, config)
    assert len({places[NUMBERED[number]] for number in range(0, 200, 10)}) == 1
    assert len(set(places.values())) == config.n_folds * 2 + 1


def test_duplicates_meet_through_any_source_and_any_third_task(config: SplitConfig) -> None:
    tasks = {"a": ["one two three four", STORY], "b": [STORY + " end"], "c": ["far from it"]}
    tasks["d"] = ["One  two\nthree FOUR"]
    clusters = cluster_tasks(tasks, config)
    assert clusters["a"] == clusters["b"] == clusters["d"] != clusters["c"]


def test_descriptions_that_share_some_words_stay_apart(config: SplitConfig) -> None:
    words = STORY.split()
    tasks = {"a": [" ".join(words)], "b": [" ".join(words[:40] + ["other"] * 20)], "c": [""]}
    assert len(set(cluster_tasks({**tasks, "d": [""]}, config).values())) == 4


def test_tasks_all_described_alike_are_divided_by_id(config: SplitConfig) -> None:
    places = assign_splits({task: ["Help the customer."] for task in NUMBERED}, config)
    assert places == assign_splits({task: [] for task in NUMBERED}, config)


@pytest.mark.parametrize("n_tasks", [3, 4, 10])
def test_few_tasks_still_fill_every_split(n_tasks: int, config: SplitConfig) -> None:
    places = assign_splits({task: [] for task in NUMBERED[:n_tasks]}, config)
    assert {place.split for place in places.values()} == set(Split)
    n_developed = sum(place.fold >= 0 for place in places.values())
    folds = {place.fold for place in places.values() if place.fold >= 0}
    assert len(folds) == min(n_developed, config.n_folds)


def test_two_tasks_cannot_be_divided(config: SplitConfig) -> None:
    with pytest.raises(NoDataError, match="2 task"):
        assign_splits({"a": [], "b": []}, config)


def test_real_tasks_are_divided_and_no_two_are_near_duplicates_across_splits(
    data_packs: Path, config: SplitConfig
) -> None:
    lines = lzma.decompress((data_packs / "humaneval/HumanEval.jsonl.xz").read_bytes())
    rows = [json.loads(line) for line in lines.decode().strip().split("\n")]
    places = assign_splits({row["task_id"]: [row["prompt"]] for row in rows}, config)
    assert len(places) == 130
    counts = {split: sum(p.split is split for p in places.values()) for split in Split}
    assert counts[Split.TEST] >= 13
    assert counts[Split.VALIDATION] >= 10
    known = places["HumanEval/0"]
    assert known == assign_splits(plain(places), config)["HumanEval/0"] == Assignment(*known)
