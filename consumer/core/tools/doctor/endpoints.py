"""Judge the ways to the endpoints: name, address rule, connection, TLS.

Data flow: one :class:`Way` for each endpoint that was tried -> findings. Faults that this side can mend are
faults; those that only the endpoint's owner can mend are warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from consumer.core.model import OutcomeKind
from consumer.core.text.rfc3339 import from_ms
from consumer.core.tools.doctor.finding import Check, Finding, fault, names, note, warning, well
from consumer.core.tools.doctor.surroundings import SOON_S

_UNTRUSTED: Final = re.compile(r"self[- ]signed|unable to get (local )?issuer|unable to verify the first")
_EXPIRED: Final = re.compile(r"certificate has expired|not yet valid")
_BEFORE_PROXY: Final = (OutcomeKind.BLOCKED, OutcomeKind.DNS, OutcomeKind.LOCAL)
"""Failures of a way that end before the proxy is asked."""
_TRUST: Final = "name its authority in [sending] ca_file or in tls.ca of the subscription"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The result of one connection that sent no request."""

    place: str  #: ``HOST:PORT``
    of: Sequence[str]  #: subscriptions with this endpoint, as ``tenant/name``
    kind: OutcomeKind | None = None  #: kind of the failure; None if the connection was made
    detail: str = ""
    ends: float | None = None  #: Unix seconds: end of the server's certificate

    @property
    def met_ended_certificate(self) -> bool:
        """Whether the handshake failed as a certificate, or one of its authorities, is not valid any more."""
        return self.kind is OutcomeKind.TLS and _EXPIRED.search(self.detail) is not None

    @property
    def subject(self) -> str:
        """Place and subscriptions."""
        return f"{self.place} ({names(self.of)})"


def way_findings(ways: Sequence[Way], now: float) -> Iterator[Finding]:
    """Yield a finding for each way that failed or will soon, and one for each area that is well.

    Args:
        ways: All that were tried.
        now: Unix seconds.
    """
    for way in ways:
        if way.kind is not None:
            yield _failed(way, way.kind)
        elif way.ends is not None and way.ends - now < SOON_S:
            text = f"its certificate ends at {from_ms(int(way.ends * 1000))}"
            yield warning(Check.ENDPOINTS, way.subject, text, "ask its owner to renew the certificate")
    reached = [way for way in ways if way.kind is None]
    if reached:
        text = "accept a connection" + (" with a valid certificate" if any(w.ends for w in reached) else "")
        yield well(Check.ENDPOINTS, f"{len(reached)} of {len(ways)} endpoints", text)


def _failed(way: Way, kind: OutcomeKind) -> Finding:
    match kind:
        case OutcomeKind.BLOCKED:
            remedy = "allow the network in [egress] allow, or correct the URL"
            return fault(Check.EGRESS, way.subject, way.detail, remedy)
        case OutcomeKind.PROXY:
            remedy = "check [egress] proxy, and that the proxy is up"
            return fault(Check.EGRESS, way.subject, way.detail, remedy)
        case OutcomeKind.LOCAL:
            remedy = "check the name servers, the open-file limit and the routes of this machine"
            return fault(Check.DNS, way.subject, way.detail, remedy)
        case OutcomeKind.DNS:
            return warning(Check.DNS, way.subject, way.detail, "correct the host of the URL, or its records")
        case OutcomeKind.TLS:
            return _untrusted(way)
        case _:
            remedy = "check that the endpoint is up, and that no firewall blocks the connection"
            return warning(Check.ENDPOINTS, way.subject, way.detail, remedy)


def _untrusted(way: Way) -> Finding:
    """Return the finding for a failed handshake: a missing authority is ours to mend."""
    if _UNTRUSTED.search(way.detail):
        return fault(Check.TLS, way.subject, f"no trusted authority: {way.detail}", _TRUST)
    if way.met_ended_certificate:
        return warning(Check.TLS, way.subject, way.detail, "ask its owner to renew the certificate")
    return warning(Check.TLS, way.subject, way.detail, "ask its owner to correct certificate and TLS")


def name_server_findings(
    away: Sequence[tuple[str, str]], answering: int, *, needed: bool
) -> Iterator[Finding]:
    """Yield findings about the name servers.

    Args:
        away: Each server that did not answer, and why.
        answering: Number of servers that answered.
        needed: Whether an endpoint's name could not be looked up.
    """
    make = fault if needed and not answering else warning
    for server, why in away:
        remedy = "correct [sending] dns_servers, or /etc/resolv.conf of this machine"
        yield make(Check.DNS, f"name server {server}", why, remedy)
    if answering and not away:
        yield well(Check.DNS, "name servers", "answer")


def proxy_findings(away: str | None, ways: Sequence[Way]) -> Iterator[Finding]:
    """Yield a fault if the egress proxy cannot be reached, or if nothing answers through it.

    Args:
        away: The reason for which it cannot be reached; None if it accepts a connection.
        ways: All ways that were tried through it.
    """
    remedy = "check [egress] proxy, and that the proxy is up"
    if away is not None:
        yield fault(Check.EGRESS, "[egress] proxy", away, remedy)
        return
    asked = [way for way in ways if way.kind not in _BEFORE_PROXY]
    if asked and all(way.kind is OutcomeKind.TIMEOUT_CONNECT for way in asked):
        text = f"none of {len(asked)} endpoints is reached through it: it {asked[0].detail}"
        yield fault(Check.EGRESS, "[egress] proxy", text, remedy)


def untried_findings(tried: int, chosen: int, total: int) -> Iterator[Finding]:
    """Yield a note if some endpoints were left out.

    Args:
        tried: Endpoints that were tried in time.
        chosen: Endpoints that were to be tried.
        total: All endpoints.
    """
    if tried < chosen:
        text = f"{chosen - tried} of {total} endpoints were not reached in time"
        yield note(Check.ENDPOINTS, "further endpoints", text, "mend the faults above, and try again")
    if chosen < total:
        text = f"{total - chosen} of {total} endpoints were not tried"
        yield note(Check.ENDPOINTS, "further endpoints", text, f"give --endpoints {total}")
