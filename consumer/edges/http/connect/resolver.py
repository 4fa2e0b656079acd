"""Find the addresses of a host, off the event loop and its threads, and keep them for their TTL.

Data flow: host -> (Lookup) kept answer, or one look-up for all who wait for it -> c-ares: /etc/hosts, then
the name servers of /etc/resolv.conf -> addresses and TTL.

c-ares uses one thread of its own for any number of names. So a slow or silent name server delays only the
requests that need its names.

A look-up without an answer is the name's fault only if a name server answers another question meanwhile: the
root's own servers, which every name server knows. Otherwise no name server can be reached. That is a fault of
this machine, not of the endpoint.

A name is absolute: ``hook.example`` is not also searched below the search domains of /etc/resolv.conf, where
somebody else may own it. Only places that other libraries connect to are looked up in the way of those
libraries.
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
"""Addresses of one name, at most. Each is checked, so a name with more of them is refused: its owner could
make every connection cost any amount (fault 86)."""

_KEPT_NAMES = 4_096  #: names whose answer is kept; the oldest answer is dropped first
_OWN_RATIO = 0.9  #: share of the time-out for one look-up, which ends before its waiters give up
_AWAY_S = 1.0  #: time for which unreachable name servers count as away
_CLOSE_S = 1.0  #: longest wait for the end of look-ups; c-ares ends them at once
_TRIES = 2  #: questions to one server before the next one, or the end

#: No search domains, no aliases of HOSTALIASES; with EDNS, the default of c-ares. Source: ares_init(3).
_ABSOLUTE = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_NOALIASES | pycares.ARES_FLAG_EDNS

#: Codes of c-ares for a missing name and for a name without an address. Source: ares.h.
_NO_SUCH_NAME = (aiodns.error.ARES_ENOTFOUND, aiodns.error.ARES_ENODATA, aiodns.error.ARES_EBADNAME)

#: Code of c-ares when no name server takes the question, or the connection for one long answer.
_REFUSED = aiodns.error.ARES_ECONNREFUSED

#: Codes of c-ares for faults of this machine: the question cannot be sent, no handle, no memory.
_CANNOT_ASK = (_REFUSED, aiodns.error.ARES_EFILE, aiodns.error.ARES_ENOMEM)

_SILENT = ((aiodns.error.ARES_ETIMEOUT,), *((code,) for code in _CANNOT_ASK))


class NameServersAway(OSError):
    """No name server can be reached from here; the name may be valid."""


async def silence_of(servers: Sequence[str], timeout_s: float) -> str | None:
    """Ask a question that every name server can answer; return why none did, or None if one answered.

    Args:
        servers: Name servers as ``ADDRESS`` or ``ADDRESS:PORT``; empty: those of the system.
        timeout_s: Longest time for the answer.
    """
    resolver = aiodns.DNSResolver(list(servers) or None, timeout=timeout_s / _TRIES, tries=_TRIES)
    late = f"did not answer within {timeout_s:g} s"
    try:
        async with asyncio.timeout(timeout_s * 2):
            await resolver.query_dns(".", "NS")
    except DNSError as error:
        if error.args[:1] == (aiodns.error.ARES_ETIMEOUT,):
            return late
        return "answers nothing" if error.args[:1] in _SILENT else None
    except TimeoutError:
        return late
    finally:
        await resolver.close()
    return None


class _Answer(NamedTuple):
    """The result of a look-up."""

    addresses: Sequence[str]  #: empty after a failure
    fault: OSError | None
    until: float  #: monotonic seconds


_CLOSED = _Answer((), socket.gaierror(socket.EAI_AGAIN, "the sender is closed"), 0.0)


class Lookup:
    """Looks names up, in the event loop of its first call."""

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
            timeout_s: Longest time for a look-up.
            ttl_min_s: Shortest time for which an answer or a failure is kept.
            ttl_max_s: Longest time for which an answer is kept.
            servers: Name servers as ``ADDRESS`` or ``ADDRESS:PORT``; empty: those of the system.
            absolute: False: names are also searched below the system's search domains, as ``getaddrinfo``
                does.
        """
        self._flags = _ABSOLUTE if absolute else None
        self._timeout_s = timeout_s
        self._ttl_min_s = ttl_min_s
        self._ttl_max_s = ttl_max_s
        self._servers = servers
        self._resolver: aiodns.DNSResolver | None = None
        self._kept: dict[str, _Answer] = {}
        self._running: dict[str, asyncio.Task[_Answer]] = {}
        self._root_query: asyncio.Task[None] | None = None
        self._answered_at = 0.0  #: monotonic seconds of the last answer of a name server, to any question
        self._closed = False

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        """Return the addresses of *host* in the order in which they should be tried.

        Raises:
            OSError: the name has no address, or no name server answered.
        """
        answer = self._kept.get(host)
        if answer is None or answer.until < time.monotonic():
            task = self._running.get(host)
            if task is None:
                task = self._running[host] = asyncio.get_running_loop().create_task(self._ask(host))
            answer = await asyncio.shield(task)  # a waiter that gives up leaves the task to the others
        if answer.fault is not None:
            raise type(answer.fault)(*answer.fault.args)
        return answer.addresses

    async def close(self) -> None:
        """End every look-up, and the thread, which reports each end to the running loop."""
        self._closed = True
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None
        if self._root_query is not None:
            self._root_query.cancel()
        running = list(self._running.values())
        if running:
            await asyncio.wait(running, timeout=_CLOSE_S)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _ask(self, host: str) -> _Answer:
        try:
            answer = await self._find(host)
        except asyncio.CancelledError:  # by close(): the waiters still get an answer
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
        witness = asyncio.get_running_loop().call_later(self._timeout_s / _TRIES, self._start_root_query)
        name = host.removesuffix(".")  # with the dot, c-ares would not find it in /etc/hosts
        # For localhost c-ares adds ::1 to /etc/hosts: allowing 127.0.0.0/8 would not be enough.
        family = socket.AF_INET if name == "localhost" else socket.AF_UNSPEC
        try:
            async with asyncio.timeout(_OWN_RATIO * self._timeout_s):
                found = await self._resolver.getaddrinfo(
                    name if self._flags else host, family, type=socket.SOCK_STREAM
                )
        except (DNSError, TimeoutError) as error:
            if error.args[:1] == (_REFUSED,):  # by TCP perhaps, which only this name's long answer needs
                await self._await_root_query(asked + _OWN_RATIO * self._timeout_s)
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
        if ttl_s:  # entries of /etc/hosts have no TTL
            self._answered_at = time.monotonic()
        kept_s = min(max(ttl_s, self._ttl_min_s), self._ttl_max_s)
        return _Answer(addresses, None, time.monotonic() + kept_s)

    def _start_root_query(self) -> None:
        """Ask a question that every name server can answer, unless one is in progress."""
        if self._root_query is None and self._resolver is not None:
            self._root_query = asyncio.get_running_loop().create_task(self._query_root(self._resolver))

    async def _await_root_query(self, until: float) -> None:
        """Ask what every name server can answer, and wait for the end, to *until* (monotonic seconds)."""
        self._start_root_query()
        left_s = until - time.monotonic()
        if self._root_query is not None and left_s > 0:
            await asyncio.wait({self._root_query}, timeout=left_s)

    async def _query_root(self, resolver: aiodns.DNSResolver) -> None:
        try:
            await resolver.query_dns(".", "NS")
        except DNSError as error:
            if error.args[:1] in _SILENT:
                return
        finally:
            self._root_query = None
        self._answered_at = time.monotonic()

    def _fault(self, error: DNSError | TimeoutError, host: str, asked: float) -> OSError:
        """Return the fault of a look-up that began at *asked*."""
        code, text = (*error.args, "", "")[:2]
        if isinstance(error, TimeoutError):
            code = aiodns.error.ARES_ETIMEOUT
        if code in _CANNOT_ASK and not (code == _REFUSED and self._answered_at >= asked):
            return NameServersAway(errno.EHOSTUNREACH, f"no name server can be asked ({text})")
        if code == _REFUSED:
            return socket.gaierror(socket.EAI_AGAIN, "the name server refused this look-up's connection")
        if code != aiodns.error.ARES_ETIMEOUT:
            self._answered_at = time.monotonic()
        if code in _NO_SUCH_NAME:
            hint = "" if "." in host else "; no search domain is added, so write the name in full"
            return socket.gaierror(socket.EAI_NONAME, f"the name does not exist, or has no address{hint}")
        if code != aiodns.error.ARES_ETIMEOUT:
            return socket.gaierror(socket.EAI_AGAIN, f"the name server failed ({text})")
        if self._answered_at < asked:
            return NameServersAway(errno.EHOSTUNREACH, "no name server answers anything")
        return socket.gaierror(socket.EAI_AGAIN, "no name server answered in time")


def _text(address: tuple[bytes, int] | tuple[bytes, int, int, int]) -> str:
    """Return an address as text, with its zone if it has one, which the guard refuses."""
    text = address[0].decode("ascii")
    return f"{text}%{address[3]}" if len(address) == 4 and address[3] else text
