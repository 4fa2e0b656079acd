"""Tell what came of a request in the core's words: status or fault -> Outcome.

Data flow: response head -> (answered); exception -> (classify) kind and text.
"""

from __future__ import annotations

import aiohttp
from aiohttp import hdrs
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.http_exceptions import LineTooLong

from consumer.core.model import Kind, Outcome
from consumer.edges.http.guard import BlockedAddress

_TEXT_CHARS = 200  #: what we keep of any text that an endpoint chose
_BY_CLASS = {3: Kind.HTTP_3XX, 4: Kind.HTTP_4XX, 5: Kind.HTTP_5XX}


class AttemptFailed(Exception):
    """The sender itself ended the attempt; becomes an Outcome of *kind*."""

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def answered(message: RawResponseMessage, body: bytes, duration_s: float, detail: str) -> Outcome:
    """Return the outcome that the status decides.

    Args:
        message: The response head.
        body: What was kept of the body.
        duration_s: Connect to last body byte read.
        detail: What was wrong with the body, if anything.
    """
    status = message.code
    if status < 300:
        return Outcome(kind=Kind.OK, duration_s=duration_s, status=status, body=body, detail=detail)
    location = message.headers.get(hdrs.LOCATION) if status < 400 else None
    return Outcome(
        kind=_BY_CLASS.get(status // 100, Kind.PROTOCOL),
        duration_s=duration_s,
        status=status,
        retry_after=message.headers.get(hdrs.RETRY_AFTER),
        location=None if location is None else shown(location),
        detail=detail,
        body=body,
    )


def classify(fault: Exception, *, connected: bool) -> tuple[Kind, str]:
    """Return kind and text of a fault; *connected* tells in which part of the deadline it came."""
    match fault:
        case AttemptFailed():
            return fault.kind, shown(str(fault))
        case aiohttp.ClientSSLError():
            kind = Kind.TLS
        case aiohttp.ClientConnectorError():
            return _classify_connect(fault)
        case HttpProcessingError():
            return _classify_protocol(fault)
        case aiohttp.ServerDisconnectedError():
            return Kind.RESET, "the server closed the connection before answering"
        case aiohttp.ClientOSError() | ConnectionError():
            kind = Kind.RESET
        case TimeoutError():
            return (
                (Kind.TIMEOUT_TOTAL, "no whole response in time")
                if connected
                else (Kind.TIMEOUT_CONNECT, "no connection in time")
            )
        case _:
            kind = Kind.CLIENT_ERROR
    return kind, shown(f"{type(fault).__name__}: {fault}")


def _classify_connect(fault: aiohttp.ClientConnectorError) -> tuple[Kind, str]:
    cause = fault.os_error
    match cause:
        case BlockedAddress():
            kind = Kind.BLOCKED
        case _ if isinstance(fault, aiohttp.ClientConnectorDNSError):
            kind = Kind.DNS
        case TimeoutError():
            kind = Kind.TIMEOUT_CONNECT
        case ConnectionResetError() | ConnectionAbortedError() | BrokenPipeError():
            # A SYN is refused, never reset: the connection stood, and the handshake was cut.
            return Kind.TLS, "the server hung up in the TLS handshake"
        case _:
            kind = Kind.REFUSED  # also no route to the host, and several addresses that failed unlike
    return kind, shown(cause.strerror or str(cause))


def _classify_protocol(fault: HttpProcessingError) -> tuple[Kind, str]:
    """Tell a head that is too large from one that is wrong; the parser's own fault is the cause."""
    cause = fault.__cause__
    too_large = isinstance(cause, LineTooLong) or "Too many headers" in fault.message
    return Kind.TOO_LARGE if too_large else Kind.PROTOCOL, shown(fault.message)


def shown(text: str) -> str:
    """Return the start of a text that a stranger chose, safe for a log, a terminal and JSON.

    Whatever is not printable is written as an escape: control characters, line separators,
    bidirectional overrides, and the lone surrogates that stand for bytes which were not UTF-8.
    """
    text = text[:_TEXT_CHARS]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return text[:_TEXT_CHARS]
