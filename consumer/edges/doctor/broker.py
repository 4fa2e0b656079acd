"""Look at the broker: every URL, the version, alarms, rights, plugin, policies, queues.

Data flow: settings -> connections and the management API -> :class:`BrokerLook`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from aio_pika.abc import AbstractConnection
from yarl import URL

from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.core.tools.doctor.broker import (
    blocked,
    login_fault,
    node_findings,
    rights_findings,
    version_findings,
)
from consumer.core.tools.doctor.finding import Check, Finding, fault, note, of_error, warning, well
from consumer.core.tools.doctor.surroundings import ClockReading
from consumer.edges.broker.connection.connect import (
    CONNECTION_ERRORS,
    AmqpOptions,
    close_quietly,
    connect,
    shown_url,
    underlay,
)
from consumer.edges.doctor.clocks import reading_of
from consumer.edges.doctor.rights import Blocked, knows_hash_exchanges, missing_rights
from consumer.edges.doctor.topology_findings import of_topology
from consumer.edges.management.nodes import fetch_nodes
from consumer.edges.management.reach import ManagementLogin
from consumer.edges.management.snapshot import fetch_snapshot
from consumer.edges.operate.link import Link, find_broker
from consumer.settings import Settings
from topology import check
from topology.errors import PluginMissing, TopologyError
from topology.message_size import size_findings
from topology.plan import Plan, build_plan
from topology.probe import probe

_NO_PRIVATE = "no broker: "
_NO_ANSWER, _ASKS = "no broker answered: ", "; is it up, and is LEVERET_AMQP_URL right?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Longest times for the answers of a broker that accepted a connection, in seconds."""

    amqp_s: float = 40.0  #: for all questions over one connection
    right_s: float = 5.0  #: for the answer about one right
    http_s: float = 20.0  #: for all questions to the management API


@dataclass(slots=True)
class BrokerLook:
    """The broker, as far as it answered."""

    bounds: Bounds = Bounds()
    findings: list[Finding] = field(default_factory=list)
    readings: list[ClockReading] = field(default_factory=list)
    options: AmqpOptions | None = None  #: of a broker that accepted a connection; None: none did
    differences: list[check.Finding] = field(default_factory=list)  #: from the plan
    is_managed: bool = False  #: whether the management API answered
    has_nodes: bool = False  #: whether it reported the nodes with their alarms
    is_alarmed: bool = False  #: it takes no publish, so nothing else is published to it

    async def take(self, settings: Settings) -> None:
        """Look at the broker of the settings; a broker that does not answer is a finding."""
        try:
            link = await asyncio.to_thread(find_broker, settings)
        except ConfigError as error:
            self.findings.append(_unknown(str(error)))
            return
        plan = build_plan(settings.topology_spec())
        async with self._logged_in(link) as connection:
            if connection is not None:
                await self._over_http(link.management, plan)
                await self._over_amqp(connection, settings, plan)
                self.findings += of_topology(
                    plan, self.differences, declares=settings.topology.declare, looked=self.is_managed
                )
                self.findings += self._alarm_summary()

    @asynccontextmanager
    async def _logged_in(self, link: Link) -> AsyncIterator[AbstractConnection | None]:
        """Try every URL; give the first connection, or None if there is none, and close it afterwards."""
        urls = link.options.urls
        tried = await asyncio.gather(*(_try(replace(link.options, urls=(url,))) for url in urls))
        opened = [one for one in tried if not isinstance(one, str)]
        for url, one in zip(urls, tried, strict=True):
            if isinstance(one, str):
                self.findings.append(login_fault(shown_url(url), one, others_answer=bool(opened)))
            else:
                user = URL(url).user or "guest"
                self.findings.append(well(Check.LOGIN, shown_url(url), f"accepts the user {user}"))
                self.options = self.options or replace(link.options, urls=(url,))
        try:
            yield opened[0] if opened else None
        finally:
            await asyncio.gather(*(close_quietly(one) for one in opened))

    async def _over_http(self, login: ManagementLogin | None, plan: Plan) -> None:
        """Ask the management API, if it is known."""
        if login is None:
            return
        try:
            async with asyncio.timeout(self.bounds.http_s):
                snapshot, nodes = await asyncio.gather(fetch_snapshot(login), fetch_nodes(login))
        except TimeoutError:
            text = f"{login.url} did not answer within {self.bounds.http_s:g} s"
            remedy = "look at the load of broker and network"
            self.findings.append(warning(Check.LOGIN, "the management API", text, remedy))
            return
        except BrokerUnavailable as error:
            text, _, remedy = str(error).rpartition("; ")
            self.findings.append(warning(Check.LOGIN, "the management API", text, remedy))
            return
        self.is_managed = True
        self.differences += check.check_snapshot(plan, snapshot)
        self.findings += node_findings(nodes.nodes)
        self.has_nodes = bool(nodes.nodes)
        self.is_alarmed = any(node.memory_alarm or node.disk_alarm for node in nodes.nodes)
        reading = reading_of("the broker", *nodes.dated)
        self.readings += [reading] if reading is not None else []

    async def _over_amqp(self, connection: AbstractConnection, settings: Settings, plan: Plan) -> None:
        """Ask over AMQP what only AMQP shows, and what the management API did not show."""
        version = str(underlay(connection).server_properties.get("version", ""))
        self.findings += version_findings(version, declares=settings.topology.declare)
        whole = asyncio.timeout(self.bounds.amqp_s)
        try:
            async with whole:
                await self._compare(connection, settings, plan)
        except Blocked:
            self.is_alarmed = True
            self.findings.append(blocked())
        except TimeoutError:
            limit_s = self.bounds.amqp_s if whole.expired() else self.bounds.right_s
            text = f"the broker did not answer a question within {limit_s:g} s"
            self.findings.append(
                fault(Check.LOGIN, "the connection", text, "look at the load of broker and network")
            )
        except TopologyError as error:
            is_plugin = isinstance(error, PluginMissing)
            area = Check.PLUGIN if is_plugin else Check.TOPOLOGY
            self.findings.append(of_error(area, "the topology", str(error)))
        except (BrokerUnavailable, *CONNECTION_ERRORS) as error:
            text = str(error) or type(error).__name__
            self.findings.append(fault(Check.LOGIN, "the connection", text, "see the broker's log"))

    async def _compare(self, connection: AbstractConnection, settings: Settings, plan: Plan) -> None:
        """Compare queues and rights with the plan.

        Raises:
            Blocked: the broker does not read the connection any more.
            TopologyError: the broker refuses a declaration for a reason of its own.
        """
        declares, names = settings.topology.declare, settings.topology_spec().names
        if not self.is_managed:
            self.differences += await probe(plan, connection)
        if self.is_alarmed:
            text = "were not tried, as the broker takes no publish"
            self.findings.append(note(Check.RIGHTS, "rights of the user", text, "end the alarm first"))
            return
        missing, tried = await missing_rights(
            connection, plan, names, declares=declares, call_s=self.bounds.right_s
        )
        [url] = self.options.urls if self.options is not None else ("",)
        self.findings += rights_findings(missing, URL(url).user or "guest", checked=tried)
        self.differences += await size_findings(plan, connection)
        if plan.needs_consistent_hash and not self.is_managed:  # last, as the broker may close the connection
            self.findings.append(_plugin(is_known=await knows_hash_exchanges(connection)))

    def _alarm_summary(self) -> Sequence[Finding]:
        """Return one finding about alarms unless there is one already."""
        if any(each.check is Check.ALARMS for each in self.findings):
            return ()
        if self.has_nodes:
            return (well(Check.ALARMS, "alarms", "none is raised"),)
        if any(each.check is Check.RIGHTS for each in self.findings):
            return (well(Check.ALARMS, "alarms", "none is raised, as the broker reads what is published"),)
        return (note(Check.ALARMS, "alarms", "were not looked at", "set [amqp] management_url"),)


def _unknown(text: str) -> Finding:
    """Return the finding for a broker that is not known; a private one is started by the daemon."""
    if not text.startswith(_NO_PRIVATE):
        return of_error(Check.LOGIN, "the broker", text)
    remedy = "`leveret run` starts it, and so does `leveret broker start`; or set LEVERET_AMQP_URL"
    return warning(Check.LOGIN, "the private broker", "does not run", remedy)


async def _try(options: AmqpOptions) -> AbstractConnection | str:
    """Return a connection, or the reason of the refusal."""
    try:
        return await connect(options, "doctor")
    except BrokerUnavailable as error:
        [url] = options.urls
        text = str(error).removeprefix(_NO_ANSWER).removeprefix(f"{shown_url(url)}: ")
        late = f"did not answer within {options.connect_timeout_s:g} s"
        return re.sub("^TimeoutError", late, text.removesuffix(_ASKS))


def _plugin(*, is_known: bool) -> Finding:
    if is_known:
        return well(Check.PLUGIN, "plugins", "those that the plan needs are enabled")
    return fault(
        Check.PLUGIN,
        "plugin rabbitmq_consistent_hash_exchange",
        "is not enabled",
        "run `rabbitmq-plugins enable rabbitmq_consistent_hash_exchange`, or set [topology] "
        "consistent_hash = false and lanes = 1",
    )
