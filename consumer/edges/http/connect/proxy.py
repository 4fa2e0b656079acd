"""Ask an egress proxy for a tunnel, on a socket that is connected to it: HTTP CONNECT or SOCKS5.

A fault of the proxy itself has the kind ``proxy``, as the endpoint received no request. The proxy's report on
the endpoint becomes the same outcome as without a proxy: refused, no answer in time, or forbidden by its
rules.
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

_HEAD_BYTES = 16_384  #: bytes of the proxy's answer that are read, at most

#: Meaning of a proxy's answer to CONNECT for the endpoint. Source: RFC 9110, 9.3.6 and 15.6.
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
    """Open a tunnel from *sock* to *port* of *host*; the caller closes *sock* after a failure.

    Args:
        sock: Socket that is connected to the proxy, not blocking.
        proxy: Scheme and credentials of the proxy.
        host: A name, or an address without brackets.
        port: 1 to 65535.

    Raises:
        AttemptFailed: the tunnel was not opened.
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
        raise AttemptFailed(_BY_STATUS.get(code, OutcomeKind.PROXY), f"the proxy answers: {line}")
    if rest:  # an HTTP server behind the tunnel never speaks first
        raise AttemptFailed(OutcomeKind.PROXY, "the proxy sent more than the head of its answer")


async def _ask_socks(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    # It takes the place of an earlier proxy in a chain, the only way to pass a socket in.
    connected: Any = _Connected(sock)
    socks = SocksProxy(
        ProxyType.SOCKS5, proxy.host, proxy.port, proxy.user, proxy.password, rdns=True, forward=connected
    )
    try:
        await socks.connect(host, port)
    except ProxyError as fault:
        kind = _BY_REPLY.get(fault.error_code or 0, OutcomeKind.PROXY)
        raise AttemptFailed(kind, f"the proxy answers: {shown(str(fault))}") from None


class _Connected:
    """Provides a socket that is already connected."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def connect(self, **_where: object) -> socket.socket:
        """Return the socket."""
        return self._sock
