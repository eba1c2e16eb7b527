"""Programs cut out of texts, tests taken one by one, and archives that are read where they lie."""

import io
import json
import shutil
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from harness_core.importers.archive import members
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.unit_tests import doctest_checks, imported_modules, single_tests
from tests.importers.conftest import Imported, ReadFolder
from tests.importers.golden.regenerate import GOLDEN

LOGS = GOLDEN / "classeval" / "logs"
PREDICTIONS = "Toy-7B_class_H_t0.2.json"
CLASS = "class Jar:\n    size = 1\n"


def archived(*files: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in files:
            header = tarfile.TarInfo(name)
            header.type = kind
            header.linkname = "/etc/passwd"
            header.size = len(content) if kind == tarfile.REGTYPE else 0
            archive.addfile(header, io.BytesIO(content))
    return target.getvalue()


def pieces(content: bytes, size: int = 700) -> list[bytes]:
    return [b"", *(content[start : start + size] for start in range(0, len(content), size))]


def unpacked(content: bytes, size: int = 700) -> dict[str, bytes]:
    return {str(path): b"".join(parts) for path, parts in members(pieces(content, size))}


def program_of(text: str, folder: Path, read_folder: ReadFolder) -> str:
    (record, *_) = json.loads((LOGS / PREDICTIONS).read_text())
    (folder / PREDICTIONS).write_text(json.dumps([record | {"predict": [text]}], indent=1))
    (found,) = read_folder("classeval", folder).trajectories
    return found.steps[0].action.text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (CLASS, CLASS),
        (f"Words.\n```python\n{CLASS}```\nMore words.", CLASS),
        (f"```\nclass Other: pass\n```\n```python\n{CLASS}```", CLASS),
        (f"```python\n{CLASS}and some words", "class Jar:\n    size = 1"),
        (f"class Jar:\n    size = 0\n\n{CLASS}Words, (unclosed", "class Jar:\n    size = 1"),
        (f"```python\nimport math\n{CLASS}```", f"import math\n{CLASS}"),
        ("```python\ndef put(self): pass\n```", "def put(self): pass\n"),
        ("No code at all", "No code at all"),
    ],
)
def test_the_program_is_cut_out_of_the_text(text, code, tmp_path, read_folder) -> None:
    imports = "" if code.startswith("import math") else "import math\n"
    assert program_of(text, tmp_path, read_folder) == imports + code


def test_an_archive_gives_the_same_as_its_files(tmp_path: Path, read_folder: ReadFolder) -> None:
    names = ("ClassEval_data.json", PREDICTIONS)
    files = [(f"output/{name}", (LOGS / name).read_bytes()) for name in names]
    (tmp_path / "pack.tar").write_bytes(archived(*files, ("notes.txt", b"no log")))
    shutil.copyfile(LOGS / "labels.jsonl", tmp_path / "labels.jsonl")
    plain, packed = (read_folder("classeval", folder) for folder in (LOGS, tmp_path))
    assert [item.trajectory_id for item in packed.trajectories] == [
        item.trajectory_id for item in plain.trajectories
    ]
    assert (packed.tasks, packed.tally) == (plain.tasks, plain.tally)
    assert {item.provenance.path for item in packed.trajectories} == {
        f"pack.tar/output/{PREDICTIONS}"
    }


def test_members_come_in_order_whatever_the_pieces_are() -> None:
    files = {"a/b.json": b"x" * 1500, "empty.json": b"", "c.json": b"y" * 512}
    content = archived(*files.items())
    for size in (1, 512, 10**6):
        assert unpacked(content, size) == files


def test_a_member_that_is_not_read_is_passed_over() -> None:
    content = archived(("a.json", b"x" * 5000), ("b.json", b"[]"))
    assert [str(path) for path, _ in members(pieces(content))] == ["a.json", "b.json"]


def test_a_folder_and_a_long_name_do_no_harm() -> None:
    content = archived(("a/" * 80 + "b.json", b"[]"))
    assert list(unpacked(content).values()) == [b"[]"]
    assert unpacked(archived(("folder", b""), kind=tarfile.DIRTYPE)) == {}


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (archived(("a.json", b""), kind=tarfile.SYMTYPE), "F-MEMBER"),
        (archived(("a.json", b""), kind=tarfile.LNKTYPE), "F-MEMBER"),
        (archived(("a.json", b""), kind=tarfile.CHRTYPE), "F-MEMBER"),
        (archived(("a.json", b""), kind=tarfile.GNUTYPE_SPARSE), "F-MEMBER"),
        (archived(("../a.json", b"[]")), "F-MEMBER"),
        (archived(("/etc/a.json", b"[]")), "F-MEMBER"),
        (archived(("a.json", b"[]"), ("a.json", b"[]")), "F-MEMBER"),
        (archived(("a.json", b"x" * 5000))[:2000], "F-TRUNCATED"),
        (archived(("a.json", b"[]"))[:100], "F-TRUNCATED"),
        (b"no archive" * 200, "F-DAMAGED"),
    ],
)
def test_15_a_hostile_or_broken_archive_is_refused(content, rule, tmp_path, read_folder) -> None:
    with pytest.raises(UnreadableError) as caught:
        unpacked(content)
    assert caught.value.rule_id == rule
    (tmp_path / "x.tar").write_bytes(content)
    imported = read_folder("classeval", tmp_path)
    assert rule in imported.rules
    assert imported.trajectories == []


def test_labels_of_another_length_are_refused(tmp_path: Path, read_folder: ReadFolder) -> None:
    shutil.copytree(LOGS, tmp_path, dirs_exist_ok=True)
    labels = {"task_id": "ClassEval_900", "model": "Toy-7B_class_H_t0.2"}
    counts = {"passed_tests": [3], "total_tests": [3]}
    (tmp_path / "labels.jsonl").write_text(json.dumps(labels | counts))
    imported = read_folder("classeval", tmp_path)
    assert imported.rules == ["E-LABELS"]


def test_without_labels_the_outcome_is_unknown(tmp_path: Path, read_folder: ReadFolder) -> None:
    shutil.copyfile(LOGS / PREDICTIONS, tmp_path / PREDICTIONS)
    imported = read_folder("classeval", tmp_path)
    assert len(imported.tasks) == 3
    assert {item.outcome.success for item in imported.trajectories} == {None}


def test_a_test_stands_for_itself() -> None:
    source = """
import unittest
LIMIT = 3
class A(unittest.TestCase):
    def setUp(self): self.jar = Jar(LIMIT)
    def test_one(self): self.assertEqual(self.jar.size, math.floor(3.0))
    def test_two(self): self.fail()
    def test_two(self): self.assertTrue(self.jar)
class B(unittest.TestCase):
    def test_three(self): pass
"""
    one, two, three = single_tests(source, ["import math", "import re"])
    assert one.startswith("import math\nimport unittest\nLIMIT = 3\n")
    assert "test_two" not in one
    assert "setUp" in two
    assert "fail" not in two
    assert "math" not in two
    assert "class A" not in three


def test_what_is_no_test_case_is_one_check() -> None:
    for source in ("assert f(1) == 2", "def check(candidate):\n    assert candidate(1)", "f(("):
        assert single_tests(source, []) == (source,)


def test_an_example_needs_names_that_are_bound_and_a_literal_outcome() -> None:
    docstring = '''
def f(x):
    """
    >>> f(1)
    2
    >>> y = f(2)
    >>> y + int(1)
    4
    >>> g(1)
    2
    >>> f(3)
    <object>
    >>> f(None) is None
    True
    """
'''
    assert doctest_checks(docstring, "f", [], limit=9) == (
        "assert f(1) == 2",
        "f(1)\ny = f(2)\nassert y + int(1) == 4",
    )
    assert doctest_checks("not ( python", "f", [], limit=9) == ()
    assert doctest_checks('"""\n>>>bad\n"""\ndef f(): ...', "f", [], limit=9) == ()


def test_modules_are_named_by_their_first_part() -> None:
    found = imported_modules(
        ["import a.b, c as d\nfrom e.f import g", "def h(:", "from . import i"]
    )
    assert found == {"a", "c", "e", ""}


def test_the_pack(data_packs: Path, read_folder: ReadFolder) -> None:
    imported: Imported = read_folder("classeval", data_packs / "classeval")
    assert not imported.rejects
    outcomes = [item.outcome for item in imported.trajectories]
    assert (len(outcomes), len(imported.tasks)) == (1340, 67)
    assert len({item.trajectory_id for item in imported.trajectories}) == 1340
    assert round(sum(item.success is True for item in outcomes) / 1340, 3) == 0.287
    assert round(sum(item.score or 0 for item in outcomes) / 1340, 3) == 0.709
    assert imported.tally.warnings == {
        "E-NO-LABEL": 7 * 4,
        "E-PACKAGES": 6 * 4,
        "E-TASK-VERSION": 2 * 4,
    }
    totals = {item.task.task_id: item.outcome.n_tests_total for item in imported.trajectories}
    for task in imported.tasks.values():
        assert len(task.hidden_checks) in {0, totals[task.task_id]}
    assert {item.agent.model for item in imported.trajectories} == {
        "GPT-4",
        "ChatGPT",
        "GPT-3.5-Turbo",
        "Gemini-Pro",
    }
    member = "classeval.tar.xz/output/model_output/GPT-4_100_c_5.json"
    assert PurePosixPath(imported.trajectories[0].provenance.path) == PurePosixPath(member)
