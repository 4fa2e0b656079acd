"""Write Markdown tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_LINE_BREAK = re.compile(r"\s*\n\s*")


def one_line(text: str) -> str:
    """Return *text* with its line breaks as spaces."""
    return _LINE_BREAK.sub(" ", text.strip())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with one line per row."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "".join("| " + " | ".join(_cell(cell) for cell in line) + " |\n" for line in lines)


def _cell(text: str) -> str:
    """Fit *text* into one cell, without the source of a number, which only readers of the code need."""
    return one_line(text).partition(" Source: ")[0].replace("``", "`").replace("|", "\\|")
