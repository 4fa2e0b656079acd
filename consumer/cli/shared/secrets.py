"""Generate secrets, and read given ones from a file, stdin or a variable, but never from argv."""

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
    """Return a new secret of the same kind as the newest of *keys*, so that receivers can go on verifying."""
    if keys and isinstance(keys[0], Ed25519Key):
        return format_private(Ed25519Key(secrets.token_bytes(32)))
    return fresh_secret()


def read_secret(file: str, parse: Callable[[str], object] = parse_secret) -> str:
    """Return the secret in *file*; see :func:`read_line`.

    Args:
        file: Name of the file; ``-`` is stdin.
        parse: Raises ConfigError if the secret is unusable.

    Raises:
        ConfigError: the file does not hold exactly one line, or the secret is unusable; names the file.
        OSError: the file cannot be read.
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
        file: Name of the file.
        what: The kind of value that the line holds, for error texts.

    Raises:
        ConfigError: there is no such line, or more than one.
        OSError: the file cannot be read.
    """
    name = _name(file)
    try:
        text = sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: is not UTF-8 text; write only the {what} into it") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        raise ConfigError(f"{name}: holds {len(lines)} lines; write only the {what} into it, on one line")
    return lines[0]


def _name(file: str) -> str:
    return "stdin" if file == STDIN else file
