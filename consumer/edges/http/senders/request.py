"""Check the URL and the headers, and write the request head, the same for both senders."""

from __future__ import annotations

from yarl import URL

from consumer.core.endpoint.egress import EgressRule, refuse_url
from consumer.core.model import OutcomeKind, SignedRequest
from consumer.edges.http.outcomes import AttemptFailed

#: Headers that frame the message or name its target, which only the sender sets. Source: RFC 9112; RFC 9110,
#: 7.6.
_OWN_HEADERS = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect")
)

_KNOWN_NAMES = 1_024


def read_url(text: str, rule: EgressRule) -> URL:
    """Return a URL that passes every check that needs no name look-up; ASCII text is sent unchanged.

    A full stop behind the host makes a name absolute, which every name is here. It is removed, as it belongs
    neither into Host nor into TLS. Source: RFC 6066, 3.

    Raises:
        AttemptFailed: the URL is forbidden or not valid.
    """
    try:
        url = URL(text, encoded=text.isascii())
        port = url.port
    except ValueError:
        raise AttemptFailed(OutcomeKind.CLIENT_ERROR, "the URL cannot be read") from None
    if not url.raw_host or url.raw_user is not None or url.raw_password is not None or not port:
        raise AttemptFailed(
            OutcomeKind.CLIENT_ERROR, "the URL needs a host and a port, and must not carry a user"
        )
    reason = refuse_url(url.scheme, url.raw_host, rule)
    if reason is not None:
        raise AttemptFailed(OutcomeKind.BLOCKED, reason)
    if url.raw_host.endswith(".."):
        raise AttemptFailed(OutcomeKind.CLIENT_ERROR, "the URL's host has an empty label")
    return url.with_host(url.raw_host[:-1]) if url.raw_host.endswith(".") else url


def first_lines(url: URL) -> str:
    """Return the request line and Host."""
    return f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n"


def write_head(first: str, request: SignedRequest) -> bytes:
    """Return all bytes before the body; the caller's headers are sent unchanged and in their order.

    Raises:
        AttemptFailed: only the sender may set a header, or it would break out of its line.
    """
    lines = [first]
    for name, value in request.headers:
        if name not in _known:
            _check_name(name)
        lines.append(f"{name}: {value}\r\n")
    lines.append(f"Content-Length: {len(request.body)}\r\n\r\n")
    text = "".join(lines)
    breaks = len(request.headers) + 4
    if text.count("\n") != breaks or text.count("\r") != breaks or "\0" in text:
        raise AttemptFailed(OutcomeKind.CLIENT_ERROR, "a header contains a line break or NUL")
    return text.encode()


_known: set[str] = set()  #: names that were checked already


def _check_name(name: str) -> None:
    if name.lower() in _OWN_HEADERS:
        raise AttemptFailed(
            OutcomeKind.CLIENT_ERROR, f"the header {name} is set by Leveret itself; remove it"
        )
    if len(_known) >= _KNOWN_NAMES:
        _known.clear()
    _known.add(name)
