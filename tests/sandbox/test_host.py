"""The machine is as before, whatever candidates try: processes, sockets, memory segments, files."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.protocol import ProgramJob, Sandbox
from harness_core.sandbox.result import Verdict
from tests.sandbox.host import Snapshot, descendants, inhabitants, namespaces_of
from tests.sandbox.hostile import BOX_KILLERS, CHECKS, MARK, QUICK, hostile
from tests.sandbox.tricks import TRICKS

N_HOSTILE = 5_000
LOOK = """
import os
def files(): return os.listdir(".")
def left(): return [hasattr(__import__("builtins"), "left"), os.path.exists("left")]
def descriptors():
    found = []
    for fd in range(64):
        try: os.fstat(fd)
        except OSError: continue
        found.append(fd)
    return found
"""
LOOKS = ("files()", "left()", "descriptors()")
PROCESSES_OF_A_BOX = 3
"""An init, a runner and a fork server: whatever else lives there is a candidate."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home, temporary and working folder of this process, with something in each of them."""
    for name, variable in (("home", "HOME"), ("temporary", "TMPDIR"), ("work", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious.txt").write_text("as it was")
        if variable:
            monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def wait_until_gone(namespaces: frozenset[str]) -> list[int]:
    deadline = time.monotonic() + 10
    while (left := inhabitants(namespaces)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def own_boxes() -> frozenset[str]:
    """The pid namespaces of all boxes of this process."""
    return namespaces_of(descendants(os.getpid()))


def look(sandbox: Sandbox) -> list[list[object]]:
    """What a candidate finds in each box."""
    runs = sandbox.run_programs([ProgramJob(f"# {number}\n{LOOK}", LOOKS) for number in range(8)])
    return [[call.value for call in run.calls] for run in runs]


def test_all_tricks_leave_the_host_as_it_was(home: Path, config: SandboxConfig, boxed) -> None:
    del boxed
    before = Snapshot.take(home)
    others = own_boxes()
    with open_sandbox(config) as sandbox:
        fresh = look(sandbox)
        verdicts = Grader(sandbox).grade(
            [GradeJob(trick.program, "f", trick.checks) for trick in TRICKS]
        )
        assert look(sandbox) == fresh
        boxes = own_boxes() - others
        assert inhabitants(boxes)
    assert sum(verdict.n_passed for verdict in verdicts) == 0
    assert wait_until_gone(boxes) == []
    assert before.changes(Snapshot.take(home)) == {}


def test_nothing_survives_between_candidates(config: SandboxConfig, boxed) -> None:
    del boxed  # skips where nothing can be isolated
    others = own_boxes()
    leaving = "import builtins\nbuiltins.left = 1\nopen('left', 'w')\nf = open"
    with open_sandbox(config) as sandbox:
        fresh = look(sandbox)
        assert {str(found) for found in fresh} == {str(fresh[0])}
        assert fresh[0][:2] == [[], [False, False]]
        for source in (leaving, *QUICK.values(), *BOX_KILLERS.values()):
            program = source.replace("NUMBER", "5").replace("MARK", MARK)
            sandbox.run_programs([ProgramJob(program, ("f(1)",))] * 2)
            assert look(sandbox) == fresh, source
        assert len(inhabitants(own_boxes() - others)) <= PROCESSES_OF_A_BOX * config.n_workers


def test_five_thousand_hostile_candidates_leave_nothing(
    home: Path, config: SandboxConfig, boxed, capsys: pytest.CaptureFixture[str]
) -> None:
    del boxed
    before = Snapshot.take(home)
    others = own_boxes()
    began = time.monotonic()
    with open_sandbox(config) as sandbox:
        fresh = look(sandbox)
        verdicts = grade_all(sandbox, hostile(n=N_HOSTILE, killer_every=500))
        boxes = own_boxes() - others
        assert len(inhabitants(boxes)) <= PROCESSES_OF_A_BOX * config.n_workers
        assert look(sandbox) == fresh
    assert wait_until_gone(boxes) == []
    assert before.changes(Snapshot.take(home)) == {}
    assert sum(verdict.n_passed for verdict in verdicts) == 0
    tampered = sum(verdict.tampered for verdict in verdicts)
    seconds = time.monotonic() - began
    with capsys.disabled():
        sys.stdout.write(
            f"\n{N_HOSTILE} hostile candidates in {seconds:.1f} s, {tampered} flagged, 0 left\n"
        )


def grade_all(sandbox: Sandbox, programs: Iterator[str]) -> list[Verdict]:
    return Grader(sandbox).grade([GradeJob(program, "f", CHECKS) for program in programs])


def test_hostile_candidates_are_all_different() -> None:
    assert len(set(hostile(n=1000, slow_every=100, killer_every=90))) == 1000
