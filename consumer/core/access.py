"""What an endpoint wants of a client beside the signature: its own TLS trust, a certificate, a token.

Data flow: subscription -> Access -> SignedRequest -> edges.http (TLS context, OAuth2 token).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsPolicy:
    """How connections to one endpoint are secured, beyond what holds for all."""

    ca: str | None = None  #: PEM certificates that are trusted instead of the system's
    certificate: str | None = None  #: PEM chain that we show, our own certificate first
    key: str | None = field(default=None, repr=False)  #: PEM private key of that certificate
    system: bool = (
        False  #: True: the system's authorities are trusted beside *ca*; without one they always are
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2Client:
    """Who asks for tokens, where and for what. Source: RFC 6749, 4.4 (client credentials)."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    audience: str | None = None
    secret_in_body: bool = False  #: False: HTTP Basic, which every token endpoint must take (RFC 6749, 2.3.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Both of them; a subscription that needs neither has no Access."""

    tls: TlsPolicy | None = None
    oauth2: OAuth2Client | None = None
