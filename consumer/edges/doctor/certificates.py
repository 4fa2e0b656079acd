"""Look at certificates: our own files, those in subscriptions, and the authorities of this machine."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from consumer.core.changes.merge import StoredEntry
from consumer.core.subscription.access_entry import certificates
from consumer.core.tools.doctor.endpoints import Way
from consumer.core.tools.doctor.finding import Check, Finding, fault, warning
from consumer.core.tools.doctor.surroundings import Validity, certificate_findings
from consumer.edges.process.certificates import certificates_of
from consumer.settings import Settings

_INSTALL: Final = "install the package ca-certificates, or correct SSL_CERT_FILE"


def system_authority_findings(*, needed: bool) -> Sequence[Finding]:
    """Return a finding if this machine trusts no authority, or only ones that have ended.

    Args:
        needed: Whether an endpoint is verified by these authorities alone.
    """
    paths = ssl.get_default_verify_paths()
    make = fault if needed else warning
    if paths.cafile is not None and os.path.getsize(paths.cafile):
        ended = _all_ended(paths.cafile)
        return () if ended is None else (make(Check.TLS, paths.cafile, ended, _INSTALL),)
    if paths.capath is not None and os.listdir(paths.capath):
        return ()
    text = "has no trusted authorities: no certificate can be verified"
    return (make(Check.TLS, "this machine", text, _INSTALL),)


def _all_ended(bundle: str) -> str | None:
    """Return a text if *bundle* has no authority that is valid now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=bundle)
    except OSError as error:  # ssl.SSLError is one
        return f"cannot be read as PEM: {error.strerror or error}"
    now, found = time.time(), context.get_ca_certs()
    if any(_begins_and_ends(each)[0] <= now < _begins_and_ends(each)[1] for each in found):
        return None
    return f"has {len(found)} authorities, and none of them is valid now"


def _begins_and_ends(authority: Mapping[str, Any]) -> tuple[float, float]:
    """Return the validity of an authority that OpenSSL has read, in Unix seconds."""
    begins, ends = (ssl.cert_time_to_seconds(authority[name]) for name in ("notBefore", "notAfter"))
    return begins, ends


def certificate_findings_of(
    settings: Settings, entries: Sequence[StoredEntry], ways: Sequence[Way]
) -> Sequence[Finding]:
    """Return findings about our own certificate files, and the certificates in subscriptions.

    Args:
        settings: Names of the files.
        entries: Stored subscriptions.
        ways: Ways to their endpoints. If one ended at a certificate that is not valid any more, an authority
            that has ended may be the reason, so it is a fault even beside others that are valid.
    """
    now, found = time.time(), list[Finding]()
    is_needed = any(way.met_ended_certificate for way in ways)
    files = {
        "[sending] ca_file": (settings.sending.ca_file, is_needed),
        "[amqp] ca_file": (settings.amqp.ca_file, False),
        "[amqp] cert_file": (settings.amqp.cert_file, False),
        "[api] tls_certificate": (settings.api.tls_certificate, False),
    }
    for place, (path, needed) in files.items():
        if path is not None:
            found += _of_file(place, Path(path), now, needed=needed)
    for place, name, pem in _of_subscriptions(entries):
        validities = _validities(place, certificates(pem))
        found += certificate_findings(
            validities, now, f"give the subscription a new {name}", needed=is_needed
        )
    return found


def _of_subscriptions(entries: Sequence[StoredEntry]) -> Iterator[tuple[str, str, str]]:
    """Yield place, name and text of each certificate in a subscription that is in use."""
    for entry in entries:
        if entry.enabled and entry.locked is None:
            for name, pem in (("tls.ca", entry.tls.ca), ("tls.certificate", entry.tls.certificate)):
                if pem is not None:
                    yield f"{entry.tenant}/{entry.label} {name}", name, pem


def _of_file(place: str, path: Path, now: float, *, needed: bool) -> Sequence[Finding]:
    try:
        found = certificates_of(path)
    except OSError as error:
        text = f"cannot be read: {error.strerror}"
        return (fault(Check.TLS, f"{place} {path}", text, "correct the path, or the rights of the file"),)
    except ValueError as error:
        return (fault(Check.TLS, f"{place} {path}", str(error), "name a PEM file with certificates"),)
    return list(certificate_findings(_validities(f"{place} {path}", found), now, "renew it", needed=needed))


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
