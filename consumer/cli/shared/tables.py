"""Print a table: with Rich on a terminal, else as plain text of which no line is wrapped or cut."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print *rows*, each with the printable text of every column, under the names of *columns*."""
    heads = [column.replace("_", " ") for column in columns]
    console = Console(file=sys.stdout, highlight=False)
    if console.is_terminal:
        console.print(_table(heads, rows))
    else:
        _print_wide([heads, *rows])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _print_wide(lines: Sequence[Sequence[str]]) -> None:
    """Print the table for a file or a pipe; ten thousand rows take little time."""
    widths = [max(map(_cells, texts)) for texts in zip(*lines, strict=True)]
    text = "\n".join(
        "  ".join(cell + " " * (width - _cells(cell)) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    typer.echo(text)


def _cells(text: str) -> int:
    """Return the width of *text* in columns."""
    return len(text) if text.isascii() else cell_len(text)
