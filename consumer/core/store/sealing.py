"""Encrypt the secrets of a subscription for the store, and decrypt them.

Data flow: key text (setting or file) -> :func:`parse_keys` -> :class:`KeyRing` -> seal before a write, open
after a read. A sealed text is one format byte, a nonce of 12 bytes, and the ciphertext of AES-256-GCM. Only
its own tenant and subscription can open it.

Source: NIST SP 800-38D (a nonce of 96 bits, never reused with a key; random ones are safe for 2^32 texts).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from consumer.core.errors import ConfigError

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12

_FORMAT: Final = b"\x01"
_SEPARATOR: Final = re.compile(r"[\s,]+")
MAKE_ONE: Final = "create one with: openssl rand -base64 32"


class Locked(Exception):
    """Sealed secrets cannot be opened; the text explains why, for an operator."""


@dataclass(frozen=True, slots=True)
class StoreKey:
    """One key, and the id that sealed texts name."""

    raw: bytes = field(repr=False)
    id: str = field(init=False)  #: 8 hex digits, which reveal nothing about the key
    _cipher: AESGCM = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the id and set up the cipher once."""
        digest = hashlib.sha256(b"leveret store key\0" + self.raw).hexdigest()
        object.__setattr__(self, "id", digest[:8])
        object.__setattr__(self, "_cipher", AESGCM(self.raw))

    def encrypt(self, nonce: bytes, text: bytes, bound_to: bytes) -> bytes:
        """Return *text* encrypted."""
        return self._cipher.encrypt(nonce, text, bound_to)

    def decrypt(self, nonce: bytes, sealed: bytes, bound_to: bytes) -> bytes:
        """Return the decrypted text.

        Raises:
            InvalidTag: the text was encrypted with another key or for another owner, or is damaged.
        """
        return self._cipher.decrypt(nonce, sealed, bound_to)


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of secrets; only this owner can open the sealed text."""

    tenant: str
    subscription_id: str

    def bound_to(self) -> bytes:
        """Return the associated data: tenant, 0x00, subscription id."""
        return self.tenant.encode() + b"\0" + self.subscription_id.encode()


@dataclass(frozen=True, slots=True)
class Sealed:
    """Encrypted secrets, as stored."""

    key_id: str
    text: bytes


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The available keys: the first encrypts, all decrypt."""

    keys: Sequence[StoreKey] = ()
    fault: str = ""  #: why there are no keys

    def seal(self, secrets: Sequence[str], owner: Owner, nonce: bytes) -> Sealed:
        """Encrypt *secrets* with the first key.

        Args:
            secrets: Newest first.
            owner: The subscription that the secrets belong to.
            nonce: 12 fresh random bytes.

        Raises:
            ConfigError: the ring has no key.
        """
        if not self.keys:
            raise ConfigError(self.fault or f"store.key: is missing; {MAKE_ONE}")
        text = json.dumps(list(secrets)).encode()
        key = self.keys[0]
        return Sealed(key.id, _FORMAT + nonce + key.encrypt(nonce, text, owner.bound_to()))

    def open(self, sealed: Sealed, owner: Owner) -> tuple[str, ...]:
        """Decrypt the secrets.

        Raises:
            Locked: no available key fits, or the text is damaged or belongs to another subscription.
        """
        key = next((key for key in self.keys if key.id == sealed.key_id), None)
        if key is None:
            missing = f"its secrets are sealed with store key {sealed.key_id}, which is missing"
            raise Locked(self.fault or missing)
        body = sealed.text[1:]
        if sealed.text[:1] != _FORMAT:
            raise Locked("its sealed secrets are damaged, or from a newer release")
        try:
            text = key.decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], owner.bound_to())
        except (InvalidTag, ValueError):
            raise Locked("its sealed secrets are damaged, or were sealed for another subscription") from None
        return tuple(json.loads(text))


def parse_keys(text: str) -> tuple[StoreKey, ...]:
    """Read keys separated by white space or commas; lines that begin with ``#`` are ignored.

    Raises:
        ConfigError: *text* has no key, or a key is not the base64 of 32 bytes. The error never repeats a key.
    """
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    words = [word for word in _SEPARATOR.split("\n".join(lines)) if word]
    if not words:
        raise ConfigError(f"contains no key; {MAKE_ONE}")
    keys = []
    for number, word in enumerate(words, start=1):
        try:
            raw = base64.b64decode(word, validate=True)
        except ValueError:
            raw = b""
        if len(raw) != KEY_BYTES:
            which = f"key {number} of {len(words)}" if len(words) > 1 else "the key"
            raise ConfigError(f"{which} is not the base64 of {KEY_BYTES} bytes; {MAKE_ONE}")
        keys.append(StoreKey(raw))
    return tuple(keys)


def format_key(raw: bytes) -> str:
    """Write a key as text."""
    return base64.b64encode(raw).decode()
