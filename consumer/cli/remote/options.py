"""The options of ``leveret`` that name a server, checked before anything is sent.

Data flow: --server, --token-file ... -> :class:`ServerOptions` -> :class:`consumer.cli.remote.client.Client`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from consumer.core.errors import ConfigError
from consumer.core.text.hosts import is_loopback

PANEL = "Over the HTTP API"

Server = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="LEVERET_SERVER",
        help="Work over the API of `leveret serve` at this URL, without the secrets of store and broker.",
        rich_help_panel=PANEL,
    ),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        envvar="LEVERET_TOKEN_FILE",
        help="File with the token for --server; only its owner may read it.",
        rich_help_panel=PANEL,
    ),
]
CaFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        envvar="LEVERET_SERVER_CA_FILE",
        help="PEM file with the certificate authority of --server; absent: those of the operating system.",
        rich_help_panel=PANEL,
    ),
]
TimeoutS = Annotated[
    float,
    typer.Option(
        "--server-timeout-s",
        min=0.1,
        max=3_600,
        envvar="LEVERET_SERVER_TIMEOUT_S",
        help="Longest wait for each answer of --server, in seconds.",
        rich_help_panel=PANEL,
    ),
]
AllowHttp = Annotated[
    bool,
    typer.Option(
        "--allow-http",
        envvar="LEVERET_SERVER_ALLOW_HTTP",
        help="Allow an http:// URL of another machine: everybody on the way can read the token.",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Where the API is, and how it is reached."""

    url: str  #: without a slash at the end
    token_file: str
    ca_file: str | None = None
    timeout_s: float = 60.0


def checked_url(text: str, *, allow_http: bool) -> str:
    """Return the URL of a server without a slash at its end.

    Args:
        text: The URL.
        allow_http: Whether another machine may be reached without TLS.

    Raises:
        ConfigError: it is not a URL of a server, contains a login, or sends the token in clear.
    """
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ConfigError("--server: is not a URL such as https://leveret.example:8443")
    if "@" in parts.netloc:
        raise ConfigError("--server: contains a login; leave it out, as the token is in --token-file")
    if parts.scheme == "http" and not is_loopback(host) and not allow_http:
        raise ConfigError(
            f"--server: http:// would send the token to {host} in clear; use https://, or --allow-http"
        )
    return text.rstrip("/")


def read_token(file: str) -> str:
    """Return the token in *file*.

    Raises:
        ConfigError: others may read the file, or it does not contain one token; the text never contains it.
        OSError: the file cannot be read.
    """
    with Path(file).open("rb") as opened:
        mode = os.fstat(opened.fileno()).st_mode
        if stat.S_ISREG(mode) and mode & 0o077:
            raise ConfigError(f"{file}: other users may read the token; run `chmod 600 {file}`")
        text = opened.read(4_096)
    words = text.split()
    if len(words) != 1 or not words[0].isascii():
        raise ConfigError(
            f"{file}: does not contain one token; write that of `leveret tokens create` into it"
        )
    return words[0].decode("ascii")
