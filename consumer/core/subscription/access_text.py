"""Describe the ``auth`` and ``tls`` tables of a subscription without any secret.

Data flow: AuthFields, TlsFields -> plain values for ``subscriptions show`` and for the diff of an apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from consumer.core.subscription.access_entry import AuthFields, OAuth2Fields, TlsFields, certificates
from consumer.core.text.printable import MASK
from consumer.core.text.rfc3339 import from_datetime
from consumer.core.text.urls import show_url


def describe_auth(auth: AuthFields | None) -> Mapping[str, object] | None:
    """Return kind and account of the header Authorization; None if the subscription sets no such header."""
    if auth is None:
        return None
    if auth.basic is not None:
        return {"kind": "basic", "username": auth.basic.username, "password": MASK}
    return {"kind": "bearer", "token": MASK} if auth.oauth2 is None else _oauth2(auth.oauth2)


def describe_tls(tls: TlsFields) -> Mapping[str, object] | None:
    """Return the trusted authorities and the client certificate; None if only the rules for all apply."""
    if tls.ca is None and tls.certificate is None:
        return None
    return {
        "ca": None if tls.ca is None else describe_certificates(tls.ca),
        "certificate": None if tls.certificate is None else describe_certificates(tls.certificate),
        "key": None if tls.key is None else MASK,
    }


def describe_certificates(pem: str) -> Sequence[Mapping[str, object]]:
    """Return subject, SHA-256 fingerprint (hex) and end of validity (RFC 3339) of each certificate."""
    return [
        {
            "subject": _subject(one),
            "sha256": one.fingerprint(hashes.SHA256()).hex(),
            "not_after": from_datetime(one.not_valid_after_utc),
        }
        for one in certificates(pem)
    ]


def certificates_text(pem: str) -> str:
    """Return the certificates of a PEM text as one line."""
    each = describe_certificates(pem)
    return ", ".join(f"{one['subject']} until {one['not_after']} (SHA-256 {one['sha256']})" for one in each)


def _subject(certificate: x509.Certificate) -> str:
    try:
        return certificate.subject.rfc4514_string()
    except ValueError:
        return "an unreadable subject"


def _oauth2(client: OAuth2Fields) -> Mapping[str, object]:
    shown = {
        "kind": "oauth2",
        "token_url": show_url(client.token_url),
        "client_id": client.client_id,
        "client_secret": MASK,
        "client_auth": client.client_auth,
        "scope": client.scope,
        "audience": client.audience,
    }
    return {name: value for name, value in shown.items() if value is not None}
