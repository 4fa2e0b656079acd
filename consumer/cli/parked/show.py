"""``leveret parked show | export``: take the messages of the queue, and give all of them back."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from tempfile import TemporaryFile
from typing import Annotated, Any, Protocol

import orjson
import typer

from consumer.cli.parked.index import near_ids, resolved
from consumer.cli.parked.options import Reason, Since, Tenant, Type, Wait, moment
from consumer.cli.parked.shared import for_each_entry, turn_of
from consumer.cli.remote.choice import chosen as chosen_server
from consumer.cli.remote.choice import refuse_remote
from consumer.cli.shared.options import examples
from consumer.cli.shared.output import (
    errors_in_one_line,
    json_line,
    print_fields,
    print_json,
    print_rows,
    print_text,
)
from consumer.cli.values.parked import Shown
from consumer.core.errors import ConfigError
from consumer.core.message.parked import ParkedEntry, entry_as_dict, entry_as_record
from consumer.core.message.parked_filter import Filter
from consumer.core.operate.parked_payload import payload_as_dict
from consumer.core.text.durations import format_duration
from consumer.settings import Settings, load_settings

ATTEMPT_COLUMNS = ("replay", "number", "at", "kind", "status", "duration", "wait")

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of an entry, prk_...")]
ShownJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object, which is the default off a terminal.")
]


class Payloads(Protocol):
    """Parked entries with their payloads: in the queue, or behind an API."""

    def show(self, entry_id: str, *, wait: bool) -> Shown:
        """Return one entry; with *wait* a command that has the entries in hand is waited for.

        Raises:
            LeveretError: it is not parked, or a command has the entries in hand.
        """


class QueuedPayloads:
    """The entries in the parked queue."""

    def __init__(self, settings: Settings) -> None:
        """Bind to the settings."""
        self._settings = settings

    def show(self, entry_id: str, *, wait: bool) -> Shown:
        """See :class:`Payloads`."""
        found: list[ParkedEntry] = []

        def take(entry: ParkedEntry) -> bool:
            found.append(entry)
            return False

        turn = turn_of("show", wait=wait)
        for_each_entry(self._settings, turn, Filter(ids=frozenset({entry_id})), take)
        if not found:
            hint = near_ids(self._settings, entry_id)
            raise ConfigError(f"{entry_id} is not parked; see leveret parked list{hint}")
        return Shown(fields=entry_as_dict(found[0]), body=found[0].body)


def _payloads() -> Payloads:
    client = chosen_server()
    if client is None:
        return QueuedPayloads(load_settings())
    from consumer.cli.remote.parked import RemoteParked  # noqa: PLC0415 (imports an HTTP client)

    return RemoteParked(client)


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
    with errors_in_one_line():
        found = _payloads().show(entry_id, wait=wait)
    if as_json or not sys.stdout.isatty():
        print_json({**found.fields, **_data(found.body)})
    else:
        _print_entry(found)


def export(
    tenant: Tenant = None, kind: Type = None, reason: Reason = None, since: Since = None, wait: Wait = False
) -> None:
    """Print entries as JSON lines, bodies included (base64), and leave them where they are."""
    refuse_remote("`leveret parked export`")
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


def _print_entry(entry: Shown) -> None:
    shown: dict[str, Any] = dict(entry.fields)
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
