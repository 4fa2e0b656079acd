"""``leveret parked list | show | replay``: what we gave up on, and sending it again.

Data flow: leveret.parked -> entries -> table or JSON; replay -> leveret.replay or leveret.events, confirmed.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from consumer.cli.link import find_broker
from consumer.cli.output import AsJson, errors_in_one_line, fail, print_json, print_rows
from consumer.core.errors import BrokerUnavailable
from consumer.core.parked import ParkedEntry, entry_as_dict
from consumer.edges.broker.connect import close_quietly, connect
from consumer.edges.parked import Skipped, browse, replay
from consumer.settings import Settings, load_settings
from topology.names import Names

app = typer.Typer(help="Deliveries and events that were given up.", no_args_is_help=True)

COLUMNS = ("id", "parked_at", "tenant", "type", "reason", "failed_attempts", "last_failure_code", "detail")

Id = Annotated[str, typer.Argument(help="Id of an entry, prk_...")]
Ids = Annotated[list[str] | None, typer.Argument(help="Ids of entries, prk_...")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's.")]
Reason = Annotated[str | None, typer.Option(help="Only with this reason, such as exhausted.")]
SubscriptionId = Annotated[str | None, typer.Option("--subscription", help="Only of this subscription id.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most this many.")]
Everything = Annotated[bool, typer.Option("--all", help="All entries that the filters leave.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which entries are meant; what is None does not matter."""

    ids: frozenset[str] | None = None
    tenant: str | None = None
    reason: str | None = None
    subscription: str | None = None

    def __call__(self, entry: ParkedEntry) -> bool:
        """Say whether *entry* is meant."""
        shown = entry_as_dict(entry)
        pairs = (("tenant", self.tenant), ("reason", self.reason), ("subscription_id", self.subscription))
        return (self.ids is None or entry.id in self.ids) and all(
            wanted is None or shown.get(key) == wanted for key, wanted in pairs
        )


@app.command("list")
def list_(
    tenant: Tenant = None,
    reason: Reason = None,
    subscription: SubscriptionId = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Print the parked entries, oldest first. Looking changes nothing."""
    chosen = Filter(tenant=tenant, reason=reason, subscription=subscription)
    rows: list[Mapping[str, object]] = []

    async def collect(settings: Settings) -> None:
        await _browse(settings, chosen, limit, lambda entry: rows.append(entry_as_dict(entry)))

    with errors_in_one_line():
        asyncio.run(collect(load_settings()))
    print_rows(COLUMNS, rows, as_json=as_json, empty="nothing is parked")


@app.command()
def show(entry_id: Id) -> None:
    """Print one entry with its data as one JSON object."""
    found: list[ParkedEntry] = []

    async def collect(settings: Settings) -> None:
        await _browse(settings, Filter(ids=frozenset({entry_id})), 1, found.append)

    with errors_in_one_line():
        asyncio.run(collect(load_settings()))
    if not found:
        fail(f"{entry_id} is not parked; see leveret parked list")
    print_json(entry_as_dict(found[0]) | _data(found[0].body))


@app.command("replay")
def replay_(
    ids: Ids = None,
    tenant: Tenant = None,
    reason: Reason = None,
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """Send entries again with their original data; each leaves the parked queue once that is confirmed."""
    if not ids and not everything:
        raise typer.BadParameter("name entries by their id, or take --all with or without filters")
    chosen = Filter(ids=frozenset(ids) if ids else None, tenant=tenant, reason=reason)
    rows: list[Mapping[str, object]] = []
    skipped: list[Skipped] = []
    broken: str | None = None
    with errors_in_one_line():
        settings = load_settings()
        try:
            asyncio.run(_replay(settings, chosen, rows, skipped))
        except BrokerUnavailable as error:
            broken = str(error)
    print_rows(("id", "tenant", "type", "event_id"), rows, as_json=as_json, empty="nothing was replayed")
    faults = [f"{one.id} stays parked: {one.reason}" for one in skipped]
    missing = (chosen.ids or frozenset()) - {str(row["id"]) for row in rows} - {one.id for one in skipped}
    if broken is not None:
        faults.append(broken)
    elif missing:
        faults.append(f"not parked: {' '.join(sorted(missing))}; see leveret parked list")
    if faults:
        fail("\n".join(faults))


async def _browse(
    settings: Settings, chosen: Filter, limit: int | None, take: Callable[[ParkedEntry], None]
) -> None:
    connection = await connect(find_broker(settings).options, "parked")
    try:
        taken = 0
        async for entry in browse(connection, Names(settings.topology.prefix)):
            if chosen(entry) and (limit is None or taken < limit):
                take(entry)
                taken += 1
    finally:
        await close_quietly(connection)


async def _replay(
    settings: Settings, chosen: Filter, rows: list[Mapping[str, object]], skipped: list[Skipped]
) -> None:
    """Fill *rows* and *skipped* as it goes, so that what was done is known when the broker fails."""
    connection = await connect(find_broker(settings).options, "parked")
    try:
        names = Names(settings.topology.prefix)
        async for one in replay(connection, names, chosen):
            if isinstance(one, Skipped):
                skipped.append(one)
            else:
                rows.append(entry_as_dict(one))
    finally:
        await close_quietly(connection)


def _data(body: bytes) -> dict[str, object]:
    """Show the exact payload: as text where it is UTF-8, else in base64."""
    try:
        return {"data": body.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(body).decode()}
