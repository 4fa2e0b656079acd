"""Explain a received webhook: which signature matches, or which fault each one has.

Data flow: captured headers and body + keys -> examine -> Finding, for ``leveret verify``.
:func:`consumer.core.webhook.signing.verify` makes the same check, but its result gives an attacker
no details. This module explains the result to the owner of the secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from consumer.core.errors import BadSignature
from consumer.core.webhook.signing import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    TOLERANCE_S,
    HmacKey,
    VerifyingKey,
    fits,
)

_HEADERS: Final = (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER)
_ENTRY: Final = re.compile(r"(v1a?),([A-Za-z0-9+/]+={0,2})")
_VERSIONS: Final = {True: "v1", False: "v1a"}


class Match(NamedTuple):
    """One entry of the signature list and the key that matches it."""

    signature: int  #: 1-based place in the list
    version: str
    key: int  #: 1-based place among the keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of the examination."""

    event_id: str
    timestamp: int  #: Unix seconds
    age_s: float  #: negative if the timestamp is in the future
    matches: Sequence[Match] = ()
    fault: str | None = None  #: None if the webhook verifies


def examine(
    keys: Sequence[VerifyingKey],
    headers: Mapping[str, str],
    body: bytes,
    now: float,
    tolerance_s: float | None = TOLERANCE_S,
) -> Finding:
    """Check a captured webhook and explain the result.

    Args:
        keys: Any of them may have signed.
        headers: Headers of the request; names in any case.
        body: The bytes received.
        now: Unix seconds.
        tolerance_s: The largest accepted age in either direction; None accepts any age.

    Raises:
        BadSignature: a header is missing or unreadable, so that no comparison is possible.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    for name in _HEADERS:
        if not lower.get(name):
            raise BadSignature(
                f"the header {name} is missing; capture all headers whose name begins with webhook-"
            )
    text = lower[TIMESTAMP_HEADER]
    if not re.fullmatch("[0-9]{1,15}", text):
        raise BadSignature(f"{TIMESTAMP_HEADER} is {text[:40]!r}, not a whole number of Unix seconds")
    entries = lower[SIGNATURE_HEADER].split(" ")
    prefix = f"{lower[ID_HEADER]}.{text}.".encode()
    matches = _matches(keys, entries, prefix + body)
    age_s = now - int(text)
    fault = None
    if not matches:
        fault = _explain(keys, entries, prefix, body)
    elif tolerance_s is not None and abs(age_s) > tolerance_s:
        direction = "old" if age_s > 0 else "in the future"
        limit = f"receivers accept {tolerance_s:g} s"
        fault = f"the signature matches, but {TIMESTAMP_HEADER} is {abs(age_s):.0f} s {direction}: {limit}"
    return Finding(event_id=lower[ID_HEADER], timestamp=int(text), age_s=age_s, matches=matches, fault=fault)


def _matches(keys: Sequence[VerifyingKey], entries: Sequence[str], content: bytes) -> Sequence[Match]:
    return [
        Match(place, entry.partition(",")[0], number)
        for number, key in enumerate(keys, start=1)
        for place, entry in enumerate(entries, start=1)
        if fits(key, [entry], content)
    ]


def _explain(keys: Sequence[VerifyingKey], entries: Sequence[str], prefix: bytes, body: bytes) -> str:
    """Find the change that broke the signature, by undoing the likely ones."""
    for place, entry in enumerate(entries, start=1):
        if not _ENTRY.fullmatch(entry):
            rule = "write v1,BASE64, entries separated by one space"
            return f"entry {place} of {SIGNATURE_HEADER} is not a signature; {rule}"
    versions = {entry.partition(",")[0] for entry in entries}
    wanted = {_VERSIONS[isinstance(key, HmacKey)] for key in keys}
    if not versions & wanted:
        return (
            f"signed with {' and '.join(sorted(versions))}, but the given secret is for "
            f"{' and '.join(sorted(wanted))}; give the secret that belongs to this endpoint"
        )
    for repair, cause in _REPAIRS:
        other = repair(body)
        if other is not None and other != body and _matches(keys, entries, prefix + other):
            return cause
    return (
        f"none of {len(entries)} signature(s) matches: another secret signed, or id, timestamp or body were "
        "changed; compare the secret with the subscription's, and capture the body as raw bytes"
    )


def _minified(body: bytes) -> bytes | None:
    try:
        return json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False).encode()
    except (ValueError, RecursionError, UnicodeEncodeError):
        return None


def _without_newline(body: bytes) -> bytes | None:
    return body.removesuffix(b"\n").removesuffix(b"\r")


_REPAIRS: Final[Sequence[tuple[Callable[[bytes], bytes | None], str]]] = (
    (
        _without_newline,
        "the body ends with a line break that was not signed; save the raw bytes, without it",
    ),
    (
        lambda body: body.replace(b"\r\n", b"\n"),
        "line breaks of the body were turned into CRLF; save the raw bytes",
    ),
    (
        _minified,
        "the body was parsed and rewritten, so its bytes differ; verify the raw bytes before parsing",
    ),
)
