"""Look at the network: name servers, egress rules, authorities, and the ways to the endpoints.

Data flow: settings + stored entries -> findings and clocks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from consumer.core.changes.merge import StoredEntry
from consumer.core.errors import LeveretError
from consumer.core.model import OutcomeKind
from consumer.core.tools.doctor.endpoints import (
    Way,
    name_server_findings,
    proxy_findings,
    untried_findings,
    way_findings,
)
from consumer.core.tools.doctor.finding import Check, Finding, of_error, warning, well
from consumer.core.tools.doctor.surroundings import ClockReading
from consumer.edges.doctor.certificates import certificate_findings_of, system_authority_findings
from consumer.edges.doctor.endpoints import Endpoint, WayFinder, endpoints_of
from consumer.edges.http.connect.resolver import silence_of
from consumer.edges.operate.sender import make_sender
from consumer.settings import Settings

SERVER_S: Final = 3.0  #: longest wait for the answer of a name server

_OF_SYSTEM = "of this machine"
_EVERYTHING = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))


@dataclass(slots=True)
class NetworkLook:
    """The network, as far as it answered."""

    findings: list[Finding] = field(default_factory=list)
    readings: list[ClockReading] = field(default_factory=list)

    async def take(
        self, settings: Settings, entries: Sequence[StoredEntry], most: int, *, wants_time: bool = False
    ) -> None:
        """Try the ways to at most *most* endpoints of *entries*.

        Args:
            settings: Egress rules, name servers, authorities.
            entries: Stored subscriptions.
            most: Endpoints that are tried.
            wants_time: Whether no other clock answered, so that one endpoint is asked for its time.
        """
        every = endpoints_of(entries)
        self.findings += _rule_findings(settings)
        tried = self._ways(settings, every[:most], wants_time=wants_time)
        ways, silences = await asyncio.gather(tried, _silences(settings))
        self.findings += way_findings(ways, time.time())
        self.findings += untried_findings(len(ways), min(most, len(every)), len(every))
        self.findings += _name_server_findings(settings, every, ways, silences)
        self.findings += await asyncio.to_thread(certificate_findings_of, settings, entries, ways)
        needs_authority = any(each.url.scheme == "https" and each.tls is None for each in every)
        self.findings += await asyncio.to_thread(
            system_authority_findings, needed=needs_authority and settings.sending.ca_file is None
        )
        if not any(each.check is Check.EGRESS for each in self.findings):
            self.findings.append(well(Check.EGRESS, "egress rules", "allow every endpoint that was tried"))
        if not any(each.check is Check.TLS for each in self.findings):
            self.findings.append(well(Check.TLS, "authorities and certificates", "are valid"))

    async def _ways(
        self, settings: Settings, endpoints: Sequence[Endpoint], *, wants_time: bool
    ) -> Sequence[Way]:
        try:
            sender = await asyncio.to_thread(make_sender, settings)  # it reads files
        except LeveretError as error:  # such as an unreadable ca_file
            self.findings.append(of_error(Check.TLS, "the sender", str(error)))
            return ()
        connect_s = settings.sending.connect_timeout_s
        finder = WayFinder(sender, settings.egress_rule(), wants_time, connect_s)
        try:
            away, ways = await asyncio.gather(finder.proxy_fault(), finder.ways(endpoints))
        finally:
            self.readings += finder.readings
            await sender.close()
        if settings.egress.proxy is not None:
            self.findings += proxy_findings(away, ways)
        return ways


async def _silences(settings: Settings) -> Mapping[str, str | None]:
    """Return for each name server why it does not answer, or None if it does."""
    servers = settings.sending.dns_servers or (_OF_SYSTEM,)
    timeout_s = min(SERVER_S, settings.sending.resolve_timeout_s())
    asked = [silence_of(() if server == _OF_SYSTEM else (server,), timeout_s) for server in servers]
    return dict(zip(servers, await asyncio.gather(*asked), strict=True))


def _name_server_findings(
    settings: Settings,
    endpoints: Sequence[Endpoint],
    ways: Sequence[Way],
    silences: Mapping[str, str | None],
) -> Sequence[Finding]:
    away = [(server, why) for server, why in silences.items() if why is not None]
    is_named = any(each.has_name for each in endpoints)
    failed = any(way.kind in (OutcomeKind.DNS, OutcomeKind.LOCAL) for way in ways)
    is_chosen = bool(settings.sending.dns_servers)
    needed = (is_chosen or (is_named and (failed or not ways))) and settings.egress.proxy_names == "checked"
    return list(name_server_findings(away, len(silences) - len(away), needed=needed))


def _rule_findings(settings: Settings) -> Sequence[Finding]:
    """Return egress rules that switch the address guard off, or have no effect."""
    found = []
    for each in settings.egress.allow:
        if each.network in _EVERYTHING:
            text = "allows every address, this machine's neighbours included"
            remedy = "name the networks of your endpoints only"
            found.append(warning(Check.EGRESS, f"[egress] allow {each}", text, remedy))
        denied = [net for net in settings.egress.deny if _covers(net, each.network)]
        if denied:
            text = f"has no effect, as deny contains {denied[0]}"
            found.append(warning(Check.EGRESS, f"[egress] allow {each}", text, "remove one of the two"))
    return found


def _covers(outer: IPv4Network | IPv6Network, inner: IPv4Network | IPv6Network) -> bool:
    if isinstance(outer, IPv4Network) and isinstance(inner, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and isinstance(inner, IPv6Network) and inner.subnet_of(outer)
