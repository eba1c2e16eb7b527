"""How a box is started by a container engine: docker, or podman where docker does not answer.

The container sees the read-only image, a scratch folder with a size limit and nothing of the host:
no network, no capabilities, no mounts. The sources of `inside` come in on standard input, so that
neither file permissions nor the place of the engine matter. Closing that input ends the runner and
with it the container, also when this process is killed.

The jail is entered inside as well. The image's own packages can be read, but are not on the path.
"""

import io
import os
import secrets
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Final

from harness_core.errors import IsolationUnavailable
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.launch import (
    FLAGS,
    INSIDE,
    LIBRARY_FOLDERS,
    NOBODY,
    PACKAGE_IN_BOX,
    SCRATCH,
    Launch,
    environment,
)

_ENGINES: Final = ("docker", "podman")
_PATIENCE_S: Final = 30.0
_COMPLAINT_CHARS: Final = 300
_INTERPRETER_BYTES: Final = 128 << 20
"""What the runner and the fork server may use beside one candidate and its files."""
_N_FILES: Final = 1024
"""Open files of the runner; podman would ask for more than a machine may allow."""
_ARCHIVE: Final = f"{SCRATCH}/inside.zip"
_ADVICE: Final = (
    "The backend `docker` needs docker or podman, an engine that runs and has the image "
    "`sandbox.docker_image` (with a `python3` of 3.11 or newer; a run pulls nothing), and a kernel "
    "with landlock and seccomp (5.13 or newer; the default profile of old engines blocks "
    "landlock). `sandbox.backend: bubblewrap` needs no engine."
)


def docked(config: SandboxConfig) -> Launch:
    """Launch a runner in a container.

    Raises:
        IsolationUnavailable: no engine answers, or it does not have the image.
    """
    engine = _find_engine(config.docker_image)
    name = f"harness-box-{secrets.token_hex(8)}"
    archive = _archive()
    command = (
        *(engine, "run", "--rm", "--interactive", "--pull", "never", "--name", name),
        *_restrictions(config),
        # As a working folder the scratch folder would be made in the image, and keep its mode.
        *("--workdir", "/", "--hostname", "box", "--no-healthcheck", "--log-driver", "none"),
        # Read by the interpreter itself; the rest of the environment is set by the bootstrap.
        *("--env", "PYTHONHASHSEED=0", "--env", "PYTHONPATH=", "--env", "LC_ALL=C.UTF-8"),
        *("--entrypoint", "python3", config.docker_image),
        *(*FLAGS, "-c", _bootstrap(len(archive))),
    )
    return Launch(
        command=command,
        environment=dict(os.environ),  # the client finds its engine by it; the box sees none of it
        readable=LIBRARY_FOLDERS,
        scratch=SCRATCH,
        layer="docker",
        advice=_ADVICE,
        preamble=archive,
        ending=(engine, "rm", "--force", name),
    )


def end_quietly(command: tuple[str, ...]) -> None:
    """Run the ending of a launch; what it should end may be gone already."""
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, check=False, capture_output=True, timeout=_PATIENCE_S)


def _restrictions(config: SandboxConfig) -> Iterator[str]:
    memory = config.memory_bytes + config.scratch_bytes + _INTERPRETER_BYTES
    yield from ("--network", "none", "--ipc", "none", "--read-only")
    yield from ("--user", f"{NOBODY}:{NOBODY}", "--cap-drop", "ALL")
    yield from ("--security-opt", "no-new-privileges")
    yield from ("--pids-limit", str(config.n_processes))
    yield from ("--ulimit", f"nofile={_N_FILES}:{_N_FILES}", "--ulimit", "core=0:0")
    yield from ("--memory", f"{memory}b", "--memory-swap", f"{memory}b")
    options = f"rw,noexec,nosuid,nodev,size={config.scratch_bytes},mode=1777"
    yield from ("--tmpfs", f"{SCRATCH}:{options}")


def _find_engine(image: str) -> str:
    """The client of the first engine that has the image."""
    complaints = []
    for engine in filter(None, map(shutil.which, _ENGINES)):
        inspect = (engine, "image", "inspect", "--format", "{{.Id}}", image)
        try:
            answer = subprocess.run(
                inspect, check=False, capture_output=True, text=True, timeout=_PATIENCE_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            complaints.append(f"{engine}: {error}")
            continue
        if answer.returncode == 0:
            return engine
        complaints.append(f"{engine}: {answer.stderr.strip()[:_COMPLAINT_CHARS]}")
    found = "; ".join(complaints) or "neither docker nor podman was found"
    raise IsolationUnavailable(
        f"{found}. If only the image is missing: `docker pull {image}`. {_ADVICE}"
    )


def _archive() -> bytes:
    """The sources of the runner as a zip file."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for package in PurePosixPath(PACKAGE_IN_BOX).parents[:-1]:
            archive.writestr(f"{package}/__init__.py", b"")
        for path in sorted(INSIDE.glob("*.py")):
            archive.writestr(f"{PACKAGE_IN_BOX}/{path.name}", path.read_bytes())
    return content.getvalue()


def _bootstrap(n_bytes: int) -> str:
    """Python source that puts the archive where it can be imported, and starts the runner."""
    return f"""
import os, sys
os.environ.clear()
os.environ.update({environment(SCRATCH)!r})
with open({_ARCHIVE!r}, "wb") as archive:
    while archive.tell() < {n_bytes}:
        archive.write(os.read(0, {n_bytes} - archive.tell()) or sys.exit("no sources came"))
sys.path.insert(0, {_ARCHIVE!r})
from harness_core.sandbox.inside import runner
sys.path.pop(0)
os.unlink({_ARCHIVE!r})
runner.main()
"""
