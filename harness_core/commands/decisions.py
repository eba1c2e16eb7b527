"""Verbs around decisions that were logged: their outcomes, why, what another model would say."""

from typing import Final

import typer

app: Final = typer.Typer(rich_markup_mode=None)
