"""What is recorded of a run, and the port of the tracker that records it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import ConfigDict, Field

from harness_core.records import Record


class RunContext(Record):
    """What the caller of a run knows about it and its files do not say."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    run_name: str
    """Name for people; the flow run and the tracked run share it."""
    params: dict[str, Any]
    """The whole of `params.yaml`, overrides applied."""
    run_key: str = ""
    """Identity of the run: the same key is never registered twice. Empty: made from what the run
    consists of (model, evaluation, parameters)."""
    git_sha: str | None = None
    dirty: bool = False
    """Whether the working tree differs from `git_sha`."""
    data_digests: dict[str, str] = Field(default_factory=dict)
    """Path below the working folder → DVC digest."""


class DatasetUse(Record):
    """One table that a run has read."""

    name: str
    path: str
    digest: str
    n_rows: int | None
    purpose: str
    """`training`, `evaluation`, …"""


class RunTracker(Protocol):
    """Keeps runs with their parameters, metrics and files."""

    def find(self, run_key: str) -> str | None:
        """The finished run of a key."""

    def close_dead(self) -> int:
        """End our runs that nobody works on any more; call only while no other run is logged."""

    def start(self, name: str, *, tags: Mapping[str, str], parent: str = "") -> str:
        """Open a run and return its id."""

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, str] | None = None,
        metrics: Mapping[str, float] | None = None,
        datasets: Sequence[DatasetUse] = (),
    ) -> None:
        """Add parameters, metrics and data sets to an open run."""

    def attach(self, run_id: str, path: Path, *, folder: str = "") -> None:
        """Copy a file, or the content of a folder, to a folder of the run."""

    def finish(self, run_id: str) -> None:
        """Close a run: nothing is missing."""

    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set tags, also on a finished run."""
