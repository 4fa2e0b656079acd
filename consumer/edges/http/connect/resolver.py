"""Find the addresses of a host, off the event loop and off its threads; keep them as long as they last.

Data flow: host -> (Lookup) kept answer, or one look-up for all who ask meanwhile -> c-ares: /etc/hosts, then
the name servers of /etc/resolv.conf -> addresses and TTL.

c-ares works in one thread of its own, whatever number of names it looks up, so a name server that is slow or
silent holds up nothing but the requests that need its names.

A look-up that meets silence is the name's fault only where a name server answers something else meanwhile:
the root's own servers, whose names every one of them knows. Otherwise no name server can be reached, which is
this machine's fault and no endpoint's.

A name is absolute: ``hook.example`` is not also looked for below the search domains of /etc/resolv.conf,
where somebody else may hold it. Only places that other libraries connect to are found as those find them.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

import aiodns
import pycares
from aiodns.error import DNSError

#: Finds the addresses of a host: (name, port) -> addresses as text. Raises OSError.
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

MAX_ADDRESSES = 32
"""Addresses of one name. Each is judged; a name with more of them is not looked at, as its owner could make
every connection cost what they please (fault 86)."""

_KEPT_NAMES = 4_096  #: the one that was looked up longest ago goes first
_OWN_RATIO = 0.9  #: of the time-out: this look-up ends before who waits for it gives up
_AWAY_S = 1.0  #: so long it is kept that no name server can be reached
_LAST_WORDS_S = 1.0  #: c-ares answers at once when it is told to end
_TRIES = 2  #: questions to one server before the next one, or the end

#: No search domains, no aliases of HOSTALIASES; with EDNS, as c-ares has it otherwise. Source: ares_init(3).
_ABSOLUTE = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_NOALIASES | pycares.ARES_FLAG_EDNS

#: c-ares' codes for "there is no such name" and "it has no address". Source: ares.h.
_NO_SUCH_NAME = (aiodns.error.ARES_ENOTFOUND, aiodns.error.ARES_ENODATA, aiodns.error.ARES_EBADNAME)


#: c-ares' codes for "this machine cannot ask": no server takes the question, no handle, no memory.
_CANNOT_ASK = (aiodns.error.ARES_ECONNREFUSED, aiodns.error.ARES_EFILE, aiodns.error.ARES_ENOMEM)


_SILENT = ((aiodns.error.ARES_ETIMEOUT,), *((code,) for code in _CANNOT_ASK))


class NameServersAway(OSError):
    """No name server can be reached from here; the name may be good."""


class _Answer(NamedTuple):
    """What came of a look-up."""

    addresses: Sequence[str]  #: empty after a failure
    fault: OSError | None
    until: float  #: monotonic seconds


_CLOSED = _Answer((), socket.gaierror(socket.EAI_AGAIN, "the sender is closed"), 0.0)


class Lookup:
    """Looks names up. Lives in the loop of its first call."""

    def __init__(
        self,
        timeout_s: float,
        ttl_min_s: float,
        ttl_max_s: float,
        servers: Sequence[str],
        *,
        absolute: bool = True,
    ) -> None:
        """Prepare; nothing is opened before the first look-up.

        Args:
            timeout_s: After so long without an answer a look-up has failed.
            ttl_min_s: An answer, and a failure, is kept at least so long.
            ttl_max_s: An answer is kept at most so long.
            servers: Name servers as ``ADDRESS`` or ``ADDRESS:PORT``; empty: the system's.
            absolute: False: also below the system's search domains, as ``getaddrinfo`` does.
        """
        self._flags = _ABSOLUTE if absolute else None
        self._timeout_s = timeout_s
        self._ttl_min_s = ttl_min_s
        self._ttl_max_s = ttl_max_s
        self._servers = servers
        self._resolver: aiodns.DNSResolver | None = None
        self._kept: dict[str, _Answer] = {}
        self._running: dict[str, asyncio.Task[_Answer]] = {}
        self._witness: asyncio.Task[None] | None = None
        self._answered_at = 0.0  #: monotonic seconds when a name server last answered anything
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
            raise type(answer.fault)(*answer.fault.args)
        return answer.addresses

    async def close(self) -> None:
        """End every look-up, and the thread: it tells each of the end, and must find the loop running."""
        self._closed = True
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None
        if self._witness is not None:
            self._witness.cancel()
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
            self._resolver = aiodns.DNSResolver(
                servers, timeout=self._timeout_s / _TRIES, tries=_TRIES, flags=self._flags
            )
        asked = time.monotonic()
        witness = asyncio.get_running_loop().call_later(self._timeout_s / _TRIES, self._ask_witness)
        name = host.removesuffix(".")  # with its dot c-ares would not find it in /etc/hosts
        # For localhost c-ares adds ::1 to what /etc/hosts says: allowing 127.0.0.0/8 would not be enough.
        family = socket.AF_INET if name == "localhost" else socket.AF_UNSPEC
        try:
            async with asyncio.timeout(_OWN_RATIO * self._timeout_s):
                found = await self._resolver.getaddrinfo(
                    name if self._flags else host, family, type=socket.SOCK_STREAM
                )
        except (DNSError, TimeoutError) as error:
            fault = self._fault(error, host, asked)
            is_away = isinstance(fault, NameServersAway)
            return _Answer((), fault, time.monotonic() + (_AWAY_S if is_away else self._ttl_min_s))
        finally:
            witness.cancel()
        if len(found.nodes) > MAX_ADDRESSES:
            self._answered_at = time.monotonic()
            too_many = socket.gaierror(
                socket.EAI_FAIL,
                f"the name has {len(found.nodes)} addresses; at most {MAX_ADDRESSES} are taken",
            )
            return _Answer((), too_many, time.monotonic() + self._ttl_min_s)
        addresses = tuple(dict.fromkeys(_text(node.addr) for node in found.nodes))
        ttl_s = min((*(node.ttl for node in found.nodes), *(name.ttl for name in found.cnames)), default=0)
        if ttl_s:  # what /etc/hosts says lasts for no time
            self._answered_at = time.monotonic()
        kept_s = min(max(ttl_s, self._ttl_min_s), self._ttl_max_s)
        return _Answer(addresses, None, time.monotonic() + kept_s)

    def _ask_witness(self) -> None:
        """Ask what every name server knows, unless that is being asked."""
        if self._witness is None and self._resolver is not None:
            self._witness = asyncio.get_running_loop().create_task(self._hear_witness(self._resolver))

    async def _hear_witness(self, resolver: aiodns.DNSResolver) -> None:
        try:
            await resolver.query_dns(".", "NS")
        except DNSError as error:
            if error.args[:1] in _SILENT:
                return
        finally:
            self._witness = None
        self._answered_at = time.monotonic()

    def _fault(self, error: DNSError | TimeoutError, host: str, asked: float) -> OSError:
        """Say what came of a look-up that began at *asked*."""
        code, text = (*error.args, "", "")[:2]
        if isinstance(error, TimeoutError):
            code = aiodns.error.ARES_ETIMEOUT
        if code in _CANNOT_ASK:
            return NameServersAway(errno.EHOSTUNREACH, f"no name server can be asked ({text})")
        if code != aiodns.error.ARES_ETIMEOUT:
            self._answered_at = time.monotonic()
        if code in _NO_SUCH_NAME:
            hint = "" if "." in host else "; no search domain is added, so write the name in full"
            return socket.gaierror(socket.EAI_NONAME, f"there is no such name, or it has no address{hint}")
        if code != aiodns.error.ARES_ETIMEOUT:
            return socket.gaierror(socket.EAI_AGAIN, f"the name server failed ({text})")
        if self._answered_at < asked:
            return NameServersAway(errno.EHOSTUNREACH, "no name server answers anything")
        return socket.gaierror(socket.EAI_AGAIN, "no name server answered in time")


def _text(address: tuple[bytes, int] | tuple[bytes, int, int, int]) -> str:
    """Return an address as text, with its zone if it has one: the guard refuses that."""
    text = address[0].decode("ascii")
    return f"{text}%{address[3]}" if len(address) == 4 and address[3] else text
