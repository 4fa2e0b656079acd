"""Ask an egress proxy for a tunnel, on a socket that is connected to it: HTTP CONNECT or SOCKS5.

What the proxy itself does wrong is ``proxy``: the endpoint was never asked. What the proxy says about the
endpoint is told as if we had tried ourselves: refused, no answer in time, or forbidden by the proxy's rules.
"""

from __future__ import annotations

import asyncio
import socket
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from python_socks import ProxyError, ProxyType
from python_socks.async_.asyncio import Proxy as SocksProxy

from consumer.core.model import OutcomeKind
from consumer.edges.http.options import Proxy
from consumer.edges.http.outcomes import AttemptFailed, shown

_HEAD_BYTES = 16_384  #: of the proxy's answer that are read at most

#: What a proxy's answer to CONNECT says about the endpoint. Source: RFC 9110, 9.3.6 and 15.6.
_BY_STATUS: Mapping[int, OutcomeKind] = {
    403: OutcomeKind.BLOCKED,
    502: OutcomeKind.REFUSED,
    503: OutcomeKind.REFUSED,
    504: OutcomeKind.TIMEOUT_CONNECT,
}
#: The same for SOCKS5. Source: RFC 1928, section 6.
_BY_REPLY: Mapping[int, OutcomeKind] = {
    2: OutcomeKind.BLOCKED,
    3: OutcomeKind.REFUSED,
    4: OutcomeKind.REFUSED,
    5: OutcomeKind.REFUSED,
    6: OutcomeKind.TIMEOUT_CONNECT,
}


async def tunnel(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Return once what is written to *sock* goes to *port* of *host*; the caller closes it otherwise.

    Args:
        sock: Connected to the proxy, not blocking.
        proxy: How to speak to it.
        host: A name, or an address without brackets.
        port: 1 to 65535.

    Raises:
        AttemptFailed: there is no tunnel.
    """
    try:
        if proxy.scheme == "socks5":
            await _ask_socks(sock, proxy, host, port)
        else:
            await _ask_http(sock, proxy, host, port)
    except OSError as fault:
        raise AttemptFailed(OutcomeKind.PROXY, f"the proxy hung up: {fault.strerror or fault}") from None


async def _ask_http(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if proxy.user is not None:
        pair = f"{proxy.user}:{proxy.password or ''}".encode()
        lines.append(f"Proxy-Authorization: Basic {b64encode(pair).decode()}")
    await loop.sock_sendall(sock, "\r\n".join([*lines, "", ""]).encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = await loop.sock_recv(sock, 4096)
        if not part or len(answer) > _HEAD_BYTES:
            raise AttemptFailed(OutcomeKind.PROXY, "the proxy hung up, or its answer has no end")
        answer += part
    head, _, rest = answer.partition(b"\r\n\r\n")
    line = shown(head.partition(b"\r\n")[0].decode("latin-1"))
    version, _, status = line.partition(" ")
    if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
        raise AttemptFailed(OutcomeKind.PROXY, f"the proxy does not speak HTTP: {line}")
    code = int(status[:3])
    if not 200 <= code < 300:
        raise AttemptFailed(_BY_STATUS.get(code, OutcomeKind.PROXY), f"the proxy says: {line}")
    if rest:  # nobody behind it may speak first
        raise AttemptFailed(OutcomeKind.PROXY, "the proxy sent more than the head of its answer")


async def _ask_socks(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    connected: Any = _Connected(
        sock
    )  # stands for a proxy before this one, which is how a socket is handed in
    socks = SocksProxy(
        ProxyType.SOCKS5, proxy.host, proxy.port, proxy.user, proxy.password, rdns=True, forward=connected
    )
    try:
        await socks.connect(host, port)
    except ProxyError as fault:
        kind = _BY_REPLY.get(fault.error_code or 0, OutcomeKind.PROXY)
        raise AttemptFailed(kind, f"the proxy says: {shown(str(fault))}") from None


class _Connected:
    """Gives out the socket that is connected already."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def connect(self, **_where: object) -> socket.socket:
        """Return it."""
        return self._sock
