"""The verb around the proxy."""

from typing import Final

import typer

app: Final = typer.Typer(rich_markup_mode=None)
