"""The backend `docker`: what it asks of an engine, and what an engine makes of it.

Where no engine runs, a script that takes the same command line stands in for it: it reads the
options, then starts the same interpreter under bubblewrap instead of in a container.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness_core.errors import IsolationUnavailable
from harness_core.sandbox.api import describe, open_sandbox, probe
from harness_core.sandbox.box import Box
from harness_core.sandbox.bubblewrap import boxed as boxed_launch
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.docker import docked as docked_launch
from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.protocol import ProgramJob, Sandbox
from harness_core.sandbox.result import CallStatus, CheckStatus

ABSENT = "#!/bin/sh\necho 'Cannot connect to the Docker daemon.' >&2\nexit 1\n"
STAND_IN = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
  image) echo sha256:1; exit 0 ;;
  rm) exit 0 ;;
esac
while [ "$1" != an-image ]; do shift; done
shift
exec {start} "$@"
"""


@pytest.fixture
def container_config(config: SandboxConfig) -> SandboxConfig:
    return config.model_copy(
        update={"backend": "docker", "docker_image": "an-image", "n_workers": 1}
    )


@pytest.fixture
def engine(tmp_path: Path, monkeypatch) -> Callable[[str, str], Path]:
    """Puts a script on a path where no engine is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def write(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(script)
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def log(boxed: Sandbox, tmp_path: Path, engine) -> Path:
    """What the stand-in was asked for, line by line."""
    command = boxed_launch(boxed.config).command
    start = command[: command.index("--") + 2]  # up to the interpreter
    path = tmp_path / "log"
    engine("docker", STAND_IN.format(log=path, start=shlex.join(start)))
    return path


def test_programs_are_graded_through_an_engine(log, container_config) -> None:
    with open_sandbox(container_config) as sandbox:
        assert sandbox.trusted
        assert sandbox.layers == ("capabilities", "docker", "landlock", "rlimits", "seccomp")
        (run,) = sandbox.run_programs([ProgramJob("import os", ("dict(os.environ)",))])
        verdicts = Grader(sandbox).grade(
            [
                GradeJob("f = abs", "f", ("assert f(-1) == 1", "x = -2\nassert f(x) == 2")),
                GradeJob("f = int", "f", ("assert f(-1) == 1",)),
            ]
        )
    assert set(run.calls[0].value) == {"PYTHONHASHSEED", "LC_ALL", "PATH", "HOME", "TMPDIR"}
    assert [verdict.n_passed for verdict in verdicts] == [2, 0]
    assert log.read_text().splitlines()[-1].startswith("rm --force harness-box-")


def test_a_container_gets_nothing_that_it_does_not_need(log, container_config) -> None:
    command = " ".join(docked_launch(container_config).command)
    memory = container_config.memory_bytes + container_config.scratch_bytes + (128 << 20)
    for option in (
        "--rm --interactive --pull never",
        "--network none --ipc none --read-only",
        "--user 65534:65534 --cap-drop ALL",
        "--security-opt no-new-privileges",
        f"--pids-limit {container_config.n_processes}",
        f"--memory {memory}b --memory-swap {memory}b",
        f"--tmpfs /scratch:rw,noexec,nosuid,nodev,size={container_config.scratch_bytes}",
        "--log-driver none",
    ):
        assert option in command
    for option in ("--volume", "--mount", "-v ", "--privileged", "--env-file", "host"):
        assert option not in command.partition(" -c ")[0].replace("--hostname", "")


def test_an_engine_that_does_not_answer_is_quoted(engine, container_config) -> None:
    engine("docker", ABSENT)
    with pytest.raises(IsolationUnavailable, match=r"Cannot connect.*docker pull an-image"):
        open_sandbox(container_config)
    assert not any(probe(container_config).values())


def test_without_any_engine_nothing_runs(engine, container_config) -> None:
    with pytest.raises(IsolationUnavailable, match=r"neither docker nor podman.*bubblewrap"):
        open_sandbox(container_config)


def test_an_engine_that_cannot_be_started_is_named(engine, container_config) -> None:
    engine("docker", "no program\n").write_bytes(b"\x7fELF")
    with pytest.raises(IsolationUnavailable, match="docker: "):
        open_sandbox(container_config)


def test_podman_serves_where_docker_does_not_answer(log, engine, container_config) -> None:
    stand_in = log.parent / "bin" / "docker"
    shutil.copy(stand_in, stand_in.with_name("podman"))
    engine("docker", ABSENT)
    assert docked_launch(container_config).command[0] == str(stand_in.with_name("podman"))


def test_the_probe_names_the_layers_of_a_container(docked: Sandbox) -> None:
    assert docked.trusted
    assert docked.layers == ("capabilities", "docker", "landlock", "rlimits", "seccomp")
    assert probe(docked.config) == dict.fromkeys(
        ("docker", "capabilities", "landlock", "rlimits", "seccomp"), True
    )
    assert describe(docked.config).startswith("backend docker; layers that hold: capabilities, ")


def test_a_container_shows_no_host_and_leaves_no_files(docked: Sandbox) -> None:
    program = """
import os
def write(path):
    with open(path, "w") as file: file.write("x")
def read(path): return open(path).read()
"""
    calls = ("os.getuid()", "write('a')", "os.listdir()", "write('/x')", "read('/proc/1/environ')")
    first, second = docked.run_programs([ProgramJob(program, calls)] * 2)
    for run in (first, second):
        uid, inside, files, outside, secret = run.calls
        assert uid.value == 65534
        assert (inside.status, files.value) == (CallStatus.VALUE, ["a"])
        assert outside.status is CallStatus.RAISED
        assert secret.detail == "PermissionError"


def test_a_container_is_gone_with_its_box(docked: Sandbox) -> None:
    before = containers()
    with Box(docked.config):
        assert len(containers()) == len(before) + 1
    assert containers() == before


def test_a_container_dies_with_a_process_that_is_killed(docked: Sandbox, tmp_path: Path) -> None:
    before = containers()
    code = (
        "import sys, time; from harness_core.sandbox.box import Box; "
        "from harness_core.sandbox.config import SandboxConfig; "
        f"box = Box(SandboxConfig.model_validate_json({docked.config.model_dump_json()!r})); "
        "print('up', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    assert len(containers()) == len(before) + 1
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 20
    while containers("running") - before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not containers("running") - before


def test_a_container_that_was_killed_is_replaced(docked: Sandbox) -> None:
    before = containers()
    with open_sandbox(docked.config) as sandbox:
        for name in containers() - before:
            subprocess.run([client(), "kill", name], check=True, capture_output=True)
        verdicts = Grader(sandbox).grade([GradeJob("f = abs", "f", ("assert f(-1) == 1",))] * 2)
    assert [verdict.checks for verdict in verdicts] == [(CheckStatus.PASSED,)] * 2


def containers(*status: str) -> set[str]:
    """Names of our containers, of any status or of the given one."""
    wanted = ["name=harness-box-", *(f"status={item}" for item in status)]
    filters = [part for item in wanted for part in ("--filter", item)]
    listing = [client(), "ps", "--all", "--format", "{{.Names}}", *filters]
    found = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    return set(found.split())


def client() -> str:
    found = shutil.which("docker") or shutil.which("podman")
    assert found is not None, os.environ["PATH"]
    return found
