"""Make secrets, and read those that a person gives: from a file, stdin or a variable, never from argv."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from consumer.core.errors import ConfigError
from consumer.core.webhook.signing import Ed25519Key, SigningKey, format_private, format_secret, parse_secret

SECRET_BYTES = 32
"""Length of a generated secret. Source: SW-09 (24 to 64 bytes)."""
STDIN = "-"
"""The file name that means standard input."""


def fresh_secret() -> str:
    """Return a new symmetric secret, ``whsec_...``."""
    return format_secret(secrets.token_bytes(SECRET_BYTES))


def fresh_like(keys: Sequence[SigningKey]) -> str:
    """Return a new secret of the kind of the newest of *keys*, so that receivers can go on verifying."""
    if keys and isinstance(keys[0], Ed25519Key):
        return format_private(Ed25519Key(secrets.token_bytes(32)))
    return fresh_secret()


def read_secret(file: str, parse: Callable[[str], object] = parse_secret) -> str:
    """Return the secret in *file*; see :func:`read_line`.

    Args:
        file: Its name.
        parse: Raises ConfigError for what is unusable.

    Raises:
        ConfigError: it is not one line, or no usable secret; names the file.
        OSError: it cannot be read.
    """
    secret = read_line(file, "secret")
    try:
        parse(secret)
    except ConfigError as error:
        raise ConfigError(f"{_name(file)}: {error}") from None
    return secret


def read_line(file: str, what: str) -> str:
    """Return the one line of *file* that is not blank; ``-`` is stdin.

    Args:
        file: Its name.
        what: It holds, for the messages.

    Raises:
        ConfigError: there is none, or more than one.
        OSError: it cannot be read.
    """
    name = _name(file)
    try:
        text = sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: is not UTF-8 text; write the {what} alone into it") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        raise ConfigError(f"{name}: holds {len(lines)} lines; write the {what} alone into it, on one line")
    return lines[0]


def _name(file: str) -> str:
    return "stdin" if file == STDIN else file
