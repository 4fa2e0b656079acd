"""Describe the health of store, broker and worker, with the numbers of ``leveret status``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consumer.core.errors import BrokerUnavailable, StoreUnavailable
from consumer.core.tools.daemon_status import Status
from consumer.web.access.guard import Caller
from consumer.web.context import WebContext
from consumer.web.daemon_link import DaemonNow, NoAnswer
from consumer.web.pages.troubles import Unreached
from consumer.web.shared.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHealth:
    """Whether a part answers."""

    is_up: bool
    detail: str = ""  #: why it does not


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    """The worker at the listen address of the settings."""

    at: str
    ready: bool
    reasons: Sequence[str]  #: why it is not ready; otherwise notes
    status: Status
    workers: int | None  #: live ones, as this worker knows them
    loop_lag_s: float | None  #: longest delay of its event loop in the last minute
    oldest_delivery_s: float | None  #: age of the oldest event whose delivery is in flight or failed
    is_pressed: bool  #: no new attempt starts because the broker is slow or blocked
    rerouted_tenants: int
    history_dropped: int  #: rows that were not recorded since its start


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonHealth:
    """The health of everything that delivers."""

    store: PartHealth
    broker: PartHealth
    worker: WorkerHealth | None
    worker_detail: str  #: why nothing is known of the worker
    unreached: Unreached | None  #: None if the worker answers
    parked_gap: int | None  #: parked messages that the index lacks; None: unknown

    @property
    def is_well(self) -> bool:
        """Return whether store and broker answer, and the worker is ready."""
        return self.store.is_up and self.broker.is_up and self.worker is not None and self.worker.ready


async def health(caller: Caller) -> DaemonHealth:
    """Return the health; a part that is away is a result, not an error.

    Raises:
        Problem: 403: the caller sees one tenant only.
    """
    if caller.tenant is not None:
        raise Problem(403, "this covers every tenant", remedy="use a token without a tenant")
    context = caller.context
    now = await context.daemon.now()
    worker = _worker(now) if isinstance(now, DaemonNow) else None
    indexed = None if worker is None else worker.status.parked_indexed
    return DaemonHealth(
        store=await _store(context),
        broker=await _broker(context),
        worker=worker,
        worker_detail="" if isinstance(now, DaemonNow) else str(now),
        unreached=None if isinstance(now, DaemonNow) else await _unreached(context, now),
        parked_gap=None if worker is None or indexed is None else worker.status.parked - indexed,
    )


async def unreached(context: WebContext) -> Unreached | None:
    """Return why no worker can be asked, and the workers that the broker knows; None if one answers."""
    now = await context.daemon.now()
    return None if isinstance(now, DaemonNow) else await _unreached(context, now)


async def _unreached(context: WebContext, now: NoAnswer) -> Unreached:
    seen = await context.broker.workers()
    return Unreached(
        why=now.why,
        remedy=now.remedy,
        consuming=None if seen is None else seen.consuming,
        has_ever_run=seen is None or seen.ever,
    )


async def _store(context: WebContext) -> PartHealth:
    try:
        await context.store.read_lineage()
    except StoreUnavailable:
        return PartHealth(is_up=False, detail="the store cannot be read; the log names the cause")
    return PartHealth(is_up=True)


async def _broker(context: WebContext) -> PartHealth:
    try:
        await context.broker.connection()
    except BrokerUnavailable:
        return PartHealth(is_up=False, detail="the broker cannot be reached; the log names the cause")
    return PartHealth(is_up=True)


def _worker(now: DaemonNow) -> WorkerHealth:
    workers = now.gauge("leveret_workers")
    return WorkerHealth(
        at=now.at,
        ready=now.readiness.ready,
        reasons=now.readiness.reasons,
        status=now.status,
        workers=None if workers is None else int(workers),
        loop_lag_s=now.gauge("leveret_loop_lag_seconds"),
        oldest_delivery_s=now.gauge("leveret_oldest_delivery_seconds"),
        is_pressed=bool(now.gauge("leveret_pressed")),
        rerouted_tenants=int(now.gauge("leveret_noisy_tenants") or 0),
        history_dropped=int(now.gauge("leveret_history_dropped_total") or 0),
    )
