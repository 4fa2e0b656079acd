"""``leveret doctor``: check everything around the daemon, and name each fault with its remedy.

Data flow: settings -> consumer.edges.doctor -> one line for each finding -> exit code 0 or 1.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated, Final

import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json
from consumer.core.errors import ConfigError
from consumer.core.tools.doctor.finding import (
    Check,
    Finding,
    Level,
    fault,
    has_fault,
    note,
    summary,
    warning,
    well,
)
from consumer.edges.doctor.examine import ENDPOINTS, Examination
from consumer.edges.doctor.in_time import LIMIT_S, overdue
from consumer.edges.doctor.watch import watched
from consumer.settings import Loaded, load

ALL_S: Final = 175.0
"""Longest time of the whole command, in seconds: both rounds of looks, and their ends."""

CLOSE_S: Final = 5.0
"""Longest time to close everything after the last line, in seconds."""

SETTINGS: Final = "the settings"

COLORS = {Level.FAULT: "red", Level.WARNING: "yellow", Level.NOTE: "cyan", Level.OK: "green"}

Endpoints = Annotated[
    int,
    typer.Option(min=0, max=1_000_000, help="Most endpoints to connect to; no webhook is sent to them."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Leave out the lines of checks that are well.")]


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "doctor", epilog=examples("leveret doctor", "leveret doctor --quiet", "leveret doctor --json")
    )(doctor)


def doctor(endpoints: Endpoints = ENDPOINTS, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Check everything around the daemon: one line each, with the remedy. Exit 1 if one is a fault.

    It asks broker, store, clocks, name servers and endpoints. It changes nothing and sends no webhook.
    """
    with errors_in_one_line():
        code = run(Report(quiet=quiet, as_json=as_json), endpoints)
    raise typer.Exit(code)


@dataclass(slots=True)
class Report:
    """The lines of a run; only the first caller prints them."""

    quiet: bool
    as_json: bool
    code: int = 1  #: exit code of the lines that were printed
    _turn: Lock = field(default_factory=Lock, init=False)

    def show(self, findings: Sequence[Finding]) -> int:
        """Print *findings* unless another thread has begun to print; return the exit code."""
        if self._turn.acquire(blocking=False):
            self.code = 1 if has_fault(findings) else 0
            self._print(findings)
        return self.code

    def _print(self, findings: Sequence[Finding]) -> None:
        for each in findings:
            if self.quiet and each.level is Level.OK:
                continue
            if self.as_json:
                print_json(each.as_dict())
            else:
                _print(each)
        if not self.as_json:
            typer.echo(summary(findings))


def run(report: Report, endpoints: int = ENDPOINTS, limit_s: float = ALL_S, look_s: float = LIMIT_S) -> int:
    """Examine everything and report it; return the exit code.

    Args:
        report: Prints the findings.
        endpoints: Endpoints that are connected to, at most.
        limit_s: Longest time in seconds; after it the findings so far are printed and the process ends.
        look_s: Longest time of one look, in seconds.
    """
    known: list[Finding] = []
    begun: list[Examination] = []
    leave = os._exit if sys.stdout is sys.__stdout__ else _stay

    def at_limit() -> int:
        late = begun[0].unfinished(limit_s) if begun else [overdue(Check.SETTINGS, SETTINGS, limit_s)]
        return report.show([*known, *late])

    async def examine(examination: Examination) -> int:
        code = report.show([*known, *await examination.run()])
        ends.enter_context(watched(CLOSE_S, lambda: code, leave))  # the loop waits for its threads
        return code

    with ExitStack() as ends:
        ends.enter_context(watched(limit_s, at_limit, leave))
        try:
            loaded = load()
            loaded.settings.amqp_urls()
            loaded.settings.postgres_url()
        except ConfigError as error:
            remedy = "correct it; `leveret config check` tries the settings alone"
            return report.show(
                [fault(Check.SETTINGS, SETTINGS, line, remedy) for line in str(error).splitlines()]
            )
        known += _of_settings(loaded)
        begun.append(Examination(loaded.settings, endpoints, look_s))
        return asyncio.run(examine(begun[0]))


def _stay(_code: int) -> None:
    """Do nothing: a program that runs the command inside itself, with a stdout of its own, must not end."""


def _of_settings(loaded: Loaded) -> Sequence[Finding]:
    place = str(loaded.file) if loaded.file else "no file, only variables"
    found = [well(Check.SETTINGS, place, "can be used")]
    if loaded.settings.sending.mode == "dry":
        text = "dry: every webhook counts as delivered, and none is sent"
        found.append(warning(Check.SETTINGS, "[sending] mode", text, "set it to live"))
    if loaded.settings.failpoint is not None:
        text = "the daemon kills itself at a point that the crash tests name"
        found.append(warning(Check.SETTINGS, "failpoint", text, "remove LEVERET_FAILPOINT"))
    if loaded.settings.history.keep != "all":
        text = "so subscriptions without matching events cannot be found"
        found.append(note(Check.SETTINGS, f"[history] keep is {loaded.settings.history.keep}", text))
    return found


def _print(each: Finding) -> None:
    row = each.as_dict()
    head = f"{row['level']:<8}{row['check']:<14}"
    if sys.stdout.isatty():
        head = typer.style(f"{row['level']:<8}", fg=COLORS[each.level]) + f"{row['check']:<14}"
    remedy = f"; {row['remedy']}" if row["remedy"] else ""
    typer.echo(f"{head}{row['subject']}: {row['text']}{remedy}")
