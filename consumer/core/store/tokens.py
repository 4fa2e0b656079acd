"""Tokens of the HTTP API: their text, the hash that is stored, and the rights that they give.

Data flow: random bytes -> :func:`token_text`, shown once -> :func:`secret_hash` -> the store; a request's
``Authorization`` -> :func:`parse_token` -> :meth:`StoredToken.accepts`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b32encode
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

SECRET_BYTES: Final = 32  #: 256 random bits, which nobody can guess
ID_BYTES: Final = 6
NAME_MAX: Final = 128  #: characters
_TOKEN: Final = re.compile(r"lvt_([0-9a-f]{12})_([a-z2-7]{52})")


class Scope(StrEnum):
    """The rights of a token; each scope includes those before it."""

    READ = "read"  #: look at everything that is no secret
    OPERATE = "operate"  #: change subscriptions, pause, resend
    ADMIN = "admin"  #: manage tokens, read the audit log of every tenant

    def includes(self, wanted: Scope) -> bool:
        """Return whether this scope gives the rights of *wanted*."""
        order = list(Scope)
        return order.index(self) >= order.index(wanted)


class Presented(NamedTuple):
    """The two parts of a token that a request contains."""

    id: str
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret, as lists show it."""

    id: str
    name: str
    scope: Scope
    tenant: str | None = None  #: the only tenant that it sees; None: every tenant
    created: float = 0.0  #: Unix seconds, as all times here
    expires: float | None = None  #: None: never
    last_used: float | None = None  #: to the minute; None: not used yet
    revoked: float | None = None  #: None: not revoked

    def is_valid(self, now: float) -> bool:
        """Return whether the token is neither revoked nor expired at *now*."""
        return self.revoked is None and (self.expires is None or now < self.expires)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """A token with the hash of its secret."""

    token: Token
    hash: str = field(repr=False)

    def accepts(self, secret: str, now: float) -> bool:
        """Return whether *secret* is the token's and the token is valid at *now*.

        The time of the comparison does not depend on the number of equal characters.
        """
        return hmac.compare_digest(secret_hash(secret), self.hash) and self.token.is_valid(now)


def token_id(random: bytes) -> str:
    """Return an id from :data:`ID_BYTES` random bytes."""
    return random.hex()


def token_text(token_id: str, random: bytes) -> str:
    """Return the token as its owner gets it, from :data:`SECRET_BYTES` random bytes."""
    return f"lvt_{token_id}_{b32encode(random).decode().rstrip('=').lower()}"


def parse_token(text: str) -> Presented | None:
    """Return the parts of a token; None if *text* is not a token."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else Presented(found[1], found[2])


def secret_hash(secret: str) -> str:
    """Return the hash of a token's secret, as the store keeps it.

    SHA-256 without salt and without a slow function: nobody can try 2**256 secrets, however fast the hash,
    and each request computes it.
    """
    return hashlib.sha256(secret.encode()).hexdigest()
