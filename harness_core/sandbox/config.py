"""Parameters of the sandbox: the section `sandbox`."""

from typing import Literal

from pydantic import Field

from harness_core.records import Section


class SandboxConfig(Section):
    """Limits of one candidate program and the boxes they run in."""

    backend: Literal["bubblewrap", "docker", "unsafe_local"]
    """`docker` also takes podman. `unsafe_local` isolates nothing: its rows are marked untrusted
    and never promoted."""
    docker_image: str = Field(min_length=1)
    """Image of the backend `docker`, with a `python3` of 3.11 or newer. It is never pulled."""
    n_workers: int = Field(ge=1)
    """Boxes that run side by side."""
    cpu_s: int = Field(ge=1)
    """CPU time of one program over all its calls."""
    call_cpu_s: float | None = Field(default=None, gt=0)
    """CPU time of one call; a slower one is given up, and a fresh process goes on with the next.
    Null: a call may use all the time there is, and takes the others with it if that is too little.
    """
    max_slow_calls: int | None = Field(default=None, ge=1)
    """Slow calls after which a program is asked no more; null: while it has CPU time left."""
    wall_s: float = Field(gt=0)
    """Wall time of one program over all its calls."""
    memory_bytes: int = Field(ge=64 << 20)
    """Address space of one program."""
    n_processes: int = Field(ge=8)
    """Processes of one box, its own five included. A program cannot start any, whatever this is:
    the number holds only if that ban is broken."""
    n_files: int = Field(ge=8)
    """Open files of one program."""
    file_bytes: int = Field(ge=0)
    """Largest file that a program may write."""
    scratch_bytes: int = Field(ge=1 << 20)
    """Size of the private scratch folder."""
    value_bytes: int = Field(ge=1 << 10)
    """Longest encoded return value; a longer one is a failure."""
    output_bytes: int = Field(ge=1 << 10)
    """All encoded return values of one program together. What it prints goes nowhere."""
    max_value_depth: int = Field(ge=1)
    """Deepest nesting of a return value; a deeper one is a failure."""
