"""Build the broker's ports that the flow calls: publisher, routes, record of the store.

They are complete before the flow is built. The consuming half, :mod:`.edge`, is built after the flow, which
it calls.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from consumer.edges.broker.connection.connect import AmqpOptions, KeepAlive
from consumer.edges.broker.connection.current import CurrentConnection
from consumer.edges.broker.connection.refusals import Refusals
from consumer.edges.broker.publisher import ConfirmingPublisher, Naming
from consumer.edges.broker.routes import BrokerRoutes
from consumer.edges.broker.store_record import BrokerStoreRecord
from consumer.ports import BrokerReports
from consumer.tasks import TaskHealth
from topology.names import Names
from topology.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """The options of the broker and of our topology."""

    amqp: AmqpOptions
    plan: Plan
    instance: str  #: name of this worker, new at each start
    tenant_header: str = "tenant"  #: header that names the tenant, for the route exchange
    sized_queues: Sequence[tuple[str, str]] = ()  #: (queue, label of its gauge)
    declare: bool = True
    sample: Callable[[], float] = random.random  #: uniform in [0, 1)


class BrokerPorts:
    """Everything that the flow calls, and the connections behind it.

    Attributes:
        consuming: The consuming connection, which also carries the acks.
        current: That connection while it is open, for routes and record.
        repair: Set when a queue, binding or exchange is missing.
        tasks: Takes unexpected ends of the tasks of both connections.
    """

    def __init__(self, options: BrokerOptions, observe: BrokerReports) -> None:
        names, amqp, declare = Names(options.plan.prefix), options.amqp, options.declare
        refusals = Refusals(observe, time.monotonic)
        self.options = options
        self.repair = asyncio.Event()
        self.tasks = TaskHealth(observe)
        self.current = CurrentConnection()
        self.consuming = KeepAlive(amqp, "consume", observe, options.sample, refusals=refusals)
        publishing = KeepAlive(amqp, "publish", observe, options.sample, refusals=refusals)
        naming = Naming(options.instance, names, options.tenant_header)
        self.publisher = ConfirmingPublisher(amqp, publishing, naming, self.repair.set, self.tasks)
        self.routes = BrokerRoutes(self.current, names.route, options.tenant_header, may_bind=declare)
        self.store_record = BrokerStoreRecord(
            self.current,
            names,
            [queue for queue, _ in options.sized_queues],
            self.publisher.publish,
            on_missing=self.repair.set if declare else None,
        )
