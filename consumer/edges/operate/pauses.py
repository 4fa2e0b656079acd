"""Pause and resume a scope: one subscription, one tenant, or everything.

Data flow: scope -> store (one transaction) -> the daemon loads it within a second; a lifted pause -> workers,
rungs -> the waiting deliveries of the scope are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aio_pika.abc import AbstractConnection

from consumer.core.changes.merge import StoredEntry
from consumer.core.changes.steps import full_name
from consumer.core.errors import ConfigError
from consumer.core.message.parked import rfc3339
from consumer.core.message.waiting import Wanted
from consumer.core.subscription.pauses import Pause, Scope
from consumer.edges.broker.connection.connect import AmqpOptions
from consumer.edges.operate.control import send_to_workers
from consumer.edges.operate.release import Released, release
from consumer.edges.store import SqlStore
from topology.plan import TopologySpec

KNOWN_S: Final = 1.0  #: time within which workers load the store after a ``reload`` message


@dataclass(frozen=True, slots=True)
class PausesNow:
    """The pauses after a command."""

    rows: Sequence[Mapping[str, object]]  #: all pauses, with stable field names
    changed: Pause | None  #: the one that was added or lifted; None: nothing changed


@dataclass(frozen=True, slots=True)
class Chosen:
    """The scope that an operator names."""

    scope: Scope
    name: str = ""  #: the tenant; the subscription as ``tenant/name`` or by its id


async def list_pauses(store: SqlStore) -> PausesNow:
    """Return all pauses.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    return PausesNow(await _rows(store), None)


async def change_pause(store: SqlStore, pause: Pause, *, lift: bool, who: str) -> PausesNow:
    """Add or lift *pause*, and return all pauses that are left.

    Raises:
        StoreUnavailable: the store cannot be read or written.
    """
    changed = pause if await store.pause(pause, lift=lift, who=who) else None
    return PausesNow(await _rows(store), changed)


async def find_pause(store: SqlStore, chosen: Chosen, *, lift: bool, now: float) -> Pause:
    """Return the pause of a scope, with the id of its subscription.

    Args:
        store: Knows the subscriptions and the pauses.
        chosen: The scope.
        lift: A pause of a tenant or subscription that no longer exists is found too.
        now: Unix seconds.

    Raises:
        ConfigError: there is no such tenant or subscription.
        StoreUnavailable: the store cannot be read.
    """
    entries = await store.entries()
    known = {one.key for one in await store.pauses()} if lift else set()
    pause = Pause(scope=chosen.scope, name=_name(chosen, entries), since=now)
    there = chosen.scope is Scope.ALL or any(pause.name in (entry.id, entry.tenant) for entry in entries)
    if not there and pause.key not in known:
        raise ConfigError(f"there is no {chosen.scope.value} {pause.name}; see `leveret subscriptions list`")
    return pause


def deliveries_of(lifted: Pause) -> Wanted:
    """Return the deliveries that waited for the end of a pause."""
    name = lifted.name or None
    return Wanted(
        tenant=name if lifted.scope is Scope.TENANT else None,
        subscription=name if lifted.scope is Scope.SUBSCRIPTION else None,
    )


async def inform_workers(options: AmqpOptions, spec: TopologySpec) -> None:
    """Make the workers load the store, and wait until they have.

    Raises:
        BrokerUnavailable: the broker is away.
    """
    if await send_to_workers(options, spec.names, {"kind": "reload"}):
        await asyncio.sleep(KNOWN_S)


async def release_lifted(connection: AbstractConnection, spec: TopologySpec, lifted: Pause) -> Released:
    """Send the deliveries that waited for the end of a pause; one that another pause holds waits again."""
    return await release(connection, spec, deliveries_of(lifted))


def _name(chosen: Chosen, entries: Sequence[StoredEntry]) -> str:
    if chosen.scope is not Scope.SUBSCRIPTION:
        return chosen.name
    found = [entry.id for entry in entries if chosen.name in (entry.id, full_name(entry))]
    return found[0] if found else chosen.name


async def _rows(store: SqlStore) -> Sequence[Mapping[str, object]]:
    names = {entry.id: full_name(entry) for entry in await store.entries()}
    return [
        {
            "scope": pause.scope.value,
            "name": pause.name,
            "subscription": names.get(pause.name),
            "since": rfc3339(pause.since),
        }
        for pause in await store.pauses()
    ]
