"""The requests that the receiver was sent, and the targets that their paths name."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson


def flaky_fails(webhook_id: str, attempt: int, share: float) -> bool:
    """Return whether ``/flaky`` fails an attempt: known beforehand, so numbers of attempts can be computed.

    Args:
        webhook_id: The request's ``webhook-id``.
        attempt: How often this target has now seen that id; 1-based.
        share: Part of all attempts that fail, 0 to 1.
    """
    digest = hashlib.sha256(f"{webhook_id}:{attempt}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


@dataclass(slots=True)
class Received:
    """One request, as it is logged."""

    target: str  #: path and query
    start: float  #: Unix seconds when the headers had been read
    headers: dict[str, str]  #: names in lower case; of a name sent twice the values joined by ``, ``
    method: str = "POST"
    body: bytes = b""
    attempt: int = 0  #: how often this target has now seen this webhook-id; 1-based
    status: int = 0  #: 0: never answered
    end: float = 0.0  #: Unix seconds when the answer was written or the connection ended
    peer: int = 0  #: which connection, counted from 1

    @property
    def webhook_id(self) -> str:
        """The ``webhook-id``, or an empty text."""
        return self.headers.get("webhook-id", "")

    def line(self, *, bodies: bool) -> bytes:
        """Return the log line, with the whole body in base64 if *bodies*."""
        headers = self.headers
        entry: dict[str, Any] = {
            "target": self.target,
            "start": self.start,
            "end": self.end,
            "id": self.webhook_id,
            "timestamp": headers.get("webhook-timestamp", ""),
            "signature": headers.get("webhook-signature", ""),
            "attempt": self.attempt,
            "status": self.status,
            "sha256": hashlib.sha256(self.body).hexdigest(),
            "size": len(self.body),
            "peer": self.peer,
        }
        if bodies:
            entry["body"] = base64.b64encode(self.body).decode()
        return orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)


@dataclass(frozen=True, slots=True)
class Target:
    """One endpoint: the parsed path and query, kept so that they are parsed once."""

    behaviour: str
    segments: tuple[str, ...]
    query: dict[str, str]

    def number(self, name: str, default: float) -> float:
        """Return a number of the query."""
        return float(self.query.get(name, default))

    def phase(self, now: float) -> int:
        """Return how many of the moments ``at`` have passed at *now*, in Unix seconds."""
        return sum(float(at) <= now for at in self.query.get("at", "").split(",") if at)


def parse_target(text: str) -> Target:
    """Parse a request target such as ``/slow/a?s=1``."""
    parts = urlsplit(text)
    segments = tuple(segment for segment in parts.path.split("/") if segment)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return Target(segments[0] if segments else "ok", segments[1:], query)
