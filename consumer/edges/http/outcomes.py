"""Convert a response or a fault into the core's Outcome.

Data flow: response head -> (answered); exception -> (classify) kind and text.
"""

from __future__ import annotations

import errno
import ssl
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import httpcore2

from consumer.core.model import Control, Outcome, OutcomeKind
from consumer.core.text.urls import show_url
from consumer.edges.http.handles import EXHAUSTED

_TEXT_CHARS = 200  #: characters that are kept of any text that an endpoint chose
_BY_CLASS = {3: OutcomeKind.HTTP_3XX, 4: OutcomeKind.HTTP_4XX, 5: OutcomeKind.HTTP_5XX}
_CONTROLS = {control.value: control for control in Control}

#: Network failures of an established connection; other faults of the system are our own.
_BROKE = frozenset(
    (
        *(errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.ETIMEDOUT, errno.EHOSTUNREACH),
        *(errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET),
    )
)

#: Notes on a cancellation: the stage that the attempt had reached; :func:`late_in` reads them.
AT_PROXY: Final = "the proxy was not reached yet"
IN_QUEUE: Final = "no connection was free"

#: Returns the values of a response header, by its name in lower case.
HeaderValues: TypeAlias = Callable[[str], Sequence[str]]


class AttemptFailed(Exception):
    """The sender itself ended the attempt; this becomes an Outcome of *kind*."""

    def __init__(self, kind: OutcomeKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def answered(
    status: int, values: HeaderValues, content: tuple[bytes, str], duration_s: float, detail: str
) -> Outcome:
    """Return the outcome that follows from the status.

    Args:
        status: HTTP status of the response.
        values: Headers of the response.
        content: Kept part of the body, and its content type if that is kept.
        duration_s: Seconds from connecting to the last body byte that was read.
        detail: Fault of the body, or an empty text.
    """
    body, content_type = content
    if 200 <= status < 300:
        return Outcome(
            OutcomeKind.OK, duration_s, status, detail=detail, body=body, content_type=content_type
        )
    location = values("location") if status < 400 else ()
    return Outcome(
        kind=_BY_CLASS.get(status // 100, OutcomeKind.PROTOCOL),
        duration_s=duration_s,
        status=status,
        retry_after=", ".join(values("retry-after")) or None,
        location=shown(show_url(location[0])) if location else None,
        detail=detail,
        body=body,
        content_type=content_type,
    )


def control_of(values: HeaderValues) -> Control | None:
    """Return the request in the header ``webhook-delivery``; None unless it is one of its two words."""
    asked = values("webhook-delivery")
    return _CONTROLS.get(asked[0].strip().lower()) if len(asked) == 1 else None


def late_in(cut: BaseException | None, *, connected: bool) -> tuple[OutcomeKind, str]:
    """Return kind and text of an attempt that met its deadline, by the stage that it had reached.

    Args:
        cut: The cancellation that the deadline caused, with the notes of the stage.
        connected: Whether there was a connection.
    """
    if connected:
        return OutcomeKind.TIMEOUT_TOTAL, "no whole response in time"
    notes = getattr(cut, "__notes__", ())
    if AT_PROXY in notes:
        return OutcomeKind.PROXY, "the proxy was not reached in time"
    if IN_QUEUE in notes:
        return OutcomeKind.CLIENT_ERROR, "every connection of connections_per_host was in use"
    return OutcomeKind.TIMEOUT_CONNECT, "no connection in time"


def classify(fault: Exception) -> tuple[OutcomeKind, str]:
    """Return kind and text of a fault."""
    match fault:
        case AttemptFailed():
            return fault.kind, shown(str(fault))
        case _ if isinstance(fault.__cause__, ssl.SSLError) or isinstance(fault, ssl.SSLError):
            # an alert after the handshake, such as one for a missing client certificate
            kind = OutcomeKind.TLS
        case ConnectionError() | httpcore2.NetworkError():
            kind = OutcomeKind.RESET
        case OSError() if fault.errno in _BROKE:
            kind = OutcomeKind.RESET
        case MemoryError():
            kind = OutcomeKind.LOCAL
        case OSError() if fault.errno in EXHAUSTED:
            kind = OutcomeKind.LOCAL
        case _:
            kind = OutcomeKind.CLIENT_ERROR
    return kind, shown(f"{type(fault).__name__}: {fault}")


def shown(text: str) -> str:
    """Return the start of an untrusted text, safe for a log, a terminal and JSON.

    Unprintable characters are written as escapes: control characters, line separators, bidirectional
    overrides, and the lone surrogates that represent bytes outside UTF-8.
    """
    text = text[:_TEXT_CHARS]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return text[:_TEXT_CHARS]
