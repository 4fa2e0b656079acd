"""Try the way to each endpoint: look-up, address guard, connection, TLS. No webhook is sent.

Data flow: stored entries -> one connection for each host and port with the same TLS -> :class:`Way`. Only
where no other clock answers, one endpoint is asked by ``HEAD /`` for its time.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from consumer.core.access import TlsPolicy
from consumer.core.changes.merge import StoredEntry
from consumer.core.endpoint.egress import EgressRule, is_address
from consumer.core.model import OutcomeKind
from consumer.core.subscription.entry import refuse_endpoint
from consumer.core.text.urls import Url, parse_url
from consumer.core.tools.doctor.endpoints import Way
from consumer.core.tools.doctor.surroundings import ClockReading
from consumer.edges.doctor.clocks import reading_of
from consumer.edges.http.build import WebhookSender
from consumer.edges.http.connect.guard import Goal
from consumer.edges.http.outcomes import AttemptFailed, shown
from consumer.edges.http.parts import Parts

AT_ONCE: Final = 32  #: connections that are opened at the same time
DATE_S: Final = 3.0  #: longest wait for the time of an endpoint
ALL_S: Final = 45.0  #: time for all endpoints; the last connection may need its own time-out longer
_HEAD_MAX: Final = 16_384


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A place that webhooks are sent to, with its TLS."""

    url: Url
    tls: TlsPolicy | None
    of: tuple[str, ...]  #: subscriptions, as ``tenant/name``

    @property
    def place(self) -> str:
        """``HOST:PORT``; path and query may contain a token."""
        host = f"[{self.url.host}]" if ":" in self.url.host else self.url.host
        return f"{host}:{self.url.port}"

    @property
    def has_name(self) -> bool:
        """Whether its host must be looked up."""
        return not is_address(self.url.host)


def endpoints_of(entries: Sequence[StoredEntry]) -> Sequence[Endpoint]:
    """Return the places of the enabled subscriptions whose secrets can be opened, each once."""
    found: dict[tuple[str, str, int, TlsPolicy | None], Endpoint] = {}
    for entry in entries:
        if not entry.enabled or entry.locked is not None:
            continue
        url, tls = parse_url(entry.url), entry.tls.build()
        key = (url.scheme, url.host, url.port, tls)
        before = found.get(key)
        name = f"{entry.tenant}/{entry.label}"
        found[key] = Endpoint(url, tls, (name,)) if before is None else replace(before, of=(*before.of, name))
    return list(found.values())


@dataclass(slots=True)
class WayFinder:
    """Opens one connection to each endpoint, in the way of the sender."""

    sender: WebhookSender
    rule: EgressRule
    wants_time: bool  #: whether the next endpoint is asked for its time
    connect_s: float = 5.0  #: longest time of one connection, as the sender has it
    all_s: float = ALL_S  #: time after which no further connection is opened
    readings: list[ClockReading] = field(default_factory=list)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE), init=False)

    async def ways(self, endpoints: Sequence[Endpoint]) -> Sequence[Way]:
        """Return the way to each of *endpoints*; those whose turn does not come in time are left out."""
        ends = asyncio.get_running_loop().time() + self.all_s
        ways = await asyncio.gather(*(self._way(each, ends) for each in endpoints))
        return [way for way in ways if way is not None]

    async def proxy_fault(self) -> str | None:
        """Return why the egress proxy cannot be reached; None if it can, or if there is none."""
        try:
            await self.sender.parts.dialer.try_proxy()
        except AttemptFailed as fault:
            return shown(str(fault))
        return None

    async def _way(self, endpoint: Endpoint, ends: float) -> Way | None:
        way = Way(place=endpoint.place, of=endpoint.of)
        refusal = refuse_endpoint(endpoint.url, self.rule)
        if refusal is not None:
            return replace(way, kind=OutcomeKind.BLOCKED, detail=refusal)
        async with self._turns:
            if asyncio.get_running_loop().time() > ends:
                return None
            try:
                return replace(way, ends=await self._connect(endpoint, self.sender.parts))
            except AttemptFailed as fault:
                is_late = fault.kind is OutcomeKind.TIMEOUT_CONNECT
                late = f"did not answer within {self.connect_s:g} s"
                return replace(way, kind=fault.kind, detail=late if is_late else shown(str(fault)))
            except (
                OSError,
                ValueError,
            ) as fault:  # OpenSSL refuses the subscription's own TLS; ssl.SSLError is one
                return replace(way, kind=OutcomeKind.TLS, detail=shown(str(fault)))

    async def _connect(self, endpoint: Endpoint, parts: Parts) -> float | None:
        """Connect; return the end of the server's certificate in Unix seconds, or None without TLS.

        Raises:
            AttemptFailed: there is no way.
            OSError, ValueError: the TLS of the subscription cannot be used.
        """
        url, is_tls = endpoint.url, endpoint.url.scheme == "https"
        context = await parts.tls.of(endpoint.tls) if is_tls else None
        goal = Goal(url.host, url.port, tls=is_tls)
        transport, head = await parts.dialer.open(goal, context, _Head)
        try:
            if self.wants_time:
                self.wants_time = False  # other endpoints connect meanwhile, and one is enough
                self.readings += await _time_of(endpoint, transport, head)
                self.wants_time = not self.readings
            return _end_of(transport.get_extra_info("peercert"))
        finally:
            transport.abort()


def _end_of(certificate: Mapping[str, Any] | None) -> float | None:
    try:
        return float(ssl.cert_time_to_seconds(certificate["notAfter"])) if certificate else None
    except (KeyError, ValueError):
        return None


class _Head(asyncio.Protocol):
    """Keeps the head of one response."""

    def __init__(self) -> None:
        self.data = b""
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self.data = (self.data + data)[:_HEAD_MAX]
        if b"\r\n\r\n" in self.data or len(self.data) == _HEAD_MAX:
            self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.ended.set()

    def dates(self) -> Iterator[str]:
        """Yield the values of the header Date."""
        for line in self.data.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"date":
                yield value.strip().decode("latin-1")


async def _time_of(endpoint: Endpoint, transport: asyncio.Transport, head: _Head) -> Sequence[ClockReading]:
    """Ask the endpoint's server for its time, without path, token and body of any webhook."""
    asked_at = time.time()
    transport.write(f"HEAD / HTTP/1.1\r\nHost: {endpoint.place}\r\nConnection: close\r\n\r\n".encode())
    try:
        async with asyncio.timeout(DATE_S):
            await head.ended.wait()
    except TimeoutError:
        return ()
    read = [reading_of(endpoint.place, date, asked_at, time.time()) for date in head.dates()]
    return [replace(reading, is_foreign=True) for reading in read[:1] if reading is not None]
