"""Find the addresses of a host, off the event loop and off its threads; keep them as long as they last.

Data flow: host -> (Lookup) kept answer, or one look-up for all who ask meanwhile -> c-ares: /etc/hosts, then
the name servers of /etc/resolv.conf -> addresses and TTL.

c-ares works in one thread of its own, whatever number of names it looks up, so a name server that is slow or
silent holds up nothing but the requests that need its names.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

import aiodns
from aiodns.error import DNSError

#: Finds the addresses of a host: (name, port) -> addresses as text. Raises OSError.
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

MAX_ADDRESSES = 32
"""Addresses of one name. Each is judged; a name with more of them is not looked at, as its owner could make
every connection cost what they please (FAULTS 86)."""

_KEPT_NAMES = 4_096  #: the one that was looked up longest ago goes first
_LAST_WORDS_S = 1.0  #: c-ares answers at once when it is told to end
_TRIES = 2  #: questions to one server before the next one, or the end

#: c-ares' codes for "there is no such name" and "it has no address". Source: ares.h.
_NO_SUCH_NAME = (aiodns.error.ARES_ENOTFOUND, aiodns.error.ARES_ENODATA, aiodns.error.ARES_EBADNAME)


class _Answer(NamedTuple):
    """What came of a look-up."""

    addresses: Sequence[str]  #: empty after a failure
    fault: socket.gaierror | None
    until: float  #: monotonic seconds


_CLOSED = _Answer((), socket.gaierror(socket.EAI_AGAIN, "the sender is closed"), 0.0)


class Lookup:
    """Looks names up. Lives in the loop of its first call."""

    def __init__(self, timeout_s: float, ttl_min_s: float, ttl_max_s: float, servers: Sequence[str]) -> None:
        """Prepare; nothing is opened before the first look-up.

        Args:
            timeout_s: After so long without an answer a look-up has failed.
            ttl_min_s: An answer, and a failure, is kept at least so long.
            ttl_max_s: An answer is kept at most so long.
            servers: Name servers as ``ADDRESS`` or ``ADDRESS:PORT``; empty: the system's.
        """
        self._timeout_s = timeout_s
        self._ttl_min_s = ttl_min_s
        self._ttl_max_s = ttl_max_s
        self._servers = servers
        self._resolver: aiodns.DNSResolver | None = None
        self._kept: dict[str, _Answer] = {}
        self._running: dict[str, asyncio.Task[_Answer]] = {}
        self._closed = False

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        """Return the addresses of *host* in the order in which they should be tried.

        Raises:
            OSError: there is none, or no name server answered.
        """
        answer = self._kept.get(host)
        if answer is None or answer.until < time.monotonic():
            task = self._running.get(host)
            if task is None:
                task = self._running[host] = asyncio.get_running_loop().create_task(self._ask(host))
            answer = await asyncio.shield(task)  # who gives up leaves it to the others
        if answer.fault is not None:
            raise socket.gaierror(*answer.fault.args)
        return answer.addresses

    async def close(self) -> None:
        """End every look-up, and the thread: it tells each of the end, and must find the loop running."""
        self._closed = True
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None
        running = list(self._running.values())
        if running:
            await asyncio.wait(running, timeout=_LAST_WORDS_S)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _ask(self, host: str) -> _Answer:
        try:
            answer = await self._find(host)
        except asyncio.CancelledError:  # by close: who waits gets an answer all the same
            return _CLOSED
        finally:
            self._running.pop(host, None)
        self._kept.pop(host, None)
        if len(self._kept) >= _KEPT_NAMES:
            del self._kept[next(iter(self._kept))]
        self._kept[host] = answer
        return answer

    async def _find(self, host: str) -> _Answer:
        if self._closed:
            return _CLOSED
        if self._resolver is None:
            servers = list(self._servers) or None
            self._resolver = aiodns.DNSResolver(servers, timeout=self._timeout_s / _TRIES, tries=_TRIES)
        # For localhost c-ares adds ::1 to what /etc/hosts says: allowing 127.0.0.0/8 would not be enough.
        family = socket.AF_INET if host.rstrip(".") == "localhost" else socket.AF_UNSPEC
        try:
            found = await self._resolver.getaddrinfo(host, family, type=socket.SOCK_STREAM)
        except DNSError as error:
            fault = _fault(error)
            return _Answer((), fault, time.monotonic() + self._ttl_min_s)
        if len(found.nodes) > MAX_ADDRESSES:
            fault = socket.gaierror(
                socket.EAI_FAIL,
                f"the name has {len(found.nodes)} addresses; at most {MAX_ADDRESSES} are taken",
            )
            return _Answer((), fault, time.monotonic() + self._ttl_min_s)
        addresses = tuple(dict.fromkeys(_text(node.addr) for node in found.nodes))
        ttl_s = min((*(node.ttl for node in found.nodes), *(name.ttl for name in found.cnames)), default=0)
        kept_s = min(max(ttl_s, self._ttl_min_s), self._ttl_max_s)
        return _Answer(addresses, None, time.monotonic() + kept_s)


def _text(address: tuple[bytes, int] | tuple[bytes, int, int, int]) -> str:
    """Return an address as text, with its zone if it has one: the guard refuses that."""
    text = address[0].decode("ascii")
    return f"{text}%{address[3]}" if len(address) == 4 and address[3] else text


def _fault(error: DNSError) -> socket.gaierror:
    code, text = (*error.args, "", "")[:2]
    if code in _NO_SUCH_NAME:
        return socket.gaierror(socket.EAI_NONAME, "there is no such name, or it has no address")
    if code == aiodns.error.ARES_ETIMEOUT:
        return socket.gaierror(socket.EAI_AGAIN, "no name server answered in time")
    return socket.gaierror(socket.EAI_AGAIN, f"the name server failed ({text})")
