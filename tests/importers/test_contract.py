"""What every importer does, shown on small logs of invented content."""

from pathlib import Path, PurePosixPath

import orjson
import pytest

from harness_core.errors import ParameterError
from harness_core.importers.base import is_log
from harness_core.importers.catalogue import IMPORTERS
from harness_core.importers.sniff import importer_named, sniffed
from tests.importers.conftest import ReadFolder
from tests.importers.golden.regenerate import GOLDEN, outcome_of

NAMES = sorted(IMPORTERS)


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_log_becomes_what_was_reviewed(name: str):
    assert outcome_of(name) == orjson.loads((GOLDEN / name / "expected.json").read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_every_trajectory_has_its_task_and_reading_twice_gives_the_same(
    name: str, read_folder: ReadFolder
):
    first, second = (read_folder(name, GOLDEN / name / "logs") for _ in range(2))
    assert first.trajectories
    assert {item.task.task_id for item in first.trajectories} <= first.tasks.keys()
    assert first == second


@pytest.mark.parametrize("name", NAMES)
def test_the_format_is_recognised(name: str):
    folder = GOLDEN / name / "logs"
    paths = [PurePosixPath(path.relative_to(folder)) for path in folder.rglob("*")]
    assert sniffed(folder, filter(is_log, paths)) is IMPORTERS[name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "row",
    [b"{}", b"[]", b"null", b"7", b'"text"', b'{"messages": 3, "task_id": {}, "steps": "x"}'],
)
def test_28_a_row_of_another_shape_is_a_reject_that_names_a_rule(
    name: str, row: bytes, tmp_path: Path, read_folder: ReadFolder
):
    names = ("x.json", "x.jsonl", "results.jsonl", "x_code_solution.jsonl")
    file_name = next(item for item in names if IMPORTERS[name].reads(PurePosixPath(item)))
    (tmp_path / file_name).write_bytes(b"[" + row + b"]")
    imported = read_folder(name, tmp_path)
    assert (imported.trajectories, imported.tasks) == ([], {})
    assert imported.rules == ["S-SCHEMA"] or imported.rules[0].endswith("-NO-STEPS")
    assert imported.tally.n_records == 1


def test_an_unknown_format_names_the_nearest():
    with pytest.raises(ParameterError, match="did you mean 'tau_bench'"):
        importer_named("taubench")


def test_a_folder_of_nothing_known_is_not_guessed(tmp_path: Path):
    (tmp_path / "a.json").write_text('{"hello": 1}')
    with pytest.raises(ParameterError, match="--format"):
        sniffed(tmp_path, [PurePosixPath("a.json")])
