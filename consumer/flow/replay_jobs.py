"""Work off the replay jobs of the store; one worker of all does.

Data flow: JobStore -> :meth:`ReplayJobs.look` -> entries in hand, in batches: noted in the store, sent and
confirmed one by one at the job's rate, marked -> the end of the job, or the next pass.

A pass gives its entries back after a time, so that commands get their turn and the broker's consumer timeout
is never near. Source: S0-8, S1-5, S1-16; decision 36.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from consumer.core.endpoint.breaker import Closed
from consumer.core.errors import BrokerUnavailable, LeveretError
from consumer.core.message.jobs import AutoReplay, Origin, ReplayJob, due_jobs, job_id
from consumer.core.message.operator_events import Note, OperatorEventType
from consumer.flow.base.context import Context
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.store.subscriptions import Subscriptions
from consumer.parked_ports import HeldEntry, JobStore, ParkedPass

LOOK_S = 1.0  #: time between two checks for a job
PASS_S = 300.0
"""A pass gives its entries back after this time, and the next one begins.

Source: RabbitMQ "Consumers", delivery acknowledgement timeout (30 min by default).
"""
REST_S = 2.0  #: pause between two passes, in which a command can get the entries
ID_BYTES = 16  #: random bytes of a job's id

_NOT_CLOSED = "the breaker of its endpoint is not closed, or its subscription is disabled"


@dataclass(slots=True)
class _Progress:
    """One pass."""

    began: float  #: monotonic seconds
    next_at: float  #: monotonic seconds from which the next entry may be sent
    sent: int = 0
    refused: list[str] = field(default_factory=list)
    detail: str = ""

    def refuse(self, entry_id: str, why: str) -> None:
        """Note an entry that stays parked."""
        self.refused.append(entry_id)
        self.detail = why

    def set_next(self, next_at: float) -> None:
        """Set when the next entry may be sent, in monotonic seconds."""
        self.next_at = next_at

    def count_sent(self) -> None:
        """Count one entry that was sent."""
        self.sent += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlaces:
    """Where jobs and parked entries are, and who works the jobs off."""

    jobs: JobStore
    parked: ParkedPass
    worker: str  #: name of this worker, another one after each start
    leads: Callable[[], bool]  #: returns whether this worker is the one that works jobs off


class ReplayJobs:
    """Works off jobs, and makes those that the settings ask for."""

    def __init__(
        self,
        context: Context,
        subscriptions: Subscriptions,
        endpoints: Endpoints,
        places: JobPlaces,
        rules: AutoReplay,
    ) -> None:
        self._context = context
        self._subscriptions = subscriptions
        self._endpoints = endpoints
        self._places = places
        self._rules = rules
        self._turns: dict[str, float] = {}  #: job id -> monotonic seconds of its next entry
        self._unreadable: set[str] = set()  #: ids of jobs that were logged

    async def run(self) -> None:
        """Look until cancelled; a store or broker that is away, or a bug here, stops no delivery."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception as error:
                self._context.observe.task_failed("replay jobs", error)

    async def look(self) -> None:
        """Make the jobs that are due, and do one pass of the oldest running job."""
        if not self._places.leads() or self._subscriptions.doubted():
            return
        try:
            await self._make_due()
            job = await self._places.jobs.claim(self._places.worker, self._rules.origins)
            self._report_unreadable()
            if job is not None:
                await self._work(job)
        except (LeveretError, OSError) as error:
            self._context.observe.store_failed("read", error)

    def _report_unreadable(self) -> None:
        """Log each job that cannot be read once; the others go on."""
        unreadable = self._places.jobs.unreadable()
        for job in unreadable.keys() - self._unreadable:
            self._context.observe.warned("job.unreadable", job=job, detail=unreadable[job])
        self._unreadable = set(unreadable)

    async def _make_due(self) -> None:
        context, rules = self._context, self._rules
        if rules.cooldown_s is None and rules.scheduled_s is None:
            return
        last = await self._places.jobs.last_made()
        for job in due_jobs(rules, last, context.clock.now(), lambda: job_id(context.random_bytes(ID_BYTES))):
            await self._places.jobs.add(job)

    async def _work(self, job: ReplayJob) -> None:
        """Do one pass; the job ends with it if every entry was seen."""
        context, places = self._context, self._places
        now = context.clock.monotonic()
        self._turns = {key: at for key, at in self._turns.items() if at > now}
        if job.id in self._turns:
            return
        progress = _Progress(began=now, next_at=now)
        try:
            is_complete = await self._pass(job, progress)
        except BrokerUnavailable as error:  # also: somebody else has the entries in hand
            await places.jobs.explain(job.id, f"waits: {error}")
            return
        finally:
            self._turns[job.id] = progress.next_at
            if progress.sent:
                context.observe.said("job.passed", job=job.id, replayed=progress.sent)
        if not is_complete:
            await asyncio.sleep(REST_S)
        elif await places.jobs.end_pass(job.id, places.worker, progress.refused, progress.detail):
            await self._report_end(job)

    async def _pass(self, job: ReplayJob, progress: _Progress) -> bool:
        """Send the entries of one pass; return whether every one was seen."""
        batch: list[HeldEntry] = []
        is_complete = False
        known = (self._subscriptions.get(each) for each in self._subscriptions.ids())
        tenants = {subscription.id: subscription.tenant for subscription in known if subscription is not None}
        async with aclosing(self._places.parked.entries(job, tenants)) as held:
            async for one in held:
                if one is None:  # the generator ends by itself, so that it reports acks that were not stored
                    is_complete = await self._send(job, batch, progress)
                    continue
                refusal = one.refusal or self._refusal(job, one)
                if refusal is not None:
                    progress.refuse(one.entry.id, refusal)
                    continue
                batch.append(one)
                if len(batch) >= job.batch:
                    if not await self._send(job, batch, progress):
                        return False
                    batch = []
                if self._context.clock.monotonic() - progress.began > PASS_S:
                    return False
        return is_complete

    def _refusal(self, job: ReplayJob, one: HeldEntry) -> str | None:
        """Return why a job that needs closed breakers leaves an entry where it is."""
        if not job.closed_only or one.entry.delivery is None:
            return None
        for target in (job.to,) if job.to is not None else one.entry.delivery.targets:
            subscription = self._subscriptions.get(target)
            if subscription is None or not subscription.enabled or subscription.locked is not None:
                return _NOT_CLOSED
            if not isinstance(self._endpoints.of(subscription).breaker, Closed):
                return _NOT_CLOSED
        return None

    async def _send(self, job: ReplayJob, batch: Sequence[HeldEntry], progress: _Progress) -> bool:
        """Send a batch; False if its turn is too late for this pass, or the job no longer runs here."""
        places, sent = self._places, dict[str, float]()
        if batch and not await self._may_begin(job, progress):
            return False
        if not await places.jobs.intend(job.id, places.worker, [one.entry.id for one in batch]):
            return False
        try:
            for number, one in enumerate(batch):
                if number:  # a batch lasts for half a second at most
                    await asyncio.sleep(progress.next_at - self._context.clock.monotonic())
                progress.set_next(self._next_turn(job, progress))
                await one.send()
                sent[one.entry.id] = one.entry.parked_at
                progress.count_sent()
        finally:
            await places.jobs.sent(job.id, sent)
        return True

    async def _may_begin(self, job: ReplayJob, progress: _Progress) -> bool:
        """Wait for the turn of a batch; False if it is too late for this pass, or the job stops here."""
        clock, places = self._context.clock, self._places
        if progress.next_at > progress.began + PASS_S:
            return False
        while (wait_s := progress.next_at - clock.monotonic()) > 0:
            await asyncio.sleep(min(wait_s, LOOK_S))
            if wait_s > LOOK_S and not await places.jobs.keep(job.id, places.worker):
                return False
        return True

    def _next_turn(self, job: ReplayJob, progress: _Progress) -> float:
        """Return the turn of the entry after this one; after a delay the rate is kept, not caught up."""
        at = max(progress.next_at, self._context.clock.monotonic())
        return at if job.rate_per_s is None else at + 1 / job.rate_per_s

    async def _report_end(self, job: ReplayJob) -> None:
        row = await self._places.jobs.get(job.id)
        if row is None:
            return
        observe, counts = self._context.observe, row.counts
        observe.said("job.done", job=job.id, replayed=counts.replayed, refused=counts.refused)
        if job.origin is not Origin.OPERATOR and counts.replayed:
            text = f"{job.origin.value} replay {job.id}: {counts.replayed} entries"
            observe.notes.notify(Note(type=OperatorEventType.PARKED_REPLAYED, tenant="", reason=text))
