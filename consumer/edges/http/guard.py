"""Judge where a connection may go: the egress rule, this machine's own addresses, and what is ours elsewhere.

Data flow: host -> look-up -> (Guard.addresses) all of them allowed -> (Guard.judge) the very one that is
about to be connected to, so that what was checked is what is dialled, on every new connection.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from consumer.core.egress import EgressRule, is_address, refuse_address, unmapped
from consumer.edges.http.own import is_own
from consumer.edges.http.resolver import Resolve

#: Ports of what is ours where its URL names none. Source: RabbitMQ, "Networking"; PostgreSQL, "port".
_DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671, "http": 80, "https": 443, "postgresql": 5432, "postgres": 5432}
_MANAGEMENT_PORTS = (15671, 15672)


class BlockedAddress(OSError):
    """The guard forbids the address. An OSError, so that whoever opens sockets closes what it opened."""


class Goal(NamedTuple):
    """What a connection is for."""

    host: str  #: a name or an address, as it stands in the URL
    port: int
    tls: bool


class Guard:
    """Judges names and addresses."""

    def __init__(self, rule: EgressRule, resolve: Resolve, resolve_timeout_s: float) -> None:
        self._rule = rule
        self._resolve = resolve
        self._resolve_timeout_s = resolve_timeout_s
        self._own_ports: set[int] = set()
        self._protected: dict[int, set[str]] = {}

    def protect(self, host: str, port: int) -> None:
        """Refuse every connection to *port* of *host* from now on, whatever the rule allows.

        Args:
            host: A name or an address; one of this machine stands for all of its addresses.
            port: 1 to 65535.
        """
        if is_address(host) and (ip_address(host).is_unspecified or is_own(ip_address(host))):
            self._own_ports.add(port)
        else:
            self._protected.setdefault(port, set()).add(host)

    def protect_url(self, url: str) -> None:
        """Refuse every connection to where *url* leads; beside AMQP also the ports of its management."""
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme.partition("+")[0])
        if parts.hostname and port:
            amqp = parts.scheme.startswith("amqp")
            for each in (port, *(_MANAGEMENT_PORTS if amqp else ())):
                self.protect(parts.hostname, each)

    async def addresses(self, goal: Goal) -> Sequence[str]:
        """Look the host up and judge every address: one that is forbidden forbids the name.

        Raises:
            BlockedAddress: one of them is forbidden.
            OSError: there is none, or the look-up took too long.
        """
        found = await self.look_up(goal.host, goal.port)
        for address in found:
            self.judge(address, goal)
        if goal.port in self._protected:
            await self._refuse_protected(found, goal.port)
        return found

    def judge(self, text: str, goal: Goal) -> None:
        """Judge the address that is about to be connected to.

        Raises:
            BlockedAddress: it is forbidden; says why.
        """
        reason = refuse_address(text, self._rule, tls=goal.tls, port=goal.port)
        if reason is not None:
            raise BlockedAddress(errno.EACCES, reason)
        address = unmapped(ip_address(text))
        if not is_own(address):
            return
        if goal.port in self._own_ports:
            reason = f"port {goal.port} of this machine belongs to Leveret or to what it uses"
        elif not self._rule.allows(address, goal.port):
            reason = f"address {address} is this machine's own"
        if reason is not None:
            raise BlockedAddress(errno.EACCES, reason)

    async def look_up(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of *host*, unjudged; an address is its own.

        Raises:
            OSError: there is none, or the look-up took too long.
        """
        if is_address(host):
            return (host,)
        try:
            async with asyncio.timeout(self._resolve_timeout_s):
                found = await self._resolve(host, port)
        except TimeoutError:
            raise socket.gaierror(socket.EAI_AGAIN, "the name look-up took too long") from None
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        return found

    async def _refuse_protected(self, found: Sequence[str], port: int) -> None:
        """Compare with what is ours on this port; its names are looked up now, as they may have moved."""
        asked = {unmapped(ip_address(address)) for address in found}
        for host in self._protected[port]:
            try:
                ours = await self.look_up(host, port)
            except OSError:  # then nobody reaches it by this name now
                continue
            addresses = {unmapped(ip_address(address.partition("%")[0])) for address in ours}
            here = any(map(is_own, addresses)) and any(map(is_own, asked))
            if here or asked & addresses:
                raise BlockedAddress(
                    errno.EACCES, f"port {port} of {host} belongs to Leveret or to what it uses"
                )
