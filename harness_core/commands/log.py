"""What the verbs say of their progress, on stderr."""

import logging

from rich.console import Console
from rich.logging import RichHandler


def log_to_stderr(*, quiet: bool = False) -> None:
    """Show messages of the package; `quiet` leaves refusals only. A second call adds nothing."""
    logger = logging.getLogger("harness")
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    if not logger.handlers:
        console = Console(stderr=True)
        logger.addHandler(RichHandler(console=console, show_path=False, show_level=False))
        logger.propagate = False
