"""Check where connections may go: the egress rule, this machine's own addresses, and our own services.

Data flow: host -> look-up -> (Guard.addresses) all addresses, once for each answer of a name server -> dial
-> (Guard.judge) the address that is about to be connected to. So every new connection goes to a checked
address.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from collections.abc import Sequence, Set
from ipaddress import ip_address
from typing import NamedTuple

from consumer.core.endpoint.egress import Address, EgressRule, is_address, refuse_address, unmapped
from consumer.edges.http.connect.own_addresses import is_own
from consumer.edges.http.connect.resolver import Resolve

#: Ports of our services whose URL has no port. Source: RabbitMQ, "Networking"; PostgreSQL, "port".
_DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671, "http": 80, "https": 443, "postgresql": 5432, "postgres": 5432}
#: Also those of management, metrics and Erlang.
_BROKER_PORTS = (
    5671,
    5672,
    15671,
    15672,
    15691,
    15692,
    25672,
    4369,
)

_JUDGED = 4_096  #: goals whose result is kept; the oldest result is dropped first

#: One HOST or HOST:PORT in the authority of a URL.
_PLACE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{0,5}))?")


class BlockedAddress(OSError):
    """The guard forbids the address. It is an OSError, so that the code that opens sockets closes them."""


class Goal(NamedTuple):
    """The target of a connection."""

    host: str  #: a name or an address, as in the URL
    port: int
    tls: bool


class Guard:
    """Checks names and addresses."""

    def __init__(
        self,
        rule: EgressRule,
        resolve: Resolve,
        resolve_timeout_s: float,
        resolve_ours: Resolve | None = None,
    ) -> None:
        """Prepare; nothing is looked up.

        Args:
            rule: The allowed targets.
            resolve: Looks up endpoints, token endpoints and the proxy.
            resolve_timeout_s: Bound on each look-up.
            resolve_ours: Looks up protected names in the way of the libraries that use them; None: *resolve*.
        """
        self._rule = rule
        self._resolve = resolve
        self._resolve_ours = resolve_ours or resolve
        self._resolve_timeout_s = resolve_timeout_s
        self._own_ports: set[int] = set()
        self._protected: dict[int, set[str]] = {}
        #: Addresses of each goal, and the reason if they are refused.
        self._judged: dict[Goal, tuple[Sequence[str], str | None]] = {}
        self._last_places: dict[str, Set[Address]] = {}  #: last known addresses of protected names

    def protect(self, host: str, port: int) -> None:
        """Refuse every connection to *port* of *host* from now on, even if the rule allows it.

        Args:
            host: A name or an address; an address of this machine means all of them.
            port: 1 to 65535.
        """
        if is_address(host) and (ip_address(host).is_unspecified or is_own(ip_address(host))):
            self._own_ports.add(port)
        else:
            self._protected.setdefault(port, set()).add(host)

    def protect_url(self, url: str) -> None:
        """Refuse every connection to the target of *url*; for AMQP also to the broker's other ports.

        A URL may name several hosts, as for PostgreSQL. Unreadable hosts and ports are skipped, as the
        library that connects to them reports the fault.
        """
        scheme, _, rest = url.partition("://")
        scheme = scheme.lower()
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
        default = _DEFAULT_PORTS.get(scheme.partition("+")[0])
        for place in authority.split(","):
            match = _PLACE.fullmatch(place)
            port = int(match[2]) if match and match[2] else default
            if match is None or not port or port > 65_535:
                continue
            for each in (port, *(_BROKER_PORTS if scheme.startswith("amqp") else ())):
                self.protect(match[1].strip("[]"), each)

    async def addresses(self, goal: Goal) -> Sequence[str]:
        """Look the host up and check every address: a single forbidden one forbids the name.

        Raises:
            BlockedAddress: an address is forbidden.
            OSError: the name has no address, or the look-up took too long.
        """
        found = await self.look_up(goal.host, goal.port)
        known, reason = self._judged.get(goal, (None, None))
        if known is not found:  # an unexpired answer of the look-up is always the same object
            reason = self._judge_all(found, goal)
        if reason is not None:
            raise BlockedAddress(errno.EACCES, reason)
        if goal.port in self._protected:
            await self._refuse_protected(found, goal.port)
        return found

    def judge(self, text: str, goal: Goal) -> None:
        """Check the address that is about to be connected to.

        Raises:
            BlockedAddress: it is forbidden; the text gives the reason.
        """
        reason = self._refusal(text, goal)
        if reason is not None:
            raise BlockedAddress(errno.EACCES, reason)

    def _judge_all(self, found: Sequence[str], goal: Goal) -> str | None:
        """Return the reason why the addresses are refused, or None; remember it."""
        refusals = (self._refusal(address, goal) for address in found)
        reason = next((refusal for refusal in refusals if refusal is not None), None)
        self._judged.pop(goal, None)
        if len(self._judged) >= _JUDGED:
            del self._judged[next(iter(self._judged))]
        self._judged[goal] = found, reason
        return reason

    def _refusal(self, text: str, goal: Goal) -> str | None:
        reason = refuse_address(text, self._rule, tls=goal.tls, port=goal.port)
        if reason is not None:
            return reason
        address = unmapped(ip_address(text))
        is_ours = goal.port in self._own_ports
        if not is_ours and self._rule.allows(address, goal.port):  # saves the question to the kernel
            return None
        if not is_own(address):
            return None
        if is_ours:
            return f"port {goal.port} of this machine belongs to Leveret or to what it uses"
        return f"address {address} is this machine's own"

    async def look_up(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of *host*, unchecked; an address is returned as it is.

        Raises:
            OSError: the name has no address, or the look-up took too long.
        """
        return await self._find(self._resolve, host, port)

    async def _find(self, resolve: Resolve, host: str, port: int) -> Sequence[str]:
        if is_address(host):
            return (host,)
        try:
            async with asyncio.timeout(self._resolve_timeout_s):
                found = await resolve(host, port)
        except TimeoutError:
            raise socket.gaierror(socket.EAI_AGAIN, "the name look-up took too long") from None
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        return found

    async def _refuse_protected(self, found: Sequence[str], port: int) -> None:
        """Refuse addresses of our services on this port; their names are looked up now, as they may move."""
        asked = {unmapped(ip_address(address)) for address in found}
        for host in self._protected[port]:
            ours = await self._places_of(host, port)
            here = any(map(is_own, ours)) and any(map(is_own, asked))
            if here or asked & ours:
                raise BlockedAddress(
                    errno.EACCES, f"port {port} of {host} belongs to Leveret or to what it uses"
                )

    async def _places_of(self, host: str, port: int) -> Set[Address]:
        """Return the addresses of a protected host, or else its last known ones.

        Raises:
            BlockedAddress: neither is known, so that any address could be one of them.
        """
        try:
            found = await self._find(self._resolve_ours, host, port)
        except OSError as fault:
            known = self._last_places.get(host)
            if known is None:
                text = f"port {port} of {host} belongs to Leveret or to what it uses, and has no address now"
                raise BlockedAddress(errno.EACCES, f"{text}: {fault.strerror or fault}") from None
            return known
        places = {unmapped(ip_address(address.partition("%")[0])) for address in found}
        self._last_places[host] = places
        return places
