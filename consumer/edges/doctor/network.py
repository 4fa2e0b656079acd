"""Look at the network: name servers, egress rules, authorities, and the ways to the endpoints.

Data flow: settings + stored entries -> findings and clocks.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final

from cryptography import x509

from consumer.core.changes.merge import StoredEntry
from consumer.core.errors import LeveretError
from consumer.core.model import OutcomeKind
from consumer.core.subscription.access_entry import certificates
from consumer.core.tools.doctor.endpoints import (
    Way,
    name_server_findings,
    untried_findings,
    way_findings,
)
from consumer.core.tools.doctor.finding import Check, Finding, fault, of_error, warning, well
from consumer.core.tools.doctor.surroundings import ClockReading, Validity, certificate_findings
from consumer.edges.doctor.endpoints import Endpoint, WayFinder, endpoints_of
from consumer.edges.http.connect.resolver import silence_of
from consumer.edges.operate.sender import make_sender
from consumer.settings import Settings

SERVER_S: Final = 3.0  #: longest wait for the answer of a name server

_OF_SYSTEM = "of this machine"
_EVERYTHING = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))


@dataclass(slots=True)
class NetworkLook:
    """The network, as far as it answered."""

    findings: list[Finding] = field(default_factory=list)
    readings: list[ClockReading] = field(default_factory=list)


async def look_at_network(
    settings: Settings, entries: Sequence[StoredEntry], most: int, *, wants_time: bool
) -> NetworkLook:
    """Try the ways to at most *most* endpoints of *entries*.

    Args:
        settings: Egress rules, name servers, authorities.
        entries: Stored subscriptions.
        most: Endpoints that are tried.
        wants_time: Whether no other clock answered, so that one endpoint is asked.
    """
    look, every = NetworkLook(), endpoints_of(entries)
    look.findings += await asyncio.to_thread(_certificate_findings, settings, entries)
    look.findings += _rule_findings(settings)
    ways, silences = await asyncio.gather(
        _ways(settings, every[:most], look, wants_time=wants_time), _silences(settings)
    )
    look.findings += way_findings(ways, time.time())
    look.findings += untried_findings(min(most, len(every)), len(every))
    look.findings += _name_server_findings(settings, every, ways, silences)
    look.findings += await asyncio.to_thread(_authority_findings, settings, every)
    if not any(each.check is Check.EGRESS for each in look.findings):
        look.findings.append(well(Check.EGRESS, "egress rules", "allow every endpoint that was tried"))
    if not any(each.check is Check.TLS for each in look.findings):
        look.findings.append(well(Check.TLS, "authorities and certificates", "are valid"))
    return look


async def _ways(
    settings: Settings, endpoints: Sequence[Endpoint], look: NetworkLook, *, wants_time: bool
) -> Sequence[Way]:
    try:
        sender = make_sender(settings)
    except LeveretError as error:  # such as an unreadable ca_file
        look.findings.append(of_error(Check.TLS, "the sender", str(error)))
        return ()
    finder = WayFinder(sender, settings.egress_rule(), wants_time)
    try:
        return await finder.ways(endpoints)
    finally:
        look.readings += finder.readings
        await sender.close()


async def _silences(settings: Settings) -> Mapping[str, str | None]:
    """Return for each name server why it does not answer, or None if it does."""
    servers = settings.sending.dns_servers or (_OF_SYSTEM,)
    timeout_s = min(SERVER_S, settings.sending.resolve_timeout_s())
    asked = [silence_of(() if server == _OF_SYSTEM else (server,), timeout_s) for server in servers]
    return dict(zip(servers, await asyncio.gather(*asked), strict=True))


def _name_server_findings(
    settings: Settings,
    endpoints: Sequence[Endpoint],
    ways: Sequence[Way],
    silences: Mapping[str, str | None],
) -> Sequence[Finding]:
    away = [(server, why) for server, why in silences.items() if why is not None]
    is_named = any(each.has_name for each in endpoints)
    failed = any(way.kind in (OutcomeKind.DNS, OutcomeKind.LOCAL) for way in ways)
    needed = is_named and (failed or not ways) and settings.egress.proxy_names == "checked"
    return list(name_server_findings(away, len(silences) - len(away), needed=needed))


def _rule_findings(settings: Settings) -> Sequence[Finding]:
    """Return egress rules that switch the address guard off, or have no effect."""
    found = []
    for each in settings.egress.allow:
        if each.network in _EVERYTHING:
            text = "allows every address, this machine's neighbours included"
            remedy = "name the networks of your endpoints only"
            found.append(warning(Check.EGRESS, f"[egress] allow {each}", text, remedy))
        denied = [net for net in settings.egress.deny if _covers(net, each.network)]
        if denied:
            text = f"has no effect, as deny contains {denied[0]}"
            found.append(warning(Check.EGRESS, f"[egress] allow {each}", text, "remove one of the two"))
    return found


def _covers(outer: IPv4Network | IPv6Network, inner: IPv4Network | IPv6Network) -> bool:
    if isinstance(outer, IPv4Network) and isinstance(inner, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and isinstance(inner, IPv6Network) and inner.subnet_of(outer)


def _authority_findings(settings: Settings, endpoints: Sequence[Endpoint]) -> Sequence[Finding]:
    """Return a finding if this machine trusts no authority."""
    paths = ssl.get_default_verify_paths()
    has_file = paths.cafile is not None and os.path.getsize(paths.cafile) > 0
    has_folder = paths.capath is not None and bool(os.listdir(paths.capath))
    if has_file or has_folder:
        return ()
    needed = any(each.url.scheme == "https" and each.tls is None for each in endpoints)
    make = fault if needed and settings.sending.ca_file is None else warning
    text = "has no trusted authorities: no certificate can be verified"
    return (make(Check.TLS, "this machine", text, "install the package ca-certificates"),)


def _certificate_findings(settings: Settings, entries: Sequence[StoredEntry]) -> Sequence[Finding]:
    """Return findings about our own certificate files, and those in subscriptions."""
    files = {
        "[sending] ca_file": settings.sending.ca_file,
        "[amqp] ca_file": settings.amqp.ca_file,
        "[amqp] cert_file": settings.amqp.cert_file,
        "[api] tls_certificate": settings.api.tls_certificate,
    }
    now, found = time.time(), list[Finding]()
    for place, path in files.items():
        if path is not None:
            found += _of_file(place, Path(path), now)
    for entry in entries:
        if not entry.enabled or entry.locked is not None:
            continue
        for name, pem in (("tls.ca", entry.tls.ca), ("tls.certificate", entry.tls.certificate)):
            if pem is not None:
                place = f"{entry.tenant}/{entry.label} {name}"
                remedy = f"give the subscription a new {name}"
                found += certificate_findings(_validities(place, certificates(pem)), now, remedy)
    return found


def _of_file(place: str, path: Path, now: float) -> Sequence[Finding]:
    try:
        found = certificates(path.read_text(encoding="utf-8"))
    except OSError as error:
        text = f"cannot be read: {error.strerror}"
        return (fault(Check.TLS, f"{place} {path}", text, "correct the path, or the rights of the file"),)
    except ValueError as error:
        return (fault(Check.TLS, f"{place} {path}", str(error), "name a PEM file with certificates"),)
    return list(certificate_findings(_validities(f"{place} {path}", found), now, "renew it"))


def _validities(place: str, found: Sequence[x509.Certificate]) -> Sequence[Validity]:
    return [
        Validity(
            place=place,
            subject=_subject(each),
            begins=each.not_valid_before_utc.timestamp(),
            ends=each.not_valid_after_utc.timestamp(),
        )
        for each in found
    ]


def _subject(certificate: x509.Certificate) -> str:
    try:
        return certificate.subject.rfc4514_string() or "a certificate without a subject"
    except ValueError:
        return "an unreadable subject"
