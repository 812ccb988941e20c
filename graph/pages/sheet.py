"""A table as text, to be drawn on the terminal or written into a Markdown page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Sheet:
    """A table before it is drawn."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def drawn(sheet: Sheet) -> Table:
    """For the terminal. Cells are shown as they are: a name that a model chose is no markup."""
    table = Table(title=sheet.title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for name in sheet.head:
        table.add_column(name, overflow="fold")  # a name that is cut off could be another's
    for row in sheet.rows:
        table.add_row(*map(Text, row))
    return table


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
