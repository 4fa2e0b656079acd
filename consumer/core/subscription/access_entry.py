"""The ``tls`` and ``auth`` tables of a subscription: their fields, the checks, and the resulting policies.

Data flow: YAML or JSON values -> TlsFields, AuthFields (checked) -> Access and an Authorization header.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from consumer.core.access import OAuth2Client, TlsPolicy
from consumer.core.schema import Section
from consumer.core.text.printable import MASK
from consumer.core.text.urls import parse_url

ACCOUNT_FIELDS: Final[Mapping[str, Sequence[str]]] = {
    "auth.basic.password": ("username",),
    "auth.bearer": (),
    "auth.oauth2.client_secret": ("token_url", "client_id"),
    "tls.key": ("certificate",),
}
"""For each secret, the fields that identify its account. A stored secret is never used with other values."""
PEM_MAX: Final = 65_536
"""Longest PEM text in characters."""
TOKEN_MAX: Final = 4_096

_TOKEN68: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""Source: RFC 6750, 2.1 (b64token)."""
_VISIBLE: Final = re.compile(r"[\x20-\x7e]+")


def _normal_url(value: object) -> object:
    return parse_url(value).text if isinstance(value, str) else value


def certificates(pem: str) -> Sequence[x509.Certificate]:
    """Return the certificates of a PEM text.

    Raises:
        ValueError: *pem* contains no certificate.
    """
    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        raise ValueError("contains no PEM certificate (-----BEGIN CERTIFICATE-----)") from None


class TlsFields(Section):
    """TLS of one endpoint, beyond the rules for all endpoints. Verification cannot be switched off."""

    ca: Annotated[str | None, Field(max_length=PEM_MAX)] = None
    """PEM certificates of the authorities to trust instead of the system's."""
    certificate: Annotated[str | None, Field(max_length=PEM_MAX)] = None
    """PEM client certificate with its chain, for endpoints that ask for one."""
    key: Annotated[SecretStr | None, Field(max_length=PEM_MAX)] = None
    """PEM private key of the client certificate, without a passphrase; `***` keeps the stored key."""

    @field_validator("ca", "certificate")
    @classmethod
    def _check_certificates(cls, value: str | None) -> str | None:
        if value is not None:
            certificates(value)
        return value

    @model_validator(mode="after")
    def _check_pair(self) -> TlsFields:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key must be given together")
        if self.certificate is None or self.key is None or self.key.get_secret_value() == MASK:
            return self
        try:
            key = serialization.load_pem_private_key(self.key.get_secret_value().encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise ValueError("key is not a PEM private key without a passphrase") from None
        form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        try:
            own = certificates(self.certificate)[0].public_key()
        except UnsupportedAlgorithm:
            raise ValueError("certificate has a key of an unsupported type; use RSA, EC or Ed25519") from None
        if own.public_bytes(*form) != key.public_key().public_bytes(*form):
            raise ValueError("key does not belong to the first certificate; give the key of that certificate")
        return self

    def build(self) -> TlsPolicy | None:
        """Return the policy, or None if no field is set."""
        if self.ca is None and self.certificate is None:
            return None
        key = None if self.key is None else self.key.get_secret_value()
        return TlsPolicy(ca=self.ca, certificate=self.certificate, key=key)


class BasicFields(Section):
    """HTTP Basic."""

    username: Annotated[str, Field(min_length=1, max_length=256)]
    """User name, without a colon."""
    password: Annotated[SecretStr, Field(max_length=1_024)]
    """Password; `***` keeps the stored password."""

    @model_validator(mode="after")
    def _check_text(self) -> BasicFields:
        text = self.username + self.password.get_secret_value()
        if ":" in self.username or not text.isprintable():
            raise ValueError("username must have no colon, and neither may contain control characters")
        return self


class OAuth2Fields(Section):
    """OAuth2 client credentials: a token is fetched, reused until it expires, and replaced after a 401."""

    token_url: Annotated[str, BeforeValidator(_normal_url)]
    """Token endpoint. The address guard, the egress proxy and `tls` apply to it too; the authorities of `tls`
    are trusted beside the system's."""
    client_id: Annotated[str, Field(min_length=1, max_length=512)]
    """Client id."""
    client_secret: Annotated[SecretStr, Field(min_length=1, max_length=TOKEN_MAX)]
    """Client secret; `***` keeps the stored secret."""
    scope: Annotated[str | None, Field(min_length=1, max_length=1_024)] = None
    """Scopes, separated by blanks."""
    audience: Annotated[str | None, Field(min_length=1, max_length=1_024)] = None
    """Audience, for token endpoints that ask for one."""
    client_auth: Literal["basic", "post"] = "basic"
    """How the client authenticates: HTTP Basic, or id and secret in the form."""

    @model_validator(mode="after")
    def _check_text(self) -> OAuth2Fields:
        secret = self.client_secret.get_secret_value()
        for text in (self.client_id, secret, self.scope, self.audience):
            if text is not None and not _VISIBLE.fullmatch(text):
                raise ValueError("client_id, client_secret, scope and audience must be visible ASCII")
        return self

    def build(self) -> OAuth2Client:
        """Return the client."""
        return OAuth2Client(
            token_url=self.token_url,
            client_id=self.client_id,
            client_secret=self.client_secret.get_secret_value(),
            scope=self.scope,
            audience=self.audience,
            secret_in_body=self.client_auth == "post",
        )


class AuthFields(Section):
    """The content of the header Authorization; exactly one of the three."""

    basic: BasicFields | None = None
    """HTTP Basic."""
    bearer: Annotated[SecretStr | None, Field(max_length=TOKEN_MAX)] = None
    """A fixed Bearer token; `***` keeps the stored token."""
    oauth2: OAuth2Fields | None = None
    """Bearer tokens from an OAuth2 token endpoint."""

    @field_validator("bearer")
    @classmethod
    def _check_bearer(cls, value: SecretStr | None) -> SecretStr | None:
        text = "" if value is None else value.get_secret_value()
        if value is not None and text != MASK and not _TOKEN68.fullmatch(text):
            raise ValueError("must be letters, digits and -._~+/, without the word Bearer")
        return value

    @model_validator(mode="after")
    def _check_one(self) -> AuthFields:
        if sum(method is not None for method in (self.basic, self.bearer, self.oauth2)) != 1:
            raise ValueError("give exactly one of basic, bearer and oauth2")
        return self

    def headers(self) -> Sequence[tuple[str, str]]:
        """Return the header if it is the same for every request, else nothing.

        Source: RFC 7617, 2 (Basic, here in UTF-8); RFC 6750, 2.1 (Bearer).
        """
        if self.basic is not None:
            pair = f"{self.basic.username}:{self.basic.password.get_secret_value()}"
            return (("authorization", f"Basic {b64encode(pair.encode()).decode()}"),)
        if self.bearer is not None:
            return (("authorization", f"Bearer {self.bearer.get_secret_value()}"),)
        return ()
