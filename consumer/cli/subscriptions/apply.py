"""``leveret subscriptions apply | schema``: bring subscriptions files into the store.

Data flow: files, folders, stdin -> parse_files -> merge in one transaction -> the changes, field by field.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import orjson
import typer

from consumer.cli.shared.consent import agreed, owed_by
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, demand_terminal, errors_in_one_line, print_json, show, warn
from consumer.cli.subscriptions.shared import change, described
from consumer.core.changes.diff import FieldChange, differences
from consumer.core.changes.file import Parsed, parse_files
from consumer.core.changes.json_schema import subscriptions_schema
from consumer.core.changes.merge import Merge, StoredEntry, date_secrets, merge
from consumer.core.changes.owed import Owed, removal_lines
from consumer.core.changes.steps import require_only
from consumer.core.changes.view import identity
from consumer.core.errors import ConfigError
from consumer.core.text.printable import printable
from consumer.edges.process.fresh_secrets import fresh_secret
from consumer.settings import Settings, load_settings

ENDINGS = (".yaml", ".yml", ".json")
"""Endings of the subscriptions files in a folder."""

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
    as_json: AsJson = False


def register(app: typer.Typer) -> None:
    """Add the commands to *app*."""
    app.command(
        "apply",
        epilog=examples(
            "leveret subscriptions apply subscriptions.yaml",
            "leveret subscriptions apply --dry-run --prune subscriptions/",
            "leveret subscriptions apply - < subscriptions.yaml",
        ),
    )(takes(Apply)(apply))
    app.command("schema", epilog=examples("leveret subscriptions schema > subscriptions.schema.json"))(schema)


def apply(options: Apply) -> None:
    """Bring files into the store; a second time changes nothing. A generated secret is shown once, here.

    The command asks before --prune removes a subscription with waiting or parked deliveries, or while the
    broker cannot be asked. It also asks before it removes every subscription because no file names one.
    Without a terminal it then needs --yes.
    """
    with errors_in_one_line():
        settings = load_settings()
        parsed = parse_files(list(_read(options.files)), settings.subscription_rules())
        merged, owed = _applied(settings, parsed, options)
    for warning in parsed.warnings:
        warn(warning)
    for entry in merged.still_disabled:
        since = f"{entry.disabled_at} ({entry.disabled_reason})"
        remedy = "change its url or apply with --enable"
        warn(f"{entry.tenant}/{entry.label} stays disabled since {since}; {remedy}")
    _print_json(merged, options, owed) if options.as_json else _print_text(merged, options)


def schema() -> None:
    """Print the JSON Schema of a subscriptions file, for editors, with the retry policies of the settings."""
    with errors_in_one_line():
        document = subscriptions_schema(load_settings().subscription_rules().policies)
    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


def _applied(settings: Settings, parsed: Parsed, options: Apply) -> tuple[Merge, Owed]:
    """Count the deliveries that a prune would destroy, ask, and merge; return also the deliveries' counts.

    Raises:
        BadParameter: stdin is not a terminal, so that nobody can answer.
        Exit: the answer was no.
    """

    def step(kept: Sequence[StoredEntry]) -> Merge:
        merged = merge(kept, parsed.entries, fresh_secret, prune=options.prune, enable=options.enable)
        return date_secrets(merged, time.time())

    if not options.prune:
        return change(settings, step, write=not options.dry_run), Owed()
    meant = change(settings, step, write=False)
    owed = owed_by(settings, meant.removed)
    if options.dry_run:
        for line in removal_lines(owed, meant.removed, meant.added):
            warn(line)
        return meant, owed
    if not (agreed(owed, meant, yes=options.yes) and _all_may_go(owed, parsed, meant, options)):
        typer.echo("nothing was removed", err=True)
        raise typer.Exit(1)
    by = f"leveret subscriptions apply --prune {' '.join(options.files)}"
    return change(settings, lambda kept: require_only(step(kept), meant.removed), by=by), owed


def _all_may_go(owed: Owed, parsed: Parsed, meant: Merge, options: Apply) -> bool:
    """Ask before every subscription goes because no file names one, unless the user already agreed.

    Raises:
        BadParameter: stdin is not a terminal, so that nobody can answer.
    """
    count = len(meant.removed)
    if parsed.entries or not count or owed or options.yes:
        return True
    demand_terminal(f"the files name no subscription, and --prune would remove all {count}; ")
    return typer.confirm(f"The files name no subscription. Remove all {count}?", err=True)


def _read(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield name and text of each file, and each file once."""
    if paths.count("-") > 1:
        raise typer.BadParameter("- is given twice; stdin can be read only once")
    for file in dict.fromkeys(file for path in paths for file in _files(path)):
        yield file, _text(file)


def _files(path: str) -> Iterable[str]:
    if path == "-" or not os.path.isdir(path):
        return [path]
    found: list[str] = []
    for folder, inner, names in os.walk(path):
        # hidden folders, such as those behind a mounted Kubernetes volume, are skipped
        inner[:] = [name for name in inner if not name.startswith(".")]
        visible = (name for name in names if not name.startswith(".") and name.endswith(ENDINGS))
        found += (os.path.join(folder, name) for name in visible)
    if not found:
        raise ConfigError(f"{path}: holds no {', '.join(ENDINGS)} file; name another folder or a file")
    return sorted(found)


def _text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as UTF-8") from None


def _changes(merged: Merge) -> Iterator[tuple[str, StoredEntry, Sequence[FieldChange]]]:
    """Yield the change of each entry, and the fields that differ."""
    for entry in merged.added:
        yield "added", entry, differences(None, entry)
    for old, entry in zip(merged.replaced, merged.changed, strict=True):
        yield "changed", entry, differences(old, entry)
    for entry in merged.unchanged:
        yield "unchanged", entry, ()
    for entry in merged.removed:
        yield "removed", entry, ()


def _print_json(merged: Merge, options: Apply, owed: Owed) -> None:
    generated = set() if options.dry_run else {entry.id for entry in merged.generated}
    for word, entry, fields in _changes(merged):
        row: dict[str, object] = {"change": word, **identity(entry), "dry_run": options.dry_run}
        if word == "changed":
            row["fields"] = [field._asdict() for field in fields]
        if word == "removed":
            row |= owed.fields(entry.id)
        if entry.id in generated:
            row["secret"] = entry.secrets[0].get_secret_value()
        print_json(row)


def _print_text(merged: Merge, options: Apply) -> None:
    for word, entry, fields in _changes(merged):
        if word == "unchanged":
            continue
        if not options.dry_run:
            typer.echo(f"{word} {described(entry)}")
            continue
        typer.echo(f"{_SIGNS[word]} {described(entry)}")
        for field in fields:
            old = "" if word == "added" else f"{show(field.old)} -> "
            typer.echo(printable(f"    {field.field}: {old}{show(field.new)}"))
    if not options.dry_run:
        for entry in merged.generated:
            secret = entry.secrets[0].get_secret_value()
            typer.echo(f"secret of {entry.tenant}/{entry.label}, shown this once: {secret}")
    counts = [f"{len(getattr(merged, word))} {word}" for word in ("added", "changed", "unchanged", "removed")]
    typer.echo(", ".join(counts) + ("; dry run: nothing was written" if options.dry_run else ""))
