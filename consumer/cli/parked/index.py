"""Read the index of parked entries, and compare it with the size of the parked queue.

Data flow: store -> rows, and a passive declare -> size of the queue -> :class:`Index`. No message is taken.
SQLAlchemy (0.3 s of CPU time) is imported only for PostgreSQL and for names of subscriptions.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from consumer.cli.remote.choice import chosen as chosen_server
from consumer.cli.shared.output import warn
from consumer.cli.shared.resolve import near, subscription_id, tenant
from consumer.cli.values.parked import Listing
from consumer.core.errors import BrokerUnavailable, ConfigError, LeveretError, StoreUnavailable
from consumer.core.message.parked import rfc3339
from consumer.core.message.parked_filter import Filter, fits
from consumer.core.message.records import ParkedRow
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.parked.count import ParkedCount, count_parked
from consumer.edges.sqlite_file.file import SqliteFile
from consumer.edges.sqlite_file.parked import read_parked
from consumer.settings import Settings, load_settings
from topology.names import Names

if TYPE_CHECKING:
    from consumer.core.changes.merge import StoredEntry

SETTLED_S = 2.5  #: time within which a daemon writes a parked entry to the index
LOOK_S = 0.25  #: pause between two comparisons


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The state of the index of parked entries, as the store has it.

    ``asyncio.run`` formats the result of its task as text when it ends, so the rows are left out of that: the
    text of 10,000 rows takes 0.15 s.
    """

    rows: Sequence[ParkedRow] = field(repr=False)  #: by time of parking, then by id
    #: the subscriptions, if a filter names one or a tenant
    stored: Sequence[StoredEntry] = field(default=(), repr=False)
    size: ParkedCount | None = None  #: of the queue; None while the broker is away
    away: str = ""  #: why the broker is away

    @property
    def messages(self) -> int:
        """Messages that the rows represent."""
        return sum(row.messages for row in self.rows)

    @property
    def gap(self) -> str:
        """The difference to the queue, with its remedy; empty if they agree, or while a command looks."""
        if self.size is None or self.size.consumers or self.size.ready == self.messages:
            return ""
        return (
            f"the index has {self.messages} parked messages, the queue has {self.size.ready}; "
            "run `leveret parked reindex`"
        )

    def resolved(self, chosen: Filter) -> Filter:
        """Return *chosen* with the id of its subscription.

        Raises:
            ConfigError: its tenant, subscription or type is unknown.
        """
        if chosen.tenant is not None:
            tenant(self.stored, chosen.tenant, {row.tenant for row in self.rows if row.tenant})
        if chosen.type is not None:
            self._demand_type(chosen.type)
        if chosen.subscription is None:
            return chosen
        parked = {each for row in self.rows for each in row.subscription_ids}
        return replace(chosen, subscription=subscription_id(self.stored, chosen.subscription, parked))

    def _demand_type(self, pattern: str) -> None:
        types = {row.type or "" for row in self.rows}
        if (
            self.size is not None
            and types
            and not self.gap
            and not any(fits(pattern, kind) for kind in types)
        ):
            raise ConfigError(f"no entry of a type {pattern!r} is parked; {near(pattern, types)}")

    def demand_whole(self) -> None:
        """Warn if the rows may be incomplete.

        Raises:
            BrokerUnavailable: there is no row, and the queue may have entries.
            ConfigError: there is no row, and the queue has entries.
        """
        problem = self.gap or (f"{self.away}; the index may be old" if self.size is None else "")
        if problem and not self.rows:
            raise BrokerUnavailable(self.away) if self.size is None else ConfigError(problem)
        if problem:
            warn(problem)


class ParkedIndex(Protocol):
    """The index of parked entries: in the store, or behind an API."""

    def listed(self, wanted: Filter) -> Listing:
        """Return the entries of a filter, the oldest first.

        Raises:
            LeveretError: a name in the filter is unknown, or the index is not whole.
        """

    def stats(self) -> Mapping[str, object]:
        """Return counts of all entries.

        Raises:
            LeveretError: the index is not whole.
        """


class StoredIndex:
    """The index in the store."""

    def __init__(self, settings: Settings) -> None:
        """Bind to the settings."""
        self._settings = settings

    def listed(self, wanted: Filter) -> Listing:
        """See :class:`ParkedIndex`."""
        index = read_index(self._settings, wanted)
        chosen = index.resolved(wanted)
        index.demand_whole()
        return Listing(rows=[row for row in index.rows if chosen.takes_row(row)], chosen=chosen)

    def stats(self) -> Mapping[str, object]:
        """See :class:`ParkedIndex`."""
        index = read_index(self._settings, Filter())
        index.demand_whole()
        rows = index.rows
        return {
            "entries": len(rows),
            "oldest": rfc3339(rows[0].parked_at) if rows else None,
            "newest": rfc3339(rows[-1].parked_at) if rows else None,
            "tenants": len({row.tenant for row in rows if row.tenant}),
            "subscriptions": len({each for row in rows for each in row.subscription_ids}),
            "by_reason": dict(Counter(row.reason for row in rows).most_common()),
            "by_status": dict(Counter(row.code or "none" for row in rows).most_common()),
            "in_queue": None if index.size is None or index.size.consumers else index.size.ready,
        }


def parked_index() -> ParkedIndex:
    """Return the index of the server that was named, or else that of the store.

    Raises:
        ConfigError: the settings are not usable.
    """
    client = chosen_server()
    if client is None:
        return StoredIndex(load_settings())
    from consumer.cli.remote.parked import RemoteParked  # noqa: PLC0415 (imports an HTTP client)

    return RemoteParked(client)


def read_index(settings: Settings, chosen: Filter) -> Index:
    """Read the index, and wait a moment if the daemon has not written its latest entries.

    Args:
        settings: They name the store and the broker.
        chosen: The filter that :meth:`Index.resolved` will resolve.

    Raises:
        ConfigError: the index is off, or no broker is set.
        StoreUnavailable: the store cannot be read.
    """
    if not settings.store.parked_index_max:
        raise ConfigError(
            "the index of parked entries is off ([store] parked_index_max = 0); use `leveret parked export`"
        )
    return asyncio.run(_read(settings, chosen))


async def _read(settings: Settings, chosen: Filter) -> Index:
    try:
        connection = await connect(find_broker(settings).options, "parked")
    except LeveretError as error:
        return replace(await _stored(settings, chosen), away=str(error))
    try:
        names = Names(settings.topology.prefix)
        return await _compared(lambda: _stored(settings, chosen), lambda: count_parked(connection, names))
    finally:
        await close_quietly(connection)


async def _compared(
    read: Callable[[], Awaitable[Index]], count: Callable[[], Awaitable[ParkedCount]]
) -> Index:
    """Return the index once it agrees with the queue, or after :data:`SETTLED_S`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLED_S
    while True:
        index = replace(await read(), size=await count())
        if not index.gap or loop.time() > deadline:
            return index
        await asyncio.sleep(LOOK_S)


def resolved(settings: Settings, chosen: Filter) -> Filter:
    """Return *chosen* with the id of its subscription; for commands that read the queue itself.

    Without the store a tenant and an id are taken as they are.

    Raises:
        ConfigError: the tenant or the subscription is unknown.
        StoreUnavailable: the store cannot be read, and the subscription is given by its name.
    """
    if chosen.tenant is None and chosen.subscription is None:
        return chosen
    try:
        return asyncio.run(_stored(settings, chosen)).resolved(chosen)
    except StoreUnavailable:
        if "/" in (chosen.subscription or ""):
            raise
        return chosen


def near_ids(settings: Settings, entry_id: str) -> str:
    """Return a proposal of ids in the index that are near to *entry_id*; empty without a readable index."""
    try:
        ids = [row.id for row in asyncio.run(_stored(settings, Filter())).rows]
    except LeveretError:
        return ""
    return f"; {near(entry_id, ids)}" if ids else ""


async def _stored(settings: Settings, chosen: Filter) -> Index:
    """Return the rows of the store, and the subscriptions if *chosen* names one or a tenant."""
    if settings.postgres_url() is None and chosen.tenant is None and chosen.subscription is None:
        file, wait_s = SqliteFile(settings.home), settings.store.busy_timeout_s
        return Index(rows=(await asyncio.to_thread(read_parked, file, wait_s, time.time()))[::-1])
    from consumer.edges.store import opened_store  # noqa: PLC0415 (see the top of this module)

    async with opened_store(settings) as store:
        rows = await store.parked_index()
        return Index(rows=rows[::-1], stored=await store.entries())
