"""``leveret parked show | export``: take the messages of the queue, and give all of them back."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from tempfile import TemporaryFile
from typing import Annotated, Any

import orjson
import typer

from consumer.cli.parked.index import near_ids, resolved
from consumer.cli.parked.options import Reason, Since, Tenant, Type, Wait, moment
from consumer.cli.parked.shared import for_each_entry, turn_of
from consumer.cli.shared.options import examples
from consumer.cli.shared.output import (
    errors_in_one_line,
    fail,
    json_line,
    print_fields,
    print_json,
    print_rows,
    print_text,
)
from consumer.core.message.parked import ParkedEntry, entry_as_dict, entry_as_record
from consumer.core.message.parked_filter import Filter
from consumer.core.operate.parked_payload import payload_as_dict
from consumer.core.text.durations import format_duration
from consumer.settings import load_settings

ATTEMPT_COLUMNS = ("replay", "number", "at", "kind", "status", "duration", "wait")

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of an entry, prk_...")]
ShownJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object, which is the default off a terminal.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to *app*."""
    app.command("show", epilog=examples("leveret parked show prk_0123456789abcdef"))(show)
    app.command(
        "export",
        epilog=examples(
            "leveret parked export > parked.jsonl", "leveret parked export --tenant acme --since 7d"
        ),
    )(export)


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
