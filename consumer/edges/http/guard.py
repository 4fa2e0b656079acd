"""Where connections may go, and how they are secured: look-up, address rule, TLS.

Data flow: host -> (GuardedResolver) addresses, all of them allowed -> (guarded_socket) the one that is
about to be connected to, judged once more, so that what was checked is what is dialled.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import AddrInfoType

from consumer.core.egress import EgressRule, refuse_address
from consumer.core.errors import ConfigError

#: Finds the addresses of a host: (name, port) -> addresses as text. Raises OSError.
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_LOOKUP_THREADS = 16  #: our own: a slow name server must not starve the loop's default ones


class BlockedAddress(OSError):
    """The egress rule forbids the address. An OSError, so that aiohttp closes what it opened."""


class SystemLookup:
    """Looks names up with the system's resolver, in threads of its own."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of *host* in the order in which they should be tried."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_LOOKUP_THREADS, thread_name_prefix="leveret-lookup")
        return await asyncio.get_running_loop().run_in_executor(self._threads, _getaddrinfo, host, port)

    def close(self) -> None:
        """Let the threads end, each after the look-up that it is in."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


class GuardedResolver(AbstractResolver):
    """Resolves for one connector; a host of which any address is forbidden is forbidden."""

    def __init__(self, resolve: Resolve, rule: EgressRule, timeout_s: float, *, tls: bool) -> None:
        self._resolve = resolve
        self._rule = rule
        self._timeout_s = timeout_s
        self._tls = tls

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return every address of *host*.

        Raises:
            BlockedAddress: one of them is forbidden.
            OSError: there is none, or the look-up took too long.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                addresses = await self._resolve(host, port)
        except TimeoutError:
            raise socket.gaierror(socket.EAI_AGAIN, "the name look-up took too long") from None
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        for address in addresses:
            _guard(address, self._rule, tls=self._tls)
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in addresses
        ]

    async def close(self) -> None:
        """Nothing is held here."""


def guarded_socket(rule: EgressRule, *, tls: bool) -> Callable[[AddrInfoType], socket.socket]:
    """Return a socket factory that judges the very address that is about to be connected to."""

    def make(info: AddrInfoType) -> socket.socket:
        family, kind, proto, _, address = info
        _guard(str(address[0]), rule, tls=tls)
        return socket.socket(family, kind, proto)

    return make


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Return a context that verifies chain, name and dates, and speaks TLS 1.2 or newer.

    Raises:
        ConfigError: *ca_file* cannot be read as PEM.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as fault:  # ssl.SSLError is one
            raise ConfigError(f"sending.ca_file: {ca_file!r} is not a readable PEM file ({fault})") from None
    return context


def _guard(address: str, rule: EgressRule, *, tls: bool) -> None:
    reason = refuse_address(address, rule, tls=tls)
    if reason is not None:
        raise BlockedAddress(errno.EACCES, reason)


def _getaddrinfo(host: str, port: int) -> Sequence[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label that IDNA cannot encode
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
