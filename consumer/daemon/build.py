"""Build every object of one worker from its settings, each complete, after those that it calls.

Data flow: Settings -> :class:`Outside` (the ports that the flow calls) -> :class:`Flow` -> :class:`Worker`
(the broker edge that calls the flow, health server, readiness) -> :mod:`.life` runs it.
"""

from __future__ import annotations

import asyncio
import os
import platform
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version

from prometheus_client import CollectorRegistry

from consumer.core.history.records import Keep
from consumer.core.retry.policy import max_age_s
from consumer.core.retry.policy_text import sender_stats
from consumer.daemon.gauges import Gauges
from consumer.daemon.pressure import PressureRelief
from consumer.daemon.readiness import Readiness
from consumer.daemon.tracing import tracer_of, tracing_of
from consumer.edges.broker.broker_ports import BrokerOptions, BrokerPorts
from consumer.edges.broker.connection.connect import AmqpOptions, amqp_options
from consumer.edges.broker.consume.prefetch import budget, lane_window, windows
from consumer.edges.broker.edge import BrokerEdge, EdgeOptions
from consumer.edges.broker.publisher import ConfirmingPublisher
from consumer.edges.broker.topology_check import Inspection
from consumer.edges.history.build import limits_of, open_settled, open_target
from consumer.edges.history.history_writer import HistoryWriter
from consumer.edges.history.settled_lookup import SettledLookup
from consumer.edges.http.connect.guard import Guard
from consumer.edges.http.senders.dry_sender import DrySender
from consumer.edges.management.reach import Reach, diagnosis
from consumer.edges.operate.parked.worker_pass import BrokerParkedPass
from consumer.edges.operate.sender import make_sender
from consumer.edges.process.books_file import BooksFolder
from consumer.edges.process.failpoints import FailingListener, FailingPublisher, FailingSender, Failpoint
from consumer.edges.process.system import FileArchive, SystemClock
from consumer.edges.serve.health_server import HealthServer
from consumer.edges.store import StoreRecorder, open_store
from consumer.flow.base.checked_publisher import CheckedPublisher
from consumer.flow.base.context import BacklogLimit, Bounds, Context
from consumer.flow.base.history_notes import HistoryNotes
from consumer.flow.base.rate import limited
from consumer.flow.broker_events import BrokerEvents
from consumer.flow.control import Control
from consumer.flow.deliver.dead_letters import DeadLetters
from consumer.flow.deliver.router import Router
from consumer.flow.drain import Drain
from consumer.flow.endpoints.agreement import Agreement
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.endpoints.slow_probe import SlowProbe
from consumer.flow.endpoints.troubles import EndpointTroubles
from consumer.flow.observe.observer import Observer
from consumer.flow.operator_events import OperatorEvents
from consumer.flow.replay_jobs import JobPlaces, ReplayJobs
from consumer.flow.returns import Returns
from consumer.flow.store.consume_gate import ConsumeGate
from consumer.flow.store.index_count import IndexCount
from consumer.flow.store.parked_sizes import ParkedSizes
from consumer.flow.store.subscriptions import Subscriptions
from consumer.flow.store.trust import ALL, Trust
from consumer.flow.store_sync import StoreSync
from consumer.flow.take.backlog import Backlog
from consumer.flow.take.reroute import Reroute
from consumer.flow.take.sharing import Sharing
from consumer.flow.tenant_notices import TenantNotices
from consumer.ports import BrokerListener, Clock, Publisher, Sender, Source
from consumer.settings import Settings
from metrics.process import add_process
from metrics.series import Series
from topology.plan import build_plan, sized_queues


@dataclass(frozen=True, slots=True)
class Run:
    """How ``leveret run`` was called."""

    declare: bool = True
    clock: Clock = field(default_factory=SystemClock)  #: another one in the proofs of clock steps


class Outside:
    """The ports that the flow calls: clock, log and metrics, store, sender, broker."""

    def __init__(self, settings: Settings, how: Run, reach: Reach) -> None:
        self.instance = os.urandom(6).hex()
        self.clock = how.clock
        self.registry = CollectorRegistry()
        add_process(self.registry)
        metrics = settings.metrics
        self.observe = Observer(Series(self.registry, metrics.tenants), subscriptions=metrics.subscriptions)
        self.observe.began(version("leveret"), platform.python_version())
        books = BooksFolder(settings.home / "books", self.observe.books, settings.listen_port)
        self.books = books.open()
        self.observe.books.follow(self.books)
        self.store = open_store(settings)
        self.record = StoreRecorder(self.store.records, self.observe, self.clock.now)
        self.history = _history_of(settings, self.observe, self.clock)
        self.settled = _settled_of(settings, self.observe, self.clock)
        self.tracing = tracing_of(settings, self.instance, self.observe)
        self.sender = make_sender(settings)
        for url in (*reach.places(), *filter(None, [settings.tracing.url])):
            self.sender.guard.protect_url(url)
        amqp = amqp_options(
            settings.amqp, reach.urls, _rotated(settings, self.sender.guard), diagnosis(reach.management)
        )
        self.broker = BrokerPorts(_broker_options(settings, how, amqp, self.instance), self.observe)
        self.failpoint = None if settings.failpoint is None else Failpoint(settings.failpoint)


class Flow:
    """The parts of the flow, each built after those that it calls."""

    def __init__(self, settings: Settings, outside: Outside) -> None:
        clock, observe, store, record = outside.clock, outside.observe, outside.store, outside.record
        checked = checked_publisher_of(settings, outside)
        self.context = context = context_of(settings, outside, checked)
        _follow_stuck_queues(context, outside.broker.publisher)
        self.returns = Returns(context, checked, outside.broker.routes)
        self.endpoints = Endpoints(context)
        self.trust = Trust(observe, outside.broker.store_record)
        self.subscriptions = Subscriptions(store, observe, record, self.trust, self.endpoints.forgive)
        self.index_count = IndexCount(store.records, observe, is_kept=settings.store.parked_index_max > 0)
        self.store_sync = StoreSync(store, self.subscriptions, self.endpoints, record, observe)
        self.agreement = Agreement(context, self.subscriptions, self.endpoints, outside.instance)
        is_dry = settings.sending.mode == "dry"
        probe_s = None if is_dry else settings.sending.probe_disabled_s
        self.slow_probe = SlowProbe(context, self.subscriptions, store, probe_s, self.agreement.leads)
        self.operator_events = OperatorEvents(context, self.subscriptions)
        self.replay_jobs = self._replay_jobs(settings, outside, is_dry=is_dry)
        self.tenant_notices = TenantNotices(
            context, self.subscriptions, loaded=self.store_sync.loaded.is_set, leads=self.agreement.leads
        )
        self.parked_sizes = ParkedSizes(
            store.records, observe, self.tenant_notices.take, is_kept=self.index_count.is_kept
        )
        self.router = Router(context, self.subscriptions, self.endpoints)
        self.dead_letters = DeadLetters(context, FileArchive(settings.home / "archive", clock))
        self.backlog = Backlog(context.backlog, context.weight, observe)
        intake, routes = self.router.intake, outside.broker.routes
        self.reroute = Reroute(context, intake, routes, self.subscriptions.tenants)
        self.sharing = Sharing(context, intake, by_tenant=settings.events.hash_on == "tenant")
        self.control = Control(
            self.subscriptions, self.endpoints, self.agreement, context, self.store_sync.reload_soon
        )

    def _replay_jobs(self, settings: Settings, outside: Outside, *, is_dry: bool) -> ReplayJobs:
        places = JobPlaces(
            jobs=outside.store.records.jobs,
            parked=BrokerParkedPass(outside.broker.options.amqp, self.context.names),
            worker=outside.instance,
            leads=self.agreement.leads,
        )
        rules = settings.parked.rules(is_dry=is_dry)
        return ReplayJobs(self.context, self.subscriptions, self.endpoints, places, rules)


def _follow_stuck_queues(context: Context, publisher: ConfirmingPublisher) -> None:
    """Let the flow avoid the queues that confirm no publish."""
    publisher.stuck.add(lambda queues: context.stuck.set_queues(queues, context.names, context.ladder))


class Worker:
    """One worker: the ports, the flow, and everything that calls the flow."""

    def __init__(self, settings: Settings, how: Run, reach: Reach) -> None:
        self.settings = settings
        self.outside = outside = Outside(settings, how, reach)
        self.flow = flow = Flow(settings, outside)
        broker, observe, intake = outside.broker, outside.observe, flow.router.intake
        self.stopping = asyncio.Event()
        self.edge = edge = BrokerEdge(
            _edge_options(settings, reach, broker.options, flow),
            broker,
            _listener_of(flow, outside.failpoint),
            observe,
        )
        self.consume_gate = ConsumeGate(flow.trust, flow.backlog, intake, edge.leave, observe)
        self.readiness = Readiness(
            edge=edge,
            consume_gate=self.consume_gate,
            subscriptions=flow.subscriptions,
            backlog=flow.backlog,
            context=flow.context,
            returns=flow.returns,
            stopping=self.stopping,
            is_dry=settings.sending.mode == "dry",
        )
        self.gauges = _gauges_of(flow, edge, self.readiness, outside)
        self.pressure = PressureRelief(
            publisher=broker.publisher,
            edge=edge,
            intake=intake,
            observe=observe,
            give_back_s=settings.windows.give_back_s,
            stopping=self.stopping,
        )
        self.health = HealthServer(
            outside.registry,
            self.readiness.unready,
            self.readiness.notes,
            sender_stats(settings.subscription_rules().retry, settings.sending.timeout_s),
        )

    def drain(self) -> Drain:
        """Return the drain of this worker."""
        return Drain(
            router=self.flow.router,
            overflow=self.flow.dead_letters,
            ops=self.flow.operator_events,
            agreement=self.flow.agreement,
            observe=self.outside.observe,
            stop_consuming=self.edge.stop_consuming,
            flush=self._flush,
            grace_s=self.settings.sending.drain_grace_s,
        )

    def sees_returns(self) -> bool:
        """Return whether messages can come back from the rungs to this worker now."""
        return self.edge.consumes(Source.DUE) and self.outside.broker.publisher.pressed() is None

    async def _flush(self) -> None:
        """Report the last checks that came back, and return once the broker has every settlement."""
        await self.flow.returns.settle()
        await self.edge.flush()


def _gauges_of(flow: Flow, edge: BrokerEdge, readiness: Readiness, outside: Outside) -> Gauges:
    return Gauges(
        router=flow.router,
        edge=edge,
        readiness=readiness,
        clock=outside.clock,
        observe=outside.observe,
        troubles=EndpointTroubles(flow.subscriptions, flow.endpoints, outside.observe),
    )


def checked_publisher_of(settings: Settings, outside: Outside) -> CheckedPublisher:
    """Return the publisher of the flow."""
    publisher: Publisher = outside.broker.publisher
    if outside.failpoint is not None:
        publisher = FailingPublisher(publisher, outside.failpoint)
    return CheckedPublisher(publisher, settings.topology_spec().names.wait, outside.instance)


def context_of(settings: Settings, outside: Outside, publisher: Publisher) -> Context:
    """Return the ports and constants that every part of the flow shares."""
    spec, sending, observe = settings.topology_spec(), settings.sending, outside.observe
    sender: Sender = DrySender(observe) if sending.mode == "dry" else outside.sender
    if outside.failpoint is not None:
        sender = FailingSender(sender, outside.failpoint)
    return Context(
        publisher=publisher,
        sender=sender,
        clock=outside.clock,
        observe=observe,
        sample=random.random,
        random_bytes=os.urandom,
        names=spec.names,
        ladder=spec.ladder,
        due_queues=spec.due_queues,
        decode=settings.decode_rules(),
        archive=FileArchive(settings.home / "archive", outside.clock, "cancelled"),
        bounds=bounds_of(settings),
        books=outside.books,
        record=outside.record,
        notes=_notes_of(settings, outside),
        settled=outside.settled,
        tracer=tracer_of(outside.tracing),
        rate=limited(sending.rate_per_s, sending.burst),
        backlog=BacklogLimit(limit_bytes=settings.limits.waiting_bytes),
    )


def _history_of(settings: Settings, observe: Observer, clock: Clock) -> HistoryWriter | None:
    """Return the writer of the history; None if the settings keep none."""
    if settings.history.keep == "off":
        return None
    target, limits = open_target(settings), limits_of(settings)
    return HistoryWriter(target, limits, observe, clock.now, settings.history.answer_bytes)


def _settled_of(settings: Settings, observe: Observer, clock: Clock) -> SettledLookup | None:
    """Return the look-up of repeated events; None if the settings ask for none.

    A dry worker sends nothing, so the events that it took may not count for other workers.
    """
    window_s, is_dry = settings.events.dedupe_window_s, settings.sending.mode == "dry"
    if not window_s or settings.history.keep == "off" or is_dry:
        return None
    return SettledLookup(open_settled(settings), window_s, observe, clock.now)


def _notes_of(settings: Settings, outside: Outside) -> HistoryNotes:
    history = settings.history
    kept = min(history.answer_bytes, settings.sending.max_response_bytes) if history.keeps_answers() else 0
    return HistoryNotes(outside.history, outside.clock.now, keep=Keep(history.keep), answer_bytes=kept)


def bounds_of(settings: Settings) -> Bounds:
    """Return the bounds that the settings ask for."""
    spec = settings.topology_spec()
    return Bounds(
        concurrency=settings.sending.concurrency,
        quick_latency_s=settings.sending.quick_latency_s,
        quick_wait_s=settings.sending.quick_wait_s,
        max_targets_per_message=settings.sending.max_targets_per_message,
        due_hold=settings.due_hold(),
        suspect_after=settings.retry.suspect_after,
        retry_budget=settings.retry.total_budget,
        dedupe_window_s=settings.events.dedupe_window_s,
        user_agent=f"leveret/{version('leveret')}",
        parked_ttl_s=spec.parked_ttl_s,
        unknown_age_s=max_age_s(settings.subscription_rules().retry),
        spill_queues=spec.spill_queues,
        lane_window=lane_window(settings),
        in_hand_s=settings.windows.in_hand_s,
        tenant_share=settings.fairness.tenant_share,
        batch=settings.fairness.batch,
        noisy_share=settings.fairness.noisy_share,
        noisy_after_s=settings.fairness.noisy_after_s,
        weight_of=settings.fairness.weight_of,
        limit_of=settings.fairness.limit_of,
        dedicated=frozenset(spec.dedicated),
    )


def _rotated(settings: Settings, guard: Guard) -> Callable[[], tuple[str, ...]] | None:
    """Return how to read the broker's URLs from their file anew; None where no file holds them."""
    if not settings.amqp_url_file:
        return None

    def read() -> tuple[str, ...]:
        urls = settings.amqp_urls()
        for url in urls:  # no webhook may go to a new place of ours either
            guard.protect_url(url)
        return urls

    return read


def _broker_options(settings: Settings, how: Run, amqp: AmqpOptions, instance: str) -> BrokerOptions:
    spec = settings.topology_spec()
    return BrokerOptions(
        amqp=amqp,
        plan=build_plan(spec),
        instance=instance,
        tenant_header=spec.hash_header,
        sized_queues=sized_queues(spec),
        declare=how.declare and settings.topology.declare,
    )


def _edge_options(settings: Settings, reach: Reach, broker: BrokerOptions, flow: Flow) -> EdgeOptions:
    declare = broker.declare
    return EdgeOptions(
        windows=windows(settings),
        budget=budget(settings),
        control=settings.topology_spec().names.control if declare else None,
        depths=(flow.context.observe, flow.backlog, flow.index_count),
        count_indexed=flow.index_count.count,
        inspection=Inspection(plan=broker.plan, management=reach.management, over_amqp=not declare),
        left=ALL,
    )


def _listener_of(flow: Flow, failpoint: Failpoint | None) -> BrokerListener:
    listener = BrokerEvents(
        router=flow.router,
        dead_letters=flow.dead_letters,
        commands=flow.control,
        subscriptions=flow.subscriptions,
        agreement=flow.agreement,
        returns=flow.returns,
    )
    if failpoint is None:
        return listener
    return FailingListener(listener, failpoint, flow.context.bounds.suspect_after)
