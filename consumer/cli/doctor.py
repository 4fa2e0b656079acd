"""``leveret doctor``: check everything around the daemon, and name each fault with its remedy.

Data flow: settings -> consumer.edges.doctor -> one line for each finding -> exit code 0 or 1.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Annotated

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
from consumer.edges.doctor.examine import ENDPOINTS, examine
from consumer.settings import Loaded, load

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
        findings = _findings(endpoints)
    shown = [each for each in findings if each.level is not Level.OK] if quiet else findings
    for each in shown:
        if as_json:
            print_json(each.as_dict())
        else:
            _print(each)
    if not as_json:
        typer.echo(summary(findings))
    raise typer.Exit(1 if has_fault(findings) else 0)


def _findings(endpoints: int) -> Sequence[Finding]:
    try:
        loaded = load()
        loaded.settings.amqp_urls()
        loaded.settings.postgres_url()
    except ConfigError as error:
        remedy = "correct it; `leveret config check` tries the settings alone"
        return [fault(Check.SETTINGS, "the settings", line, remedy) for line in str(error).splitlines()]
    return [*_of_settings(loaded), *asyncio.run(examine(loaded.settings, endpoints))]


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
