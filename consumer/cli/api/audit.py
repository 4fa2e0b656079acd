"""``leveret audit``: print who changed which object, newest first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from consumer.cli.shared.complete import tenant_names
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_rows
from consumer.core.message.parked import rfc3339
from consumer.core.store.audit import AuditFilter, AuditLine
from consumer.core.text.durations import parse_moment
from consumer.edges.store import opened_store
from consumer.settings import Settings, load_settings

COLUMNS = ("at", "who", "action", "target", "before", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line of ``leveret audit``."""

    tenant: Annotated[
        str | None, typer.Option(help="Only changes of this tenant.", autocompletion=tenant_names)
    ] = None
    who: Annotated[
        str | None, typer.Option(help="Only changes by this author, such as cli:root or token:0123456789ab.")
    ] = None
    action: Annotated[
        str | None, typer.Option(help="Only this action, such as subscription.added, or subscription.")
    ] = None
    target: Annotated[str | None, typer.Option(help="Only changes of this object, such as acme/shop.")] = None
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only changes since then: RFC 3339, or 2h.")
    ] = None
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Most lines.")] = 100
    as_json: AsJson = False


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "audit",
        epilog=examples(
            "leveret audit --since 1d", "leveret audit --tenant acme --action subscription --json"
        ),
    )(takes(Options)(audit))


def audit(options: Options) -> None:
    """Print who changed which object, with the values before and after, newest first; no secrets."""
    with errors_in_one_line():
        since = None if options.since is None else parse_moment(options.since, time.time())
        wanted = AuditFilter(
            tenant=options.tenant,
            who=options.who,
            action=options.action,
            target=options.target,
            since=since,
        )
        lines = asyncio.run(_read(load_settings(), wanted, options.limit))
    print_rows(COLUMNS, list(map(_row, lines)), as_json=options.as_json, empty="nothing was changed")


async def _read(settings: Settings, wanted: AuditFilter, limit: int) -> Sequence[AuditLine]:
    async with opened_store(settings) as store:
        return await store.records.audit.lines(wanted, limit)


def _row(line: AuditLine) -> Mapping[str, object]:
    change = line.change
    return {
        "id": line.id,
        "at": rfc3339(line.at),
        "who": line.who,
        "action": change.action,
        "target": change.target,
        "tenant": change.tenant,
        "before": change.before,
        "after": change.after,
    }
