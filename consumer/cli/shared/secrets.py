"""Read secrets from a file or stdin, but never from argv."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from consumer.core.errors import ConfigError
from consumer.core.webhook.signing import parse_secret

STDIN = "-"
"""The file name that means standard input."""


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
