"""Tables of the selection benchmark and the document made of them, on packs of known truth."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from benchmarks.results import BENCHES, BenchmarkFailed, make_results, render
from benchmarks.results_selection import selection_section
from benchmarks.selection import packs as packs_module
from benchmarks.selection.command import _order
from benchmarks.selection.mixing import restricted
from benchmarks.selection.pack import Pack
from benchmarks.selection.packs import NO_PROGRAMS, PackSpec, Source, chosen_packs
from benchmarks.selection.tables import pack_table
from harness_core.errors import NoDataError
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.importers.base import SOURCE_FILE
from harness_core.params import Params
from harness_core.stages.dag import RAW, Workspace
from tests.benchmarks.test_selection_methods import N_TASKS, K, make_pack

BOOTSTRAP = Bootstrap(n_resamples=200, confidence=0.95, seed=0)
METHODS = ("first", "agent_prior", "generated_checks", "logistic")


@pytest.fixture(scope="module")
def pack(params: Params) -> Pack:
    return make_pack(params)


@pytest.fixture(scope="module")
def table(pack: Pack) -> dict[str, object]:
    spec = PackSpec(sources=(), caveat="made up for a test")
    return pack_table(pack, spec, methods=METHODS, n_subsets=4, bootstrap=BOOTSTRAP, seed=0)


def test_a_table_counts_what_the_pack_holds(table) -> None:
    assert (table["n_tasks"], table["n_attempts"]) == (N_TASKS, N_TASKS * K)
    # K of the tables that groups of six offer.
    assert list(table["k"]) == ["2", "4"]


def test_gap_closed_follows_from_the_rates_beside_it(table) -> None:
    for rows in (*table["k"].values(), table["all"]):
        for found in rows["methods"].values():
            gap = (found["success"] - rows["random"]) / (rows["oracle"] - rows["random"])
            assert found["gap_closed"] == pytest.approx(gap, abs=1e-4)
            assert found["gap_interval"][0] <= found["gap_closed"] <= found["gap_interval"][1]


def test_what_tells_right_from_wrong_comes_out_ahead_of_the_first(table) -> None:
    found = table["all"]["methods"]
    assert found["generated_checks"]["success"] > found["first"]["success"] + 0.2


def test_sections_show_every_method_and_what_is_known_of_the_pack(table) -> None:
    with_ours = json.loads(json.dumps(table))
    for rows in (*with_ours["k"].values(), with_ours["all"]):
        ours = rows["methods"]["logistic"]
        rows["methods"]["controller"] = ours
        for found in rows["methods"].values():
            found |= {"controller_gains": 0.01, "gain_interval": [-0.01, 0.03]}
    figures = {
        "packs": {"made": with_ours},
        "data": {"made": "0123"},
        "ablations": {"made": {"parts": []}},
        "mixing": {"made": {"left_out": "too few tasks offer a choice"}},
    }
    text = "\n".join(selection_section(figures))
    for word in ("generated checks", "Made up for a test.", "made 0123", "too few tasks"):
        assert word in text


def test_a_document_names_command_commit_and_machine() -> None:
    record = {
        "arguments": ["choices"],
        "seconds": 90.0,
        "commit": "abc123",
        "changed": True,
        "machine": {"processor": "a processor", "n_cores": 2, "python": "3.11"},
        "figures": {"studies": {}},
    }
    text = render({"choices": record})
    assert "`harness bench choices` · commit abc123, with changes · 1.5 min on a processor" in text
    assert f"## {BENCHES['rewards'].title}" not in text


def test_a_benchmark_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFailed, match="sleeping"):
        make_results(tmp_path, tmp_path / "results.md", only=["sleeping"])


def test_a_pack_that_nobody_knows_is_refused() -> None:
    with pytest.raises(NoDataError, match="atlantis"):
        chosen_packs(["atlantis"])


def test_a_source_alone_keeps_its_groups_and_the_transitions_of_their_tasks(pack) -> None:
    own = restricted(pack, pack.groups[0].source)
    assert own.groups == pack.groups
    assert len(own.transitions.discount) == len(pack.transitions.discount)


def test_only_the_members_that_a_pack_names_are_taken_from_an_archive(tmp_path: Path) -> None:
    packs = tmp_path / "packs"
    packs.mkdir()
    with tarfile.open(packs / "runs.tar.xz", "w:xz") as archive:
        for turns in (1, 5):
            content = b'{"n": %d}\n' % turns
            name = f"model/F=None/max{turns}_p2+tool/set/results.jsonl"
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    workspace = Workspace(tmp_path / "work")
    source = Source(path="runs.tar.xz", importer="mint", only="*/max5_*")
    landed = packs_module._landed(source, packs, workspace)
    files = [path for path in workspace.path(f"{RAW}/{landed}").rglob("*") if path.is_file()]
    kept = [path for path in files if path.name != SOURCE_FILE]
    assert [path.read_bytes() for path in kept] == [b'{"n": 5}\n']


@pytest.mark.parametrize("mixed", [(), ("codet",), ("codet", "ldb", "lats")])
def test_what_is_learnt_together_comes_after_what_it_is_made_of(mixed):
    names = ("tot", "codet", "sql", "lats", "ldb", "bash", "classeval")
    before, after = _order(names, mixed)
    assert sorted(before + after) == sorted(names)
    assert set(mixed) <= set(before)
    run = [name for name in before + after if name not in NO_PROGRAMS]
    assert run[: len(mixed)] == sorted(mixed, key=names.index)
