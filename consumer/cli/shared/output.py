"""Print the output of every command: tables for people, one JSON object per line for programs.

Data flow: rows -> table or JSON lines on stdout; an error of Leveret -> lines on stderr and exit code 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, NoReturn

import orjson
import typer

from consumer.core.errors import LeveretError
from consumer.core.text.printable import printable
from topology.errors import TopologyError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
"""The option that every listing takes."""


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Print each problem of a Leveret or file error as one line on stderr, and end with exit code 1."""
    try:
        yield
    except (LeveretError, TopologyError) as error:
        fail(str(error))
    except BrokenPipeError:
        raise  # the reader of our output has gone: the command line ends silently
    except OSError as error:
        fail(_os_text(error))


def complain(error: LeveretError | TopologyError | OSError) -> None:
    """Print each line of an error on stderr, as :func:`errors_in_one_line` does, and go on."""
    text = _os_text(error) if isinstance(error, OSError) else str(error)
    for line in text.splitlines():
        typer.echo(f"leveret: {printable(line)}", err=True)


def _os_text(error: OSError) -> str:
    text = error.strerror or str(error) or type(error).__name__
    if error.filename:
        return f"{error.filename}: {text}; check that the file exists and that you may read and write it"
    return f"{text}; check the network, the disk and the limits of the operating system"


def fail(text: str) -> NoReturn:
    """Print each line of *text* on stderr and end with exit code 1."""
    complain(LeveretError(text))
    raise typer.Exit(1)


def demand_terminal(what: str = "") -> None:
    """Check that somebody at a terminal can confirm a removal.

    Raises:
        BadParameter: stdin is not a terminal; the message begins with *what*, the planned removal.
    """
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{what}stdin is not a terminal, so nobody can be asked; give --yes")


def warn(text: str) -> None:
    """Print each line of *text* on stderr as a warning."""
    for line in text.splitlines():
        typer.echo(f"leveret: warning: {printable(line)}", err=True)


def print_json(row: Mapping[str, object]) -> None:
    """Print *row* as one line, safe even with hostile values; on a terminal in plain ASCII."""
    typer.echo(json_line(row))


def json_line(row: Mapping[str, object]) -> str:
    """Return *row* as :func:`print_json` prints it, without the line feed."""
    if sys.stdout.isatty():  # JSON leaves some characters unescaped that control a terminal
        return json.dumps(row, default=str)
    try:
        return orjson.dumps(row).decode()
    except TypeError:  # a lone surrogate or a number over 64 bits
        return json.dumps(row, default=str)


def print_rows(
    columns: Sequence[str], rows: Sequence[Mapping[str, object]], *, as_json: bool, empty: str = "nothing"
) -> None:
    """Print *rows* as a table of *columns*, or with all fields as JSON lines; print *empty* for no rows."""
    if as_json:
        if rows:
            typer.echo(
                "\n".join(map(json_line, rows))
            )  # each call of echo flushes: 10,000 of them take 0.1 s
        return
    if not rows:
        typer.echo(empty)
        return
    from consumer.cli.shared.tables import print_table  # noqa: PLC0415 (Rich costs 30 ms of CPU time)

    print_table(columns, [[show(row.get(column)) for column in columns] for row in rows])


def print_fields(row: Mapping[str, object]) -> None:
    """Print one object for people: a line for each of its fields."""
    width = max(map(len, row), default=0)
    for name, value in row.items():
        typer.echo(f"{name.replace('_', ' ').ljust(width)}  {show(value)}")


def print_text(text: str) -> None:
    """Print untrusted text line by line, without characters that control a terminal."""
    for line in text.splitlines():
        typer.echo(printable(line.expandtabs()))


def show(value: object) -> str:
    """Format one value of a table for people."""
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
