"""``leveret parked list | stats | show | export | reindex``: read entries; all of them stay parked.

``list`` and ``stats`` read the index in the store. The others take the queue's messages and give them back.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from tempfile import TemporaryFile
from typing import Annotated, Any

import orjson
import typer

from consumer.cli.parked.index import near_ids, read_index, resolved
from consumer.cli.parked.shared import (
    Chosen,
    Limit,
    Reason,
    Since,
    Tenant,
    Type,
    Wait,
    for_each_entry,
    moment,
    turn_of,
)
from consumer.cli.shared.interrupt import run_to_the_end
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import (
    AsJson,
    errors_in_one_line,
    fail,
    json_line,
    print_fields,
    print_json,
    print_rows,
    print_text,
)
from consumer.core.errors import ConfigError
from consumer.core.message.parked import ParkedEntry, entry_as_dict, entry_as_record, rfc3339
from consumer.core.message.parked_filter import Filter, GroupBy, grouped
from consumer.core.message.records import row_as_cells, row_as_dict
from consumer.core.operate.parked_payload import payload_as_dict
from consumer.core.text.durations import format_duration
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.parked_drain import ParkedPlace
from consumer.edges.operate.parked_lock import Turn
from consumer.edges.operate.parked_rebuild import Rebuilt, rebuild_index
from consumer.edges.store import opened_store
from consumer.settings import Settings, load_settings
from topology.names import Names

COLUMNS = ("id", "parked_at", "tenant", "type", "reason", "failed_attempts", "last_failure_code", "detail")
ATTEMPT_COLUMNS = ("replay", "number", "at", "kind", "status", "duration", "wait")

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of an entry, prk_...")]
ShownJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object, which is the default off a terminal.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class List(Chosen):
    """The command line of ``leveret parked list``."""

    limit: Limit = None
    group_by: Annotated[
        list[GroupBy] | None, typer.Option(help="Count by this instead; may be repeated.")
    ] = None
    as_json: AsJson = False


def register(app: typer.Typer) -> None:
    """Add the commands to *app*."""
    app.command(
        "list",
        epilog=examples(
            "leveret parked list --tenant acme --since 2h",
            "leveret parked list --group-by tenant --group-by status",
            "leveret parked list --reason exhausted --type 'order.*' --json",
        ),
    )(takes(List)(list_))
    app.command("stats", epilog=examples("leveret parked stats", "leveret parked stats --json"))(stats)
    app.command("reindex", epilog=examples("leveret parked reindex"))(reindex)
    app.command("show", epilog=examples("leveret parked show prk_0123456789abcdef"))(show)
    app.command(
        "export",
        epilog=examples(
            "leveret parked export > parked.jsonl", "leveret parked export --tenant acme --since 7d"
        ),
    )(export)


def list_(options: List) -> None:
    """Print the parked entries, oldest first, or count them, from the store's index: no entry is touched."""
    with errors_in_one_line():
        index = read_index(load_settings())
        chosen = index.resolved(options.filter())
        index.demand_whole()
    rows = [row for row in index.rows if chosen.takes_row(row)][: options.limit]
    empty = "nothing is parked" if chosen == Filter() else "nothing is parked that passes the filters"
    if options.group_by:
        columns = [*(key.value for key in options.group_by), "count", "oldest", "newest"]
        groups = grouped(map(row_as_cells, rows), options.group_by)
        print_rows(columns, groups, as_json=options.as_json, empty=empty)
        return
    shown = [row_as_dict(row) if options.as_json else row_as_cells(row) for row in rows]
    print_rows(COLUMNS, shown, as_json=options.as_json, empty=empty)


def stats(as_json: AsJson = False) -> None:
    """Print how many entries are parked, since when, and for whom, from the store's index."""
    with errors_in_one_line():
        index = read_index(load_settings())
        index.demand_whole()
    rows = index.rows
    fields: dict[str, object] = {
        "entries": len(rows),
        "oldest": rfc3339(rows[0].parked_at) if rows else None,
        "newest": rfc3339(rows[-1].parked_at) if rows else None,
        "tenants": len({row.tenant for row in rows if row.tenant}),
        "subscriptions": len({each for row in rows for each in row.subscription_ids}),
        "by_reason": dict(Counter(row.reason for row in rows).most_common()),
        "by_status": dict(Counter(row.code or "none" for row in rows).most_common()),
        "in_queue": None if index.size is None or index.size.consumers else index.size.ready,
    }
    if as_json:
        print_json(fields)
    else:
        print_fields(fields)


def reindex(wait: Wait = False, as_json: AsJson = False) -> None:
    """Make the index of parked entries anew, in one pass over the queue; all entries stay parked."""
    with errors_in_one_line():
        found = asdict(_rebuild(load_settings(), turn_of("reindex", wait=wait)))
    if as_json:
        print_json(found)
    else:
        print_fields(found)


def _rebuild(settings: Settings, turn: Turn) -> Rebuilt:
    """Rebuild the index.

    Raises:
        ConfigError: the index is off.
        LeveretError: as :func:`rebuild_index`.
    """
    if not settings.store.parked_index_max:
        raise ConfigError("the index of parked entries is off ([store] parked_index_max = 0)")

    async def run() -> Rebuilt:
        async with opened_store(settings) as store:
            names = Names(settings.topology.prefix)
            place = ParkedPlace(options=find_broker(settings).options, names=names, store=store)
            return await rebuild_index(place, turn)

    return run_to_the_end(run())


def show(entry_id: Id, wait: Wait = False, as_json: ShownJson = False) -> None:
    """Print one entry with its payload and every attempt."""
    found: list[ParkedEntry] = []

    def take(entry: ParkedEntry) -> bool:
        found.append(entry)
        return False

    with errors_in_one_line():
        turn = turn_of("show", wait=wait)
        for_each_entry(load_settings(), turn, Filter(ids=frozenset({entry_id})), take)
    if not found:
        fail(f"{entry_id} is not parked; see leveret parked list{near_ids(load_settings(), entry_id)}")
    if as_json or not sys.stdout.isatty():
        print_json(entry_as_dict(found[0]) | _data(found[0].body))
    else:
        _print_entry(found[0])


def export(
    tenant: Tenant = None, kind: Type = None, reason: Reason = None, since: Since = None, wait: Wait = False
) -> None:
    """Print entries as JSON lines, bodies included (base64), and leave them where they are."""
    with errors_in_one_line(), TemporaryFile("w+", encoding="utf-8", errors="surrogatepass") as kept:

        def take(entry: ParkedEntry) -> bool:
            kept.write(json_line(entry_as_record(entry)) + "\n")
            return True

        settings = load_settings()
        chosen = resolved(settings, Filter(tenant=tenant, type=kind, reason=reason, since=moment(since)))
        # first into a file: a slow reader would hold the queue up
        for_each_entry(settings, turn_of("export", wait=wait), chosen, take)
        kept.seek(0)
        for line in kept:
            typer.echo(line, nl=False)


def _print_entry(entry: ParkedEntry) -> None:
    shown: dict[str, Any] = entry_as_dict(entry)
    attempts: Sequence[Mapping[str, Any]] = shown.pop("attempts")
    print_fields({name: value for name, value in shown.items() if value is not None})
    if attempts:
        typer.echo()
        print_rows(ATTEMPT_COLUMNS, [_attempt_row(attempt) for attempt in attempts], as_json=False)
    typer.echo("\npayload")
    print_text(_readable(entry.body))


def _attempt_row(attempt: Mapping[str, Any]) -> Mapping[str, object]:
    wait_s = attempt["wait_s"]
    wait = None if wait_s is None else format_duration(wait_s)
    return {**attempt, "duration": format_duration(attempt["duration_s"]), "wait": wait}


def _readable(body: bytes) -> str:
    """Return JSON indented, other text as it is, and for other bytes only their number."""
    try:
        return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode()
    except ValueError:
        pass
    try:
        return body.decode()
    except UnicodeDecodeError:
        return f"{len(body)} bytes that are not text; see --json"


def _data(body: bytes) -> dict[str, str]:
    """Return the exact payload in the one field that fits it."""
    return {name: value for name, value in payload_as_dict(body).items() if value is not None}
