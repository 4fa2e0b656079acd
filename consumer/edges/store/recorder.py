"""Record endpoint states and parked entries, beside the deliveries and without delaying them.

Data flow: flow -> :class:`StoreRecorder` (in memory, bounded) -> a batch each half second -> store.
While the store is away, the newest state of each endpoint is kept. Index rows are kept up to a bound; then
the oldest are dropped and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from consumer.core.endpoint.health import Health
from consumer.core.errors import LeveretError
from consumer.core.message.records import EndpointState, ParkedRow, short
from consumer.core.subscription.subscription import Subscription, endpoint_id
from consumer.edges.store.back_off import BackOff
from consumer.edges.store.rows.records import Batch
from consumer.ports import StoreReports

GATHER_S = 0.5  #: time for which records are gathered into one batch
BATCH_MAX = 1_000  #: index rows in one transaction
PENDING_MAX = 10_000  #: index rows that wait while the store is away
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 10.0


class Writes(Protocol):
    """Writes a batch of rows."""

    async def write(self, batch: Batch) -> None:
        """Write *batch*, all or nothing; see :meth:`consumer.edges.store.rows.records.Records.write`."""


class StoreRecorder:
    """Implements :class:`consumer.ports.Recorder`."""

    def __init__(
        self,
        records: Writes,
        observe: StoreReports,
        now: Callable[[], float],
        pending_max: int = PENDING_MAX,
    ) -> None:
        """Bind to the rows of a store.

        Args:
            records: Target of the batches.
            observe: Reports faults and dropped rows.
            now: Returns Unix seconds.
            pending_max: Index rows that wait while the store is away, at most.
        """
        self._pending_max = pending_max
        self._records = records
        self._observe = observe
        self._now = now
        self._states: dict[str, EndpointState] = {}
        self._healths: dict[str, Health] = {}
        self._holds: dict[str, float] = {}
        self._healths_anew: set[str] = set()  #: endpoints whose stored rows come from a clock set since
        self._holds_anew: set[str] = set()
        self._parked: dict[str, ParkedRow | None] = {}  #: by entry id; None if it is no longer parked
        self._work = asyncio.Event()

    def endpoint(self, subscription: Subscription, state: str, *, epoch: int, reason: str = "") -> None:
        """Note the state of an endpoint; returns at once."""
        endpoint = endpoint_id(subscription.tenant, subscription.url)
        self._states[endpoint] = EndpointState(
            endpoint=endpoint,
            tenant=subscription.tenant,
            subscription_id=subscription.id,
            state=state,
            epoch=epoch,
            since=self._now(),
            reason=short(reason),
        )
        self._work.set()

    def health(self, subscription: Subscription, health: Health, *, anew: bool = False) -> None:
        """Note since when an endpoint has failed, or its latest success; returns at once."""
        endpoint = endpoint_id(subscription.tenant, subscription.url)
        self._healths[endpoint] = health
        self._mark(endpoint, self._healths_anew, anew=anew)

    def hold(self, subscription: Subscription, until: float, *, anew: bool = False) -> None:
        """Note until when (Unix seconds) an endpoint asked for no requests; 0 ends it. Returns at once."""
        endpoint = endpoint_id(subscription.tenant, subscription.url)
        self._holds[endpoint] = until
        self._mark(endpoint, self._holds_anew, anew=anew)

    def _mark(self, endpoint: str, these: set[str], *, anew: bool) -> None:
        if anew:
            these.add(endpoint)
        self._work.set()

    def parked(self, row: ParkedRow) -> None:
        """Note a parked entry; returns at once."""
        self._keep(row.id, row)

    def unparked(self, entry_id: str) -> None:
        """Note that an entry is no longer parked; returns at once."""
        self._keep(entry_id, None)

    async def run(self) -> None:
        """Write batches until cancelled."""
        back_off = BackOff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            await self._work.wait()
            await asyncio.sleep(GATHER_S)
            try:
                worked = await self.flush()
            except Exception as error:  # a bug must not stop deliveries
                self._observe.task_failed("record", error)
                worked = False
            if worked:
                back_off.worked()
            else:
                await back_off.failed()

    async def finish(self) -> None:
        """Write all remaining records, as long as the store accepts them."""
        while self._work.is_set() and await self.flush():
            pass

    async def flush(self) -> bool:
        """Write one batch; return False if the store refused it, and keep its records."""
        states, self._states = self._states, {}
        healths, self._healths = self._healths, {}
        holds, self._holds = self._holds, {}
        healths_anew, self._healths_anew = self._healths_anew, set()
        holds_anew, self._holds_anew = self._holds_anew, set()
        lines = {key: self._parked.pop(key) for key in list(islice(self._parked, BATCH_MAX))}
        if not self._parked:
            self._work.clear()
        batch = Batch(
            states=states,
            healths=healths,
            holds=holds,
            healths_anew=healths_anew,
            holds_anew=holds_anew,
            parked={key: row for key, row in lines.items() if row is not None},
            gone=[key for key, row in lines.items() if row is None],
        )
        if not batch:
            return True
        try:
            await self._records.write(batch)
        except BaseException as error:
            self._states = states | self._states
            self._healths = healths | self._healths
            self._holds = holds | self._holds
            self._healths_anew |= healths_anew
            self._holds_anew |= holds_anew
            self._parked = lines | self._parked
            self._drop_oldest()
            self._work.set()
            if not isinstance(error, LeveretError | OSError):
                raise
            self._observe.store_failed("write", error)
            return False
        self._observe.store_worked("write")
        return True

    def _keep(self, entry_id: str, row: ParkedRow | None) -> None:
        self._parked.pop(entry_id, None)
        self._parked[entry_id] = row
        self._drop_oldest()
        self._work.set()

    def _drop_oldest(self) -> None:
        excess = len(self._parked) - self._pending_max
        if excess > 0:
            for key in list(islice(self._parked, excess)):
                del self._parked[key]
            self._observe.records_dropped(excess)
