"""Verbs around people: the review page and blind comparison."""

from typing import Final

import typer

app: Final = typer.Typer(rich_markup_mode=None)
