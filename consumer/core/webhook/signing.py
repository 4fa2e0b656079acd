"""Sign webhooks as Standard Webhooks 1.0.0 requires, and check such signatures for our own tools.

Data flow: secrets (subscriptions file) -> :func:`parse_secret` -> keys, newest first -> :func:`sign` once
per attempt over the exact bytes that are sent.

Source: Standard Webhooks 1.0.0 (SW-02..11 in docs); vectors in tests/data/signatures.json.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from consumer.core.errors import BadSignature, ConfigError

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"

#: Length of a symmetric secret. Source: Standard Webhooks "Signature scheme", 192 to 512 bits (SW-09).
SECRET_MIN_BYTES: Final = 24
SECRET_MAX_BYTES: Final = 64
#: The largest accepted difference between a timestamp and now, as in all reference libraries.
TOLERANCE_S: Final = 300.0

_HMAC_PREFIX: Final = "whsec_"
_PRIVATE_PREFIX: Final = "whsk_"
_PUBLIC_PREFIX: Final = "whpk_"
#: A misspelt prefix (hwsec_, WHSEC_, whsec-) must not pass as a raw secret with a different signature.
_MISSPELT_PREFIX: Final = re.compile(r"[whseckp]{4,5}[_-]", re.IGNORECASE)
_REMEDY: Final = "leave the secret out, and Leveret generates one and shows it once"


@dataclass(frozen=True, slots=True)
class HmacKey:
    """A symmetric secret: scheme ``v1``, HMAC-SHA256."""

    secret: bytes = field(repr=False)
    _mac: hmac.HMAC = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash the padded key once: a copy of this state is cheaper than a new one for each signature."""
        object.__setattr__(self, "_mac", hmac.new(self.secret, digestmod="sha256"))

    def entry(self, content: bytes) -> str:
        """Return this key's entry of the signature list."""
        mac = self._mac.copy()
        mac.update(content)
        return "v1," + binascii.b2a_base64(mac.digest(), newline=False).decode()


@dataclass(frozen=True, slots=True)
class Ed25519Key:
    """A private key: scheme ``v1a``, ed25519."""

    seed: bytes = field(repr=False)
    _private: Ed25519PrivateKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Load the key once instead of once for each signature."""
        object.__setattr__(self, "_private", Ed25519PrivateKey.from_private_bytes(self.seed))

    @property
    def public(self) -> bytes:
        """The 32 bytes with which a receiver verifies."""
        return self._private.public_key().public_bytes_raw()

    def entry(self, content: bytes) -> str:
        """Return this key's entry of the signature list."""
        return "v1a," + base64.b64encode(self._private.sign(content)).decode()


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The receiver's half of an ed25519 pair: it can verify but cannot sign."""

    public: bytes


SigningKey: TypeAlias = HmacKey | Ed25519Key
VerifyingKey: TypeAlias = HmacKey | Ed25519Key | PublicKey


def parse_secret(text: str) -> SigningKey:
    """Read a secret as an operator wrote it.

    Args:
        text: ``whsec_`` and the base64 of 24 to 64 bytes; or ``whsk_`` and the base64 of an ed25519 seed
            with its public half; or 24 to 64 bytes of text without a prefix, used unchanged (S0-4).
            Receivers of a secret without a prefix need the text of :func:`format_secret`, because their
            libraries would decode the bare text as base64.

    Raises:
        ConfigError: *text* has none of these forms. The error names fault and remedy, never the secret.
    """
    if text.startswith(_HMAC_PREFIX):
        raw = _decode(text.removeprefix(_HMAC_PREFIX), _HMAC_PREFIX)
        return HmacKey(_check_length(raw, "after decoding"))
    if text.startswith(_PRIVATE_PREFIX):
        return _parse_private(_decode(text.removeprefix(_PRIVATE_PREFIX), _PRIVATE_PREFIX))
    if text.startswith(_PUBLIC_PREFIX):
        raise ConfigError("a whpk_ key is public and cannot sign; give the whsk_ key that belongs to it")
    if _MISSPELT_PREFIX.match(text):
        raise ConfigError("the secret starts with something like whsec_, misspelt; write whsec_ or whsk_")
    if not text.isprintable() or text != text.strip():
        raise ConfigError(
            f"the secret contains line breaks, other control characters or blanks at its ends; {_REMEDY}"
        )
    return HmacKey(_check_length(text.encode(), "as written"))


def _parse_private(raw: bytes) -> Ed25519Key:
    if len(raw) != 64:
        raise ConfigError(f"a whsk_ key has 64 bytes, seed and public half; this one has {len(raw)}")
    key = Ed25519Key(raw[:32])
    if not hmac.compare_digest(key.public, raw[32:]):
        raise ConfigError("the public half of the whsk_ key does not belong to its seed; copy it again")
    return key


def parse_verifying_key(text: str) -> VerifyingKey:
    """Read a key with which a receiver verifies: any form of :func:`parse_secret`, or ``whpk_``.

    Raises:
        ConfigError: *text* is not such a key.
    """
    if not text.startswith(_PUBLIC_PREFIX):
        return parse_secret(text)
    raw = _decode(text.removeprefix(_PUBLIC_PREFIX), _PUBLIC_PREFIX)
    if len(raw) != 32:
        raise ConfigError(f"a whpk_ key has 32 bytes; this one has {len(raw)}")
    return PublicKey(raw)


def _decode(text: str, prefix: str) -> bytes:
    """Decode standard base64, with or without padding (SW-11); urlsafe and invalid text is refused."""
    if "=" in text and (len(text) % 4 or text.count("=") > 2):  # Python's decoder accepts some of these
        raise ConfigError(f"the text after {prefix} has wrong padding; {_REMEDY}")
    try:
        return base64.b64decode(text if "=" in text else text + "=" * (-len(text) % 4), validate=True)
    except ValueError as error:
        raise ConfigError(f"the text after {prefix} is not standard base64; {_REMEDY}") from error


def _check_length(raw: bytes, how: str) -> bytes:
    if not SECRET_MIN_BYTES <= len(raw) <= SECRET_MAX_BYTES:
        raise ConfigError(
            f"a secret has {SECRET_MIN_BYTES} to {SECRET_MAX_BYTES} bytes, "
            f"this one has {len(raw)} {how}; {_REMEDY}"
        )
    return raw


def format_secret(raw: bytes) -> str:
    """Write a symmetric secret as ``whsec_`` and base64.

    Raises:
        ConfigError: *raw* has fewer than 24 or more than 64 bytes.
    """
    return _HMAC_PREFIX + base64.b64encode(_check_length(raw, "as given")).decode()


def format_private(key: Ed25519Key) -> str:
    """Write *key* for its owner, as ``whsk_`` and base64 of seed and public half."""
    return _PRIVATE_PREFIX + base64.b64encode(key.seed + key.public).decode()


def format_public(key: Ed25519Key) -> str:
    """Write the public half of *key* for its receivers, as ``whpk_`` and base64."""
    return _PUBLIC_PREFIX + base64.b64encode(key.public).decode()


def sign(keys: Sequence[SigningKey], event_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of ``webhook-signature``: one entry per key, joined by single spaces.

    Args:
        keys: Newest first, at least one; old keys stay while receivers change over (SW-32).
        event_id: The ``webhook-id``; ASCII, without a full stop (SW-06).
        timestamp: Unix seconds of this attempt.
        body: The exact bytes that will be sent.

    Raises:
        ValueError: *keys* is empty, or *event_id* contains a full stop.
    """
    if not keys:
        raise ValueError("a webhook without a key would be sent unsigned")
    if "." in event_id:
        raise ValueError(f"the id {event_id!r} contains a full stop, which separates the signed parts")
    content = f"{event_id}.{timestamp:d}.".encode("ascii") + body
    if len(keys) == 1:
        return keys[0].entry(content)
    return " ".join([key.entry(content) for key in keys])


def verify(
    keys: Sequence[VerifyingKey],
    headers: Mapping[str, str],
    body: bytes,
    now: float,
    tolerance_s: float = TOLERANCE_S,
) -> None:
    """Check a received webhook, in a time that is independent of the correct part of a signature.

    Args:
        keys: The receiver's trust list; any of them may have signed.
        headers: Headers of the request; names in any case.
        body: The exact bytes received.
        now: Unix seconds.
        tolerance_s: The largest accepted difference between the timestamp and *now*, in either direction.

    Raises:
        BadSignature: a header is missing or malformed, the time is off, or no key matches any entry.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    missing = [n for n in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER) if not lower.get(n)]
    if missing:
        raise BadSignature(f"the header {missing[0]} is missing")
    timestamp = lower[TIMESTAMP_HEADER]
    if not re.fullmatch("[0-9]{1,15}", timestamp):
        raise BadSignature(f"{TIMESTAMP_HEADER} is not a whole number of Unix seconds")
    if abs(now - int(timestamp)) > tolerance_s:
        raise BadSignature(f"{TIMESTAMP_HEADER} is more than {tolerance_s:g} s off")
    content = f"{lower[ID_HEADER]}.{timestamp}.".encode() + body
    entries = lower[SIGNATURE_HEADER].split(" ")
    # Every pair is compared, even after a match, so that the time reveals nothing.
    found = [fits(key, entries, content) for key in keys]
    if True not in found:
        raise BadSignature(f"no entry of {SIGNATURE_HEADER} matches any key")


def fits(key: VerifyingKey, entries: Sequence[str], content: bytes) -> bool:
    """Return whether *key* made one of the *entries* of a signature list over *content*."""
    if isinstance(key, HmacKey):
        expected = key.entry(content).encode()
        return True in [hmac.compare_digest(expected, entry.encode()) for entry in entries]
    public = Ed25519PublicKey.from_public_bytes(key.public)
    return True in [_fits_ed25519(public, entry, content) for entry in entries]


def _fits_ed25519(public: Ed25519PublicKey, entry: str, content: bytes) -> bool:
    version, _, text = entry.partition(",")
    if version != "v1a":
        return False
    try:
        public.verify(base64.b64decode(text, validate=True), content)
    except (InvalidSignature, ValueError):
        return False
    return True
