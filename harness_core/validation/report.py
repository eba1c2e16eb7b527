"""A summary of the data gate as one HTML file that needs no network, and the same as JSON.

Great Expectations' own Data Docs take their style from public servers; this page carries its own.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness_core.tables import publish_bytes
from harness_core.validation.verdicts import ExpectationVerdict

_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write_summary(
    folder: Path,
    verdicts: Sequence[ExpectationVerdict],
    *,
    counts: dict[str, int],
    warnings: Sequence[str],
) -> None:
    """Write `summary.html` and `summary.json` to the folder of the Data Docs."""
    page = _TEMPLATES.get_template("summary.html.jinja").render(
        verdicts=verdicts,
        counts=counts,
        warnings=warnings,
        n_failed=sum(not item.passed for item in verdicts),
        n_critical=sum(not item.passed and item.severity == "critical" for item in verdicts),
    )
    content: dict[str, Any] = {
        "counts": counts,
        "warnings": list(warnings),
        "expectations": [item.model_dump(mode="json") for item in verdicts],
    }
    publish_bytes(folder / "summary.html", page.encode())
    publish_bytes(
        folder / "summary.json",
        orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS),
    )
