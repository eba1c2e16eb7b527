"""What the tests of importers share: reading a folder of small logs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from harness_core.importers.base import ImportContext, RawRecord, Tally
from harness_core.importers.catalogue import IMPORTERS
from harness_core.importers.config import IngestConfig
from harness_core.importers.framing import Layout, read_records
from harness_core.importers.rejects import Reject
from harness_core.trajectories.schema import TaskSpec, Trajectory

CONFIG = IngestConfig(
    sources=(),
    max_reject_rate=0.0,
    max_record_bytes=1 << 24,
    max_depth=64,
    max_generated_checks=100,
    max_controller_share=0.5,
)


@dataclass(frozen=True)
class Imported:
    trajectories: list[Trajectory]
    tasks: dict[str, TaskSpec]
    rejects: list[Reject]
    tally: Tally

    @property
    def rules(self) -> list[str]:
        return [reject.rule_id for reject in self.rejects]


ReadFolder = Callable[..., Imported]
ReadBytes = Callable[..., list[RawRecord | Reject]]


@pytest.fixture
def read_folder() -> ReadFolder:
    def read(name: str, folder: Path, **changes: int) -> Imported:
        context = ImportContext(source="test", config=CONFIG.model_copy(update=changes))
        items = list(IMPORTERS[name].read(folder, context))
        return Imported(
            trajectories=[item for item in items if isinstance(item, Trajectory)],
            tasks={item.task_id: item for item in items if isinstance(item, TaskSpec)},
            rejects=[item for item in items if isinstance(item, Reject)],
            tally=context.tally,
        )

    return read


@pytest.fixture
def read_bytes(tmp_path: Path) -> ReadBytes:
    def read(
        content: bytes, *, layout: Layout = Layout.RECORD, name: str = "log.jsonl", **changes: int
    ) -> list[RawRecord | Reject]:
        (tmp_path / name).write_bytes(content)
        context = ImportContext(source="test", config=CONFIG.model_copy(update=changes))
        return list(read_records(tmp_path, PurePosixPath(name), context, layout=layout))

    return read
