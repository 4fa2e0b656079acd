"""Open connections within one time bound: look-up, guard, TCP to the first address that answers, proxy, TLS.

Data flow: Goal -> (Guard) checked addresses -> socket, checked once more -> (proxy) tunnel -> (TLS)
transport. Every failure is an AttemptFailed with its kind.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from aiohappyeyeballs import AddrInfoType, start_connection

from consumer.core.endpoint.egress import is_address
from consumer.core.model import OutcomeKind
from consumer.edges.http.connect.guard import BlockedAddress, Goal, Guard
from consumer.edges.http.connect.proxy import tunnel
from consumer.edges.http.connect.resolver import NameServersAway
from consumer.edges.http.handles import EXHAUSTED, Handles
from consumer.edges.http.options import Proxy, SenderOptions
from consumer.edges.http.outcomes import AT_PROXY, AttemptFailed, late_in

_NEXT_ADDRESS_S = 0.25  #: head start of an address before the next one. Source: RFC 8305, 5
_PROXIED_ADDRESSES = 3  #: addresses of one name that are tried through a proxy, at most

_P = TypeVar("_P", bound=asyncio.Protocol)


class Dialer:
    """Opens connections for one sender."""

    def __init__(self, options: SenderOptions, guard: Guard, handles: Handles) -> None:
        self._guard = guard
        self._handles = handles
        self._proxy = options.proxy
        self._connect_timeout_s = options.connect_timeout_s
        self._proxy_timeout_s = options.resolve_timeout_s
        self.at_proxy: set[asyncio.Task[Any] | None] = set()  #: tasks that have not reached the proxy yet

    async def open(
        self, goal: Goal, context: ssl.SSLContext | None, factory: Callable[[], _P]
    ) -> tuple[asyncio.Transport, _P]:
        """Connect *factory*'s protocol to *goal*.

        Args:
            goal: Target of the connection.
            context: TLS context; None for plain HTTP.
            factory: Makes the protocol.

        Raises:
            AttemptFailed: no connection was made, and every socket is closed.
        """
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                sock = await (self._direct(goal) if self._proxy is None else self._proxied(goal, self._proxy))
                return await _start(sock, goal, context, factory)
        except TimeoutError as fault:
            raise AttemptFailed(*late_in(fault.__cause__, connected=False)) from None

    async def try_proxy(self) -> None:
        """Connect to the proxy, if there is one, and hang up.

        Raises:
            AttemptFailed: it cannot be reached.
        """
        if self._proxy is not None:
            (await self._reach(self._proxy)).close()

    async def _direct(self, goal: Goal) -> socket.socket:
        addresses = await self._addresses(goal)
        ours: list[OSError] = []  #: faults of our own, before any connection attempt

        def make(info: AddrInfoType) -> socket.socket:
            try:
                self._guard.judge(str(info[4][0]), goal)
                return self._handles.open_socket(*info[:3])
            except OSError as fault:
                ours.append(fault)
                raise

        try:
            return await _connect(addresses, goal.port, make)
        except OSError as fault:
            raise _unconnected(ours[0] if ours else fault) from None

    async def _proxied(self, goal: Goal, proxy: Proxy) -> socket.socket:
        """Ask the proxy for one address after the other, or for the name if the proxy checks addresses."""
        names = proxy.names and not is_address(goal.host)
        hosts = (goal.host,) if names else (await self._addresses(goal))[:_PROXIED_ADDRESSES]
        sock = await self._reach_first(proxy)
        for host in hosts[:-1]:
            try:
                return await _tunnelled(sock, proxy, host, goal.port)
            except AttemptFailed as fault:
                if fault.kind is not OutcomeKind.REFUSED:
                    raise
            sock = await self._reach(proxy)
        return await _tunnelled(sock, proxy, hosts[-1], goal.port)

    async def _reach_first(self, proxy: Proxy) -> socket.socket:
        """Connect to the proxy; note on a cancellation that the endpoint was not asked for yet.

        After the proxy has answered once, no such note is made, as the endpoint may then be the slow part.
        """
        task = asyncio.current_task()
        self.at_proxy.add(task)
        try:
            return await self._reach(proxy)
        except asyncio.CancelledError as cut:
            cut.add_note(AT_PROXY)
            raise
        finally:
            self.at_proxy.discard(task)

    async def _reach(self, proxy: Proxy) -> socket.socket:
        where = f"the proxy {proxy.host}:{proxy.port}"
        try:
            async with asyncio.timeout(self._proxy_timeout_s):
                addresses = await self._guard.look_up(proxy.host, proxy.port)
                return await _connect(
                    addresses, proxy.port, lambda info: self._handles.open_socket(*info[:3])
                )
        except TimeoutError:
            raise AttemptFailed(OutcomeKind.PROXY, f"{where} does not answer") from None
        except OSError as fault:
            kind = OutcomeKind.LOCAL if _is_ours(fault) else OutcomeKind.PROXY
            reason = fault.strerror or str(fault)
            raise AttemptFailed(kind, f"{where} cannot be reached: {reason}") from None

    async def _addresses(self, goal: Goal) -> Sequence[str]:
        try:
            return await self._guard.addresses(goal)
        except BlockedAddress as fault:
            raise _unconnected(fault) from None
        except OSError as fault:
            kind = OutcomeKind.LOCAL if _is_ours(fault) else OutcomeKind.DNS
            raise AttemptFailed(kind, fault.strerror or str(fault)) from None


def _is_ours(fault: OSError) -> bool:
    return isinstance(fault, NameServersAway) or fault.errno in EXHAUSTED


async def _tunnelled(sock: socket.socket, proxy: Proxy, host: str, port: int) -> socket.socket:
    """Return *sock* once its tunnel is open; otherwise close it."""
    try:
        await tunnel(sock, proxy, host, port)
    except BaseException:
        sock.close()
        raise
    return sock


async def _connect(
    addresses: Sequence[str], port: int, make: Callable[[AddrInfoType], socket.socket]
) -> socket.socket:
    infos: list[AddrInfoType] = [
        (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0))
        if ":" in address
        else (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))
        for address in addresses
    ]
    return await start_connection(
        infos,
        happy_eyeballs_delay=_NEXT_ADDRESS_S,
        loop=asyncio.get_running_loop(),
        socket_factory=make,
    )


async def _start(
    sock: socket.socket, goal: Goal, context: ssl.SSLContext | None, factory: Callable[[], _P]
) -> tuple[asyncio.Transport, _P]:
    """Pass the socket to the loop, with a TLS handshake if *context* is given."""
    name = None if context is None else goal.host.rstrip(".")
    try:
        return await asyncio.get_running_loop().create_connection(
            factory, sock=sock, ssl=context, server_hostname=name
        )
    except OSError as fault:
        raise unstarted(fault) from None


def unstarted(fault: OSError) -> AttemptFailed:
    """Return the fault of an established connection before its first byte of HTTP."""
    text = fault.strerror or str(fault)
    match fault:
        case ssl.SSLError():
            return AttemptFailed(OutcomeKind.TLS, str(fault))
        case ConnectionError():  # a refused SYN is not a reset, so the handshake was cut
            return AttemptFailed(OutcomeKind.TLS, "the server hung up in the TLS handshake")
        case _ if fault.errno in EXHAUSTED:
            return AttemptFailed(OutcomeKind.LOCAL, text)
        case _:  # the network broke: the route is gone, or acknowledgements are missing
            return AttemptFailed(OutcomeKind.RESET, text)


def _unconnected(fault: OSError) -> AttemptFailed:
    text = fault.strerror or str(fault)
    match fault:
        case BlockedAddress():
            return AttemptFailed(OutcomeKind.BLOCKED, text)
        case TimeoutError():
            return AttemptFailed(OutcomeKind.TIMEOUT_CONNECT, text)
        case _ if fault.errno in EXHAUSTED:
            return AttemptFailed(OutcomeKind.LOCAL, text)
        case _:  # also a missing route to the host, and several addresses with different faults
            return AttemptFailed(OutcomeKind.REFUSED, text)
