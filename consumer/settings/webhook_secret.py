"""Read the secrets for our own receiving tools from a file or a variable, never from the command line.

Data flow: --secret-file or WEBHOOK_SECRET -> secrets -> VerifyingKey, any of which may have signed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from consumer.core.errors import ConfigError
from consumer.core.webhook.signing import VerifyingKey, parse_verifying_key

VARIABLE = "WEBHOOK_SECRET"
"""This name has no LEVERET_ prefix because it belongs to a receiver; the README's receiver reads it too."""


def verifying_keys(
    file: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Sequence[VerifyingKey]:
    """Return the keys of *file*, or else of the variable; empty if both are absent.

    Args:
        file: One secret a line; blank lines and lines that begin with ``#`` are ignored.
        environ: The variables; several secrets are separated by blanks.

    Raises:
        ConfigError: a secret is not valid, or the file has none. The error names its place, never the secret.
        OSError: the file cannot be read.
    """
    if file is None:
        return [_key(text, VARIABLE, n) for n, text in enumerate(environ.get(VARIABLE, "").split(), start=1)]
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: is not UTF-8 text; write one secret a line") from None
    keys = [
        _key(line.strip(), f"{file}:{n}", 1)
        for n, line in enumerate(lines, start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not keys:
        raise ConfigError(f"{file}: contains no secret; write one a line, whsec_..., whpk_... or whsk_...")
    return keys


def _key(text: str, where: str, number: int) -> VerifyingKey:
    try:
        return parse_verifying_key(text)
    except ConfigError as error:
        which = f"{where}, secret {number}" if number > 1 else where
        raise ConfigError(f"{which}: {error}") from None
