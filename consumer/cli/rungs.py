"""The deliveries that wait on the rungs of the settings' broker, for ``leveret waiting``.

Data flow: rungs -> one pass -> rows; store -> names of subscriptions; audit log.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from consumer.cli.shared.audit import write_line
from consumer.cli.shared.interrupt import run_to_the_end
from consumer.cli.shared.output import warn
from consumer.cli.shared.resolve import is_id, subscription_id
from consumer.cli.shared.resolve import tenant as demand_tenant
from consumer.cli.values.holds import Passed
from consumer.core.changes.merge import StoredEntry
from consumer.core.errors import BrokerUnavailable, StoreUnavailable
from consumer.core.message.waiting import Wanted
from consumer.core.operate.audited import waiting_change
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.control import freeing, send_to_workers
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.waiting import browse, cancel, kick
from consumer.edges.operate.waiting_pass import Met, WaitingPass
from consumer.edges.process.system import FileArchive, SystemClock
from consumer.edges.store import opened_store
from consumer.settings import Settings
from topology.names import Names


class Rungs:
    """The waiting deliveries of one broker."""

    def __init__(self, settings: Settings) -> None:
        """Bind to the settings."""
        self._settings = settings

    def named(self, wanted: Wanted) -> Wanted:
        """Return *wanted* with the id of its subscription. An unknown id passes: its deliveries may wait."""
        if wanted.subscription is None or is_id(wanted.subscription):
            return wanted
        return replace(wanted, subscription=subscription_id(self._stored(), wanted.subscription))

    def listed(self, wanted: Wanted, limit: int | None) -> Passed:
        """Return the deliveries, the longest waits first."""
        return self._run(browse, wanted, sys.maxsize if limit is None else limit)

    def kick(self, wanted: Wanted) -> Passed:
        """Send the deliveries at once."""
        self._cancel_reservations(wanted)
        done = self._run(kick, wanted, sys.maxsize)
        self._write_line("kicked", wanted, len(done.rows))
        return done

    def cancel(self, wanted: Wanted) -> Passed:
        """Archive the deliveries and cancel them."""
        archive = FileArchive(self._settings.home / "archive", SystemClock(), "cancelled")
        done = self._run(partial(cancel, archive=archive), wanted, sys.maxsize)
        self._write_line("cancelled", wanted, len(done.rows))
        self._cancel_reservations(wanted)
        return done

    def demand_known(self, wanted: Wanted) -> None:
        """Refuse an unknown name, after nothing was found.

        Raises:
            ConfigError: there is no such tenant or subscription.
        """
        with suppress(StoreUnavailable):
            stored = self._stored() if wanted.tenant or wanted.subscription else ()
            if wanted.tenant is not None:
                demand_tenant(stored, wanted.tenant)
            if wanted.subscription is not None:
                subscription_id(stored, wanted.subscription)

    def _run(self, step: WaitingPass, wanted: Wanted, limit: int) -> Passed:
        """Return the rows that *step* yields, even if the broker or the disk fails midway, and the error."""
        settings, met, broken = self._settings, Met(limit), None

        async def run() -> None:
            connection = await connect(find_broker(settings).options, "waiting")
            try:
                await met.run(connection, settings.topology_spec(), step, wanted)
            finally:
                await close_quietly(connection)

        try:
            run_to_the_end(run())
        except KeyboardInterrupt:
            broken = "interrupted; unlisted deliveries stay waiting"
        except BrokerUnavailable as error:
            broken = str(error)
        except OSError as error:
            broken = f"{settings.home / 'archive'}: {error.strerror or error}; unarchived deliveries wait on"
        return Passed(rows=met.rows, broken=broken, warnings=met.unread)

    def _write_line(self, done: str, wanted: Wanted, deliveries: int) -> None:
        """Write the line of the audit log, unless nothing was changed."""

        async def run() -> None:
            async with opened_store(self._settings) as store:
                await write_line(store, waiting_change(done, wanted, deliveries))

        if deliveries:
            asyncio.run(run())

    def _cancel_reservations(self, wanted: Wanted) -> None:
        """Make the workers cancel the reservations of the *wanted* deliveries.

        Otherwise an endpoint with a rate would keep the kicked or cancelled deliveries' places and send
        nothing else meanwhile.
        """
        message = freeing(wanted)
        if message is None:
            return
        link, names = find_broker(self._settings), Names(self._settings.topology.prefix)
        try:
            asyncio.run(send_to_workers(link.options, names, message))
        except BrokerUnavailable as error:
            warn(
                f"the workers could not be notified, and may send new deliveries later than possible: {error}"
            )

    def _stored(self) -> Sequence[StoredEntry]:
        async def read() -> Sequence[StoredEntry]:
            async with opened_store(self._settings) as store:
                return await store.entries()

        return asyncio.run(read())
