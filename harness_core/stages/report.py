"""What a stage says about its run: key, digests of its outputs, figures."""

from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from harness_core.records import Record
from harness_core.tables import publish_bytes


class StageReport(Record):
    """The result of one stage. Holds no time and no absolute path: equal runs give equal bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    stage: str
    key: str = ""
    """Digest of everything that the outputs depend on: code, parameters, inputs."""
    outputs: dict[str, str] = Field(default_factory=dict)
    """Path relative to the working folder → content digest."""
    figures: dict[str, Any] = Field(default_factory=dict)
    """Counts and measures for people, JSON values only."""

    def write(self, path: Path) -> None:
        """Publish as indented JSON."""
        publish_bytes(path, self.model_dump_json(indent=2).encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> "StageReport":
        """Read what `write` wrote."""
        return cls.model_validate_json(path.read_bytes())
