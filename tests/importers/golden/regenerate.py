"""Rewrites what each golden log is expected to become. Run it, then review the difference.

python -m tests.importers.golden.regenerate
"""

from pathlib import Path
from typing import Any

import orjson

from harness_core.importers.base import ImportContext
from harness_core.importers.catalogue import IMPORTERS
from harness_core.importers.config import IngestConfig
from harness_core.trajectories.schema import TaskSpec, Trajectory

GOLDEN = Path(__file__).parent


def outcome_of(name: str) -> dict[str, Any]:
    """All that an importer makes of its golden log, as JSON."""
    config = IngestConfig(
        sources=(),
        max_reject_rate=0.0,
        max_record_bytes=1 << 20,
        max_depth=64,
        max_generated_checks=10,
        max_controller_share=0.5,
    )
    context = ImportContext(source=f"golden-{name}", config=config)
    items = list(IMPORTERS[name].read(GOLDEN / name / "logs", context))
    return {
        "n_records": context.tally.n_records,
        "warnings": dict(context.tally.warnings),
        "tasks": [item.model_dump(mode="json") for item in items if isinstance(item, TaskSpec)],
        "trajectories": [
            item.model_dump(mode="json", exclude={"provenance": {"source_sha256"}})
            for item in items
            if isinstance(item, Trajectory)
        ],
        "rejects": [item.place for item in items if not isinstance(item, TaskSpec | Trajectory)],
    }


def main() -> None:
    for name in IMPORTERS:
        content = orjson.dumps(outcome_of(name), option=orjson.OPT_INDENT_2)
        (GOLDEN / name / "expected.json").write_bytes(content + b"\n")


if __name__ == "__main__":
    main()
