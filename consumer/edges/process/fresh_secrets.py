"""Generate the secrets that sign webhooks, from the random numbers of the operating system."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from consumer.core.webhook.signing import Ed25519Key, SigningKey, format_private, format_secret

SECRET_BYTES = 32
"""Length of a generated secret. Source: SW-09 (24 to 64 bytes)."""


def fresh_secret() -> str:
    """Return a new symmetric secret, ``whsec_...``."""
    return format_secret(secrets.token_bytes(SECRET_BYTES))


def fresh_like(keys: Sequence[SigningKey]) -> str:
    """Return a new secret of the same kind as the newest of *keys*, so that receivers can go on verifying."""
    if keys and isinstance(keys[0], Ed25519Key):
        return format_private(Ed25519Key(secrets.token_bytes(32)))
    return fresh_secret()
