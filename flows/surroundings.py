"""What Prefect must be told before it is imported, where no `prefect.toml` says it."""

import os
from pathlib import Path


def prepare_prefect(root: Path) -> None:
    """Keep Prefect's state below the working folder and give its embedded server time to start.

    A value that the user has set is kept.
    """
    for name, value in {
        "PREFECT_HOME": str(root / ".prefect"),
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    }.items():
        os.environ.setdefault(name, value)
    # Prefect makes the last folder of this path only, and its server then dies without a word.
    Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)
