"""Requirements of an endpoint beside the signature: its own TLS trust, a client certificate, a token.

Data flow: subscription -> Access -> SignedRequest -> edges.http (TLS context, OAuth2 token).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsPolicy:
    """How connections to one endpoint are secured, beyond the rules for all endpoints."""

    ca: str | None = None  #: PEM certificates that are trusted instead of the system's
    certificate: str | None = None  #: PEM chain of our client certificate, the leaf first
    key: str | None = field(default=None, repr=False)  #: PEM private key of that certificate
    #: True: the system's authorities are trusted beside *ca*. Without *ca* they are always trusted.
    system: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2Client:
    """The client, the token endpoint and the scope of a token request.

    Source: RFC 6749, 4.4 (client credentials).
    """

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    audience: str | None = None
    #: False: HTTP Basic, which every token endpoint must accept (RFC 6749, 2.3.1)
    secret_in_body: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """TLS and token of one endpoint. A subscription that needs neither has no Access."""

    tls: TlsPolicy | None = None
    oauth2: OAuth2Client | None = None
