"""The grader says what is known of programs, and every case where it does not is explained."""

import sys
from pathlib import Path

import pytest

from harness_core.sandbox.grader import Grader
from harness_core.sandbox.protocol import Sandbox
from tests.sandbox.agreement import (
    CLASSEVAL_STRIDE,
    CODET_STRIDE,
    HEADING,
    UNGRADABLE,
    Compared,
    Tally,
    classeval_candidates,
    classeval_references,
    codet_candidates,
    compare,
    humaneval_references,
    reason_of,
)

MIN_PROGRAMS = 1_000
MIN_AGREEMENT = 0.995
PACKS = ("humaneval", "codet", "classeval", "all")


@pytest.fixture(scope="module")
def module_grader(boxed: Sandbox) -> Grader:
    return Grader(boxed)


@pytest.fixture(scope="module")
def references(data_packs: Path, module_grader: Grader) -> list[Compared]:
    """Of the tasks of classeval that are left out; they passed where the labels were made."""
    everything = classeval_references(data_packs)
    return compare(module_grader, [item for item in everything if item.key in UNGRADABLE])


@pytest.fixture(scope="module")
def compared(
    data_packs: Path,
    module_grader: Grader,
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Compared]:
    candidates = [
        item
        for item in classeval_candidates(data_packs)
        if item.key.partition(" ")[0] not in UNGRADABLE
    ]
    completions = list(codet_candidates(data_packs, tmp_path_factory.mktemp("codet")))
    programs = [
        *humaneval_references(data_packs),
        *completions[::CODET_STRIDE],
        *candidates[::CLASSEVAL_STRIDE],
    ]
    return compare(module_grader, programs)


def test_every_reference_of_humaneval_passes(compared: list[Compared]) -> None:
    references = [item for item in compared if item.labelled.pack == "humaneval"]
    assert len(references) == 130
    assert [item.labelled.key for item in references if not item.verdict.all_passed] == []


def test_labels_are_met_on_a_thousand_programs(
    compared: list[Compared], capsys: pytest.CaptureFixture[str]
) -> None:
    tallies = [Tally.of(pack, compared) for pack in PACKS]
    with capsys.disabled():
        lines = ["", HEADING, *(tally.line() for tally in tallies)]
        lines += [f"  left out: {key}: {reason}" for key, reason in UNGRADABLE.items()]
        lines += [
            f"  {item.labelled.pack} {item.labelled.key}: {reason_of(item)}"
            for item in compared
            if not (item.agrees and item.counts_agree)
        ]
        sys.stdout.write("\n".join([*lines, ""]))
    total = tallies[-1]
    assert total.n_programs >= MIN_PROGRAMS
    assert total.n_agree / total.n_programs >= MIN_AGREEMENT


def test_every_disagreement_is_explained(compared: list[Compared]) -> None:
    differing = [item for item in compared if not (item.agrees and item.counts_agree)]
    assert [item.labelled.key for item in differing if reason_of(item) is None] == []


def test_the_tasks_left_out_are_those_whose_reference_does_not_pass(
    references: list[Compared],
) -> None:
    assert {item.labelled.key for item in references} == set(UNGRADABLE)
    assert [item.labelled.key for item in references if item.agrees] == []
