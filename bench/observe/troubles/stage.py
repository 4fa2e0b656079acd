"""Everything around a trouble: broker, worker, name server, endpoints, Prometheus, Alertmanager, and load.

Data flow: load of all customers -> broker -> worker -> endpoints; worker and broker -> Prometheus -> alerts.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.broker import Broker
from bench.observe.troubles.customers import Customer, Site, flaky, well
from bench.prove import Bench
from consumer.core.tools.alerts.model import AlertOptions
from consumer.core.tools.alerts.rules import GROUPS
from consumer.core.tools.alerts.template import rules_document, rules_text
from tests.support.broker.load import secret_of
from tests.support.processes.alertmanager import Alertmanager
from tests.support.processes.daemon import Daemon, retry, subscription
from tests.support.processes.prometheus import Prometheus
from tests.support.servers.alert_inbox import AlertInbox
from tests.support.servers.certificates import Authority
from tests.support.servers.name_server import Answer, NameServer
from tests.support.system.publisher import EventPublisher

ROUND_S = 0.5
SCRAPE_S = 5
TIME_FACTOR = 1 / 20  #: of the durations in the alert rules
FLAKY_WAIT_S = 2.1  #: on the rung of 2 s
DAYS = 90  #: until a good certificate ends

SMALL = {
    "LEVERET_FAIRNESS__NOISY_AFTER_S": "1",
    "LEVERET_TOPOLOGY__LANES": "2",
    "LEVERET_TOPOLOGY__DUE_QUEUES": "1",
    "LEVERET_TOPOLOGY__SPILL_QUEUES": "1",
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.25,0.5,1,2,4]",
}
"""Settings of a run in small."""

ORDINARY: Sequence[Callable[[], Customer]] = (
    *(lambda number=number: Customer(f"well{number}", behave=well(0.01 * number)) for number in range(4)),
    lambda: Customer("busy", behave=well(0.05), burst=4),
    lambda: Customer(
        "flaky",
        behave=flaky(every=3),
        burst=2,
        fields={"retry": retry(base_s=FLAKY_WAIT_S, multiplier=1, jitter=0)},
    ),
)
"""Customers that are as well as customers are. The retries of the flaky one use the first rungs."""


@dataclass(slots=True)
class Stage:
    """Everything that runs.

    Attributes:
        customers: All, by tenant.
        hidden: A folder for programs and files of the operator.
        prepared: Anything that a trouble keeps from its begin to its repair.
    """

    bench: Bench
    broker: Broker
    customers: Mapping[str, Customer]
    hidden: Path
    names: NameServer
    authority: Authority
    options: AlertOptions
    sites: Sequence[Site] = ()
    daemon: Daemon = field(init=False)
    prometheus: Prometheus = field(init=False)
    inbox: AlertInbox = field(init=False)
    prepared: dict[str, Any] = field(default_factory=dict)

    @property
    def ordinary(self) -> Sequence[Customer]:
        """The customers without a trouble of their own."""
        names = {make().tenant for make in ORDINARY}
        return [each for each in self.customers.values() if each.tenant in names]

    @property
    def scrape_s(self) -> int:
        """Seconds between two scrapes."""
        return SCRAPE_S if self.bench.scale >= 1 else 1

    def environment(self) -> Mapping[str, str]:
        """Return the environment of the operator's shell."""
        path = os.pathsep.join([str(self.hidden), str(Path(sys.executable).parent), self.daemon.env["PATH"]])
        return {**self.daemon.env, "PATH": path}

    def rule(self, alert: str) -> Mapping[str, Any]:
        """Return the alert rule of that name."""
        groups = rules_document(GROUPS, self.options)["groups"]
        return next(rule for group in groups for rule in group["rules"] if rule.get("alert") == alert)

    def resolve(self, customer: Customer, answer: Answer | None = None) -> None:
        """Let the name server answer for the customer's host; with its address if *answer* is None."""
        for name in (customer.host, f"{customer.host}."):
            self.names.on(name, answer or Answer(("127.0.0.1",), ttl_s=1))

    def cut(self) -> None:
        """Close all connections of the endpoints."""
        for site in self.sites:
            site.cut()

    def certify(self, customer: Customer, days: int = DAYS) -> None:
        """Let the customer's server show a certificate that ends in *days* from its next connection on."""
        made = self.authority.pair(customer.host, days=days)
        file = self.hidden / f"{customer.tenant}.pem"
        file.write_text(made.key + made.certificate)
        self.prepared["tls"].load_cert_chain(file)
        self.cut()


@asynccontextmanager
async def staged(bench: Bench, sick: Sequence[Customer]) -> AsyncIterator[Stage]:
    """Run everything under load, with the customers of the troubles among the ordinary ones."""
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker(bench))
        names = await stack.enter_async_context(NameServer())
        everyone = {each.tenant: each for each in (*(make() for make in ORDINARY), *sick)}
        hidden = bench.folder / "operator"
        hidden.mkdir(parents=True)
        quick = min(bench.scale, 1) * TIME_FACTOR
        options = AlertOptions(time_factor=quick, rabbitmq_job="" if bench.amqp_url else "rabbitmq")
        stage = Stage(bench, broker, everyone, hidden, names, Authority(hidden, days=DAYS), options)
        await _open_sites(stage, stack)
        await _start(stage, stack)
        load = asyncio.create_task(_publish_on(broker.url, list(everyone.values())))
        try:
            yield stage
        finally:
            load.cancel()
            with suppress(asyncio.CancelledError):
                await load


async def _open_sites(stage: Stage, stack: AsyncExitStack) -> None:
    """Open the endpoints: a server for those with HTTP, and one for those with HTTPS."""
    customers = stage.customers.values()
    secure = [each for each in customers if each.is_tls]
    plain = Site([each for each in customers if not each.is_tls])
    stage.sites = [await stack.enter_async_context(plain)]
    for each in customers:
        stage.resolve(each)
    if secure:
        stage.prepared["tls"] = context = stage.authority.server(secure[0].host, days=DAYS)
        context.num_tickets = 0  # a server that starts anew does not know the sessions of before
        stage.sites = [plain, await stack.enter_async_context(Site(secure, tls=context))]


async def _start(stage: Stage, stack: AsyncExitStack) -> None:
    """Start the worker, with everyone subscribed, and all that watches it."""
    bench, broker = stage.bench, stage.broker
    settings = {
        "LEVERET_SENDING__DNS_SERVERS": json.dumps([stage.names.address]),
        "LEVERET_SENDING__CA_FILE": stage.authority.file,
        "LEVERET_FAIRNESS__EVENTS_PER_S": "30",
    }
    if bench.scale < 1:
        settings |= SMALL
    stage.daemon = await stack.enter_async_context(Daemon(bench.folder, broker.url, settings))
    await stage.daemon.start()
    await stage.daemon.subscribe([_entry(stage, each) for each in stage.customers.values()])
    stage.inbox = await stack.enter_async_context(AlertInbox())
    alertmanager = await stack.enter_async_context(Alertmanager(bench.folder, stage.inbox.address))
    targets = {"leveret": stage.daemon.listen, "alertmanager": alertmanager.address}
    if not bench.amqp_url:
        broker.write_rabbitmqctl(stage.hidden)
        targets["rabbitmq"] = urlsplit(broker.endpoint.prometheus_url).netloc
    prometheus = Prometheus(bench.folder, targets, rules_text(GROUPS, stage.options), stage.scrape_s)
    stage.prometheus = await stack.enter_async_context(prometheus)


def _entry(stage: Stage, customer: Customer) -> dict[str, object]:
    """Return the customer's entry of a subscriptions file."""
    url = stage.sites[customer.is_tls].url_of(customer)
    secrets = [secret_of(customer.tenant)]
    return subscription(customer.name, url, tenant=customer.tenant, **{"secrets": secrets, **customer.fields})


async def _publish_on(url: str, customers: Sequence[Customer]) -> None:
    """Publish the bursts of all customers until cancelled; while the broker blocks, they wait."""
    async with EventPublisher(url) as publisher:
        for number in count():
            due = [each for each in customers if number % each.rounds == 0]
            await asyncio.gather(*(_burst(publisher, each) for each in due))
            await asyncio.sleep(ROUND_S)


async def _burst(publisher: EventPublisher, customer: Customer) -> None:
    customer.published += await publisher.publish_many(customer.tenant, customer.burst)
