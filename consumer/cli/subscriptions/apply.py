"""``leveret subscriptions apply | schema``: bring subscriptions files into the store.

Data flow: files, folders, stdin -> source of the subscriptions, one change -> the changes, field by field.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

import orjson
import typer

from consumer.cli.remote.choice import refuse_remote
from consumer.cli.shared.consent import agreed
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import (
    AsJson,
    complain,
    demand_terminal,
    errors_in_one_line,
    print_json,
    show,
    warn,
)
from consumer.cli.subscriptions.files import read_files
from consumer.cli.subscriptions.shared import described
from consumer.cli.subscriptions.source import Subscriptions, subscriptions
from consumer.cli.values.subscriptions import PLAN, Files, How
from consumer.core.changes.json_schema import subscriptions_schema
from consumer.core.changes.report import Report, with_counts
from consumer.core.errors import LeveretError
from consumer.core.text.printable import printable
from consumer.settings import load_settings

LOOK_S = 1.0
"""Pause between two looks at the files with --watch, in seconds."""

_SIGNS = {"added": "+", "changed": "~", "removed": "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """The command line of ``leveret subscriptions apply``."""

    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Subscriptions files, or folders of them; - is stdin."),
    ]
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show each change, field by field, and write nothing.")
    ] = False
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove subscriptions that the files do not name.")
    ] = False
    enable: Annotated[
        bool,
        typer.Option(
            "--enable",
            help="Enable subscriptions again that were disabled by hand, after a 410 or a long failure.",
        ),
    ] = False
    yes: Annotated[
        bool, typer.Option("--yes", help="Let --prune remove subscriptions with deliveries, or all.")
    ] = False
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Apply again after each change of the files, until Ctrl-C."),
    ] = False
    as_json: AsJson = False


def register(app: typer.Typer) -> None:
    """Add the commands to *app*."""
    app.command(
        "apply",
        epilog=examples(
            "leveret subscriptions apply subscriptions.yaml",
            "leveret subscriptions apply --dry-run --prune subscriptions/",
            "leveret subscriptions apply - < subscriptions.yaml",
            "leveret subscriptions apply --watch subscriptions/",
        ),
    )(takes(Apply)(apply))
    app.command("schema", epilog=examples("leveret subscriptions schema > subscriptions.schema.json"))(schema)


def apply(options: Apply) -> None:
    """Bring files into the store; a second time changes nothing. A generated secret is shown once, here.

    The command asks before --prune removes a subscription with waiting or parked deliveries, or while the
    broker cannot be asked. It also asks before it removes every subscription because no file names one.
    Without a terminal it then needs --yes.
    """
    if options.watch:
        _watch(options)
        return
    with errors_in_one_line():
        _apply_once(subscriptions(), read_files(options.files), options)


def _apply_once(source: Subscriptions, files: list[tuple[str, str]], options: Apply) -> None:
    """Apply the files and print the changes.

    Raises:
        LeveretError: a file has a fault, or store or server refuse the change.
        BadParameter, Exit: nobody agreed to a removal.
    """
    given = Files(files=files, prune=options.prune, enable=options.enable)
    report = _applied(source, given, options)
    for warning in report.warnings:
        warn(warning)
    _print_json(report, options) if options.as_json else _print_text(report, options)


def _watch(options: Apply) -> None:
    """Apply the files, and again after each change of them; a fault is printed, and ends nothing.

    Raises:
        BadParameter: stdin cannot be watched, or a prune could ask.
    """
    if "-" in options.files:
        raise typer.BadParameter("--watch cannot look at stdin again; name files or folders")
    if options.prune and not options.yes:
        raise typer.BadParameter("--watch cannot ask before it removes; give --yes, or leave --prune out")
    done: list[tuple[str, str]] | None = None
    complained = ""
    try:
        while True:
            try:
                files = read_files(options.files)
                if files != done:
                    _apply_once(subscriptions(), files, options)
                    done, complained = files, ""
            except (LeveretError, OSError) as error:
                if str(error) != complained:  # tried again, but reported once
                    complain(error)
                complained = str(error)
            time.sleep(LOOK_S)
    except KeyboardInterrupt:
        return


def schema() -> None:
    """Print the JSON Schema of a subscriptions file, for editors, with the retry policies of the settings."""
    refuse_remote("`leveret subscriptions schema`")
    with errors_in_one_line():
        document = subscriptions_schema(load_settings().subscription_rules().policies)
    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


def _applied(source: Subscriptions, files: Files, options: Apply) -> Report:
    """Plan the change if it may remove subscriptions, ask, and make it.

    Raises:
        BadParameter: stdin is not a terminal, so that nobody can answer.
        Exit: the answer was no.
    """
    if not files.prune:
        return source.apply(files, PLAN if options.dry_run else How())
    planned = source.apply(files, PLAN)
    if options.dry_run:
        for line in planned.losses:
            warn(line)
        return planned
    if not (agreed(planned, yes=options.yes) and _all_may_go(planned, options)):
        typer.echo("nothing was removed", err=True)
        raise typer.Exit(1)
    by = f"leveret subscriptions apply --prune {' '.join(options.files)}"
    return with_counts(source.apply(files, How(may_remove=planned.removed_ids, by=by)), planned)


def _all_may_go(planned: Report, options: Apply) -> bool:
    """Ask before every subscription goes because no file names one, unless the user already agreed.

    Raises:
        BadParameter: stdin is not a terminal, so that nobody can answer.
    """
    count = len(planned.removed_ids)
    if planned.named or not count or planned.lost or options.yes:
        return True
    demand_terminal(f"the files name no subscription, and --prune would remove all {count}; ")
    return typer.confirm(f"The files name no subscription. Remove all {count}?", err=True)


def _print_json(report: Report, options: Apply) -> None:
    for row in report.changes:
        shown: dict[str, object] = {"change": row.change, **row.identity, "dry_run": options.dry_run}
        if row.change == "changed":
            shown["fields"] = [field._asdict() for field in row.fields]
        if row.secret is not None:
            shown["secret"] = row.secret
        print_json({**shown, **(row.owed or {})})


def _print_text(report: Report, options: Apply) -> None:
    for row in report.changes:
        if row.change == "unchanged":
            continue
        if not options.dry_run:
            typer.echo(f"{row.change} {described(row.identity)}")
            continue
        typer.echo(f"{_SIGNS[row.change]} {described(row.identity)}")
        for field in row.fields:
            old = "" if row.change == "added" else f"{show(field.old)} -> "
            typer.echo(printable(f"    {field.field}: {old}{show(field.new)}"))
    for row in report.changes:
        if row.secret is not None:
            name = f"{row.identity['tenant']}/{row.identity['name']}"
            typer.echo(f"secret of {name}, shown this once: {row.secret}")
    counts = [f"{len(report.of(word))} {word}" for word in ("added", "changed", "unchanged", "removed")]
    typer.echo(", ".join(counts) + ("; dry run: nothing was written" if options.dry_run else ""))
