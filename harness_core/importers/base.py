"""What an importer is: a folder of one source in; trajectories, tasks and rejects out."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from harness_core.importers.config import IngestConfig
from harness_core.importers.rejects import Reject, UnreadableError, rejected
from harness_core.trajectories.schema import Provenance, TaskSpec, Trajectory

SOURCE_FILE = "source.json"
"""Says which importer reads a source; lies beside the landed files and is never read as a log."""


class LogRecord(BaseModel):
    """What a log says: known keys are checked strictly, unknown ones are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """One parsed record and where it stands."""

    value: Any
    raw: bytes
    path: str
    file_sha256: str
    byte_offset: int
    line: int
    key: str | None = None
    """Key of a member of an object, where the members are the records."""


@dataclass(slots=True)
class Tally:
    """What was read of one source."""

    n_records: int = 0
    warnings: Counter[str] = field(default_factory=Counter)
    """Rule → number of records that were read although something was odd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportContext:
    """What an importer knows beside the files."""

    source: str
    config: IngestConfig
    tally: Tally = field(default_factory=Tally)

    def warn(self, rule_id: str) -> None:
        """Count something odd that was read all the same."""
        self.tally.warnings[rule_id] += 1

    def provenance(self, importer: str, record: RawRecord) -> Provenance:
        """Where what is made of a record came from."""
        return Provenance(
            importer=importer,
            source=self.source,
            path=record.path,
            source_sha256=record.file_sha256,
            line=record.line,
        )

    def reject(self, record: RawRecord, error: UnreadableError) -> Reject:
        """The reject of a record that parsed."""
        return rejected(
            error,
            record.raw,
            source=self.source,
            path=record.path,
            byte_offset=record.byte_offset,
            line=record.line,
        )


Item = Trajectory | TaskSpec | Reject


class Importer(Protocol):
    """Reads the logs of one format."""

    @property
    def name(self) -> str:
        """Name on the command line and in `source.json`."""

    def reads(self, path: PurePosixPath) -> bool:
        """Whether a file of this name can belong to the format."""

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """How sure it is, from 0 to 1, that a file with this beginning has the format."""

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """All that a source folder holds. Every trajectory has its task among the items."""


def log_files(folder: Path, importer: Importer) -> list[PurePosixPath]:
    """Files of a source folder that an importer reads, sorted; hidden files are not logs."""
    found = (
        PurePosixPath(item.relative_to(folder).as_posix())
        for item in folder.rglob("*")
        if not item.is_dir()
    )
    return sorted(path for path in found if is_log(path) and importer.reads(path))


def is_log(path: PurePosixPath) -> bool:
    """Whether a file of a source folder can be a log at all."""
    return not (
        path == PurePosixPath(SOURCE_FILE)
        or path.suffix == ".dvc"
        or any(part.startswith(".") for part in path.parts)
    )


def has_suffix(path: PurePosixPath, *suffixes: str) -> bool:
    """Whether a name ends in one of the suffixes, compressed or not."""
    name = path.name.lower()
    return name.removesuffix(".xz").removesuffix(".gz").endswith(suffixes)


def build_items(
    record: RawRecord | Reject,
    context: ImportContext,
    build: Callable[[RawRecord], Iterable[Item]],
) -> list[Item]:
    """What `build` makes of a record, or its reject: a record counts whole or not at all."""
    if isinstance(record, Reject):
        return [record]
    try:
        return list(build(record))
    except UnreadableError as error:
        return [context.reject(record, error)]
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        return [context.reject(record, UnreadableError("S-SCHEMA", first["msg"], field=name))]
