"""What every command prints: tables for people, one JSON object per line for programs, errors in one line.

Data flow: rows -> table or JSON lines on stdout; an error of ours -> lines on stderr and exit code 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, NoReturn

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from consumer.core.errors import LeveretError
from consumer.core.text.printable import printable
from topology.errors import TopologyError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
"""The option that every listing takes."""

_PIPE_WIDTH = 10_000
"""Columns when stdout is no terminal: nothing is wrapped or cut off there."""


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turn an error of ours or of the disk into one line per problem on stderr, and exit code 1."""
    try:
        yield
    except (LeveretError, TopologyError) as error:
        fail(str(error))
    except BrokenPipeError:
        raise  # who read our output has gone: the command line ends without a word
    except OSError as error:
        fail(_os_text(error))


def _os_text(error: OSError) -> str:
    text = error.strerror or str(error) or type(error).__name__
    if error.filename:
        return f"{error.filename}: {text}; check that it exists and its rights"
    return f"{text}; check the network, the disk and the limits of the system"


def fail(text: str) -> NoReturn:
    """Print each line of *text* on stderr and end with exit code 1."""
    for line in text.splitlines():
        typer.echo(f"leveret: {printable(line)}", err=True)
    raise typer.Exit(1)


def demand_terminal(what: str = "") -> None:
    """Go on where there is somebody to ask before something is taken away.

    Raises:
        BadParameter: there is nobody; *what* would be done stands in front of the remedy.
    """
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{what}there is no terminal to ask on; take --yes")


def warn(text: str) -> None:
    """Print each line of *text* on stderr as a warning."""
    for line in text.splitlines():
        typer.echo(f"leveret: warning: {printable(line)}", err=True)


def print_json(row: Mapping[str, object]) -> None:
    """Print *row* as one line, whatever a stranger's message put into it; on a terminal in plain ASCII."""
    typer.echo(json_line(row))


def json_line(row: Mapping[str, object]) -> str:
    """Write *row* as :func:`print_json` prints it, without the line's end."""
    if sys.stdout.isatty():  # JSON itself lets some characters through that a terminal obeys
        return json.dumps(row, default=str)
    try:
        return orjson.dumps(row).decode()
    except TypeError:  # a lone surrogate or a number over 64 bits
        return json.dumps(row, default=str)


def print_rows(
    columns: Sequence[str], rows: Sequence[Mapping[str, object]], *, as_json: bool, empty: str = "nothing"
) -> None:
    """Print *rows* as a table of *columns*, or all their fields as JSON lines; *empty* for people alone."""
    if as_json:
        for row in rows:
            print_json(row)
        return
    if not rows:
        typer.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(show(row.get(column))) for column in columns))
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console = Console(file=sys.stdout, highlight=False, width=_PIPE_WIDTH)
    console.print(table)


def print_fields(row: Mapping[str, object]) -> None:
    """Print one thing for people: a line for each of its fields."""
    width = max(map(len, row), default=0)
    for name, value in row.items():
        typer.echo(f"{name.replace('_', ' ').ljust(width)}  {show(value)}")


def print_text(text: str) -> None:
    """Print text of a stranger line by line, with nothing in it that a terminal obeys."""
    for line in text.splitlines():
        typer.echo(printable(line.expandtabs()))


def show(value: object) -> str:
    """Write one value of a table for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
    if isinstance(value, list | tuple):
        return " ".join(show(item) for item in value) or "-"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={show(item)}" for key, item in value.items()) or "-"
    return printable(str(value))
