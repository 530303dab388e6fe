"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["print_json", "print_table", "tell"]


def print_json(found: Any) -> None:
    """Print one object; null stands for what is not a number."""
    click.echo(json.dumps(_plain(found), ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Print a table; a row of two cells has a note for the rest."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=140)
    if title:
        click.echo(title)
    table = Table(box=None, pad_edge=False, show_header=any(headings))
    for heading in headings:
        table.add_column(heading, justify="left" if heading == headings[0] else "right")
    notes = []
    for row in rows:
        if len(row) < len(headings) and len(headings) > 2:
            notes.append(f"{row[0]}: {row[1]}")
        else:
            table.add_row(*map(Text, row))
    console.print(table)
    for note in notes:
        click.echo(note)


def tell(*lines: str) -> None:
    """Tell on standard error what is no result."""
    for line in lines:
        click.echo(line, err=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)
