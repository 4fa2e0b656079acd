"""Encrypt the secrets of a subscription for the store, and decrypt them.

Data flow: key text (setting or file) -> :func:`parse_keys` -> :class:`KeyRing` -> seal at a write, open at a
read. A sealed text is one format byte, a nonce of 12 bytes, and what AES-256-GCM makes of the secrets. It
opens for its own tenant and subscription only.

Source: NIST SP 800-38D (a nonce of 96 bits, never used twice with a key; a random one serves for 2^32 texts).
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
MAKE_ONE: Final = "make one with: openssl rand -base64 32"


class Locked(Exception):
    """Sealed secrets that cannot be opened; the text says why, for an operator."""


@dataclass(frozen=True, slots=True)
class StoreKey:
    """One key, and the id by which a sealed text names it."""

    raw: bytes = field(repr=False)
    id: str = field(init=False)  #: 8 hex digits that tell nothing of the key
    _cipher: AESGCM = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Name the key, and set the cipher up once."""
        digest = hashlib.sha256(b"leveret store key\0" + self.raw).hexdigest()
        object.__setattr__(self, "id", digest[:8])
        object.__setattr__(self, "_cipher", AESGCM(self.raw))

    def encrypt(self, nonce: bytes, text: bytes, bound_to: bytes) -> bytes:
        """Return *text* encrypted."""
        return self._cipher.encrypt(nonce, text, bound_to)

    def decrypt(self, nonce: bytes, sealed: bytes, bound_to: bytes) -> bytes:
        """Return what was encrypted.

        Raises:
            InvalidTag: another key, another subscription, or damage.
        """
        return self._cipher.decrypt(nonce, sealed, bound_to)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose secrets they are; a sealed text opens for nobody else."""

    tenant: str
    subscription_id: str

    def bound_to(self) -> bytes:
        """Return the associated data: tenant, 0x00, subscription id."""
        return self.tenant.encode() + b"\0" + self.subscription_id.encode()


@dataclass(frozen=True, slots=True)
class Sealed:
    """Encrypted secrets, as they are stored."""

    key_id: str
    text: bytes


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys at hand: the first encrypts, all decrypt."""

    keys: Sequence[StoreKey] = ()
    fault: str = ""  #: why there is none

    def seal(self, secrets: Sequence[str], owner: Owner, nonce: bytes) -> Sealed:
        """Encrypt *secrets* with the first key.

        Args:
            secrets: Newest first.
            owner: Whose they are.
            nonce: 12 fresh random bytes.

        Raises:
            ConfigError: there is no key.
        """
        if not self.keys:
            raise ConfigError(self.fault or "store.key: there is no key")
        text = json.dumps(list(secrets)).encode()
        key = self.keys[0]
        return Sealed(key.id, _FORMAT + nonce + key.encrypt(nonce, text, owner.bound_to()))

    def open(self, sealed: Sealed, owner: Owner) -> tuple[str, ...]:
        """Decrypt the secrets.

        Raises:
            Locked: no key at hand is theirs, or the text is damaged, or another subscription's.
        """
        key = next((key for key in self.keys if key.id == sealed.key_id), None)
        if key is None:
            raise Locked(self.fault or f"its secrets are sealed with store key {sealed.key_id}, not at hand")
        body = sealed.text[1:]
        if sealed.text[:1] != _FORMAT:
            raise Locked("its sealed secrets are damaged, or of a newer release")
        try:
            text = key.decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], owner.bound_to())
        except (InvalidTag, ValueError):
            raise Locked("its sealed secrets are damaged, or were sealed for another subscription") from None
        return tuple(json.loads(text))


def parse_keys(text: str) -> tuple[StoreKey, ...]:
    """Read keys separated by white space or commas; lines that begin with ``#`` are left out.

    Raises:
        ConfigError: there is none, or one is not the base64 of 32 bytes; never repeats it.
    """
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    words = [word for word in _SEPARATOR.split("\n".join(lines)) if word]
    if not words:
        raise ConfigError(f"holds no key; {MAKE_ONE}")
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
