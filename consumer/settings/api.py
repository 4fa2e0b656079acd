"""The section ``[api]``: the HTTP API and the pages for operators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, field_validator, model_validator

from consumer.core.schema import Section
from consumer.core.text.hosts import is_loopback, split_place

DEFAULT_LISTEN: Final = "127.0.0.1:8090"
"""The place where ``leveret serve`` listens if the settings name none."""

KIB = 1024


class ApiSettings(Section):
    """The HTTP API and the pages for operators: `leveret serve`, or `leveret run` if listen is set."""

    listen: str | None = None
    """HOST:PORT of the API; port 0 chooses a free one. Absent: `leveret serve` listens on 127.0.0.1:8090, and
    `leveret run` serves no API. Another address than loopback needs TLS or behind_proxy."""
    tls_certificate: Path | None = None
    """PEM file with the certificate and its chain; the API then speaks HTTPS only."""
    tls_key: Path | None = None
    """PEM file with the certificate's key."""
    behind_proxy: bool = False
    """A proxy in front of the API ends TLS and is the only one that can reach it. The API then takes the
    address of a client from the last entry of `X-Forwarded-For`. Its cookies are for HTTPS only unless the
    proxy sends `X-Forwarded-Proto: http`."""
    max_body_bytes: Annotated[int, Field(ge=1 * KIB, le=64 * KIB * KIB)] = 1 * KIB * KIB
    """Larger request bodies are refused with 413."""
    page_size_max: Annotated[int, Field(ge=1, le=10_000)] = 500
    """Most items of one page of a list."""
    requests_per_s: Annotated[float, Field(ge=0.1, le=100_000)] = 100.0
    """Requests a second with one token; further ones are refused with 429."""
    burst: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Requests with one token that may come together."""
    failed_logins_per_min: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Failed logins a minute from one address; further ones are refused with 429. A valid token works
    nevertheless."""
    session_idle_s: Annotated[float, Field(ge=60, le=7 * 86_400)] = 1_800.0
    """A browser without a request for this time is logged out."""
    session_max_s: Annotated[float, Field(ge=60, le=30 * 86_400)] = 43_200.0
    """A browser is logged out after this time in any case."""

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str | None) -> str | None:
        if value is not None and split_place(value) is None:
            raise ValueError(f"must be HOST:PORT with a port from 0 to 65535, such as {DEFAULT_LISTEN}")
        return value

    @model_validator(mode="after")
    def _check_safe(self) -> ApiSettings:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("api.tls_certificate and api.tls_key belong together; set both or none")
        host, _ = self.place()
        if not is_loopback(host) and self.tls_certificate is None and not self.behind_proxy:
            raise ValueError(
                f"api.listen: other machines can reach {host} without TLS; set api.tls_certificate and "
                "api.tls_key, or api.behind_proxy = true if a proxy ends TLS, or listen on 127.0.0.1"
            )
        return self

    @property
    def uses_tls(self) -> bool:
        """Whether the API itself speaks HTTPS."""
        return self.tls_certificate is not None

    def place(self) -> tuple[str, int]:
        """Return host, without brackets, and port where the API listens."""
        return split_place(self.listen or DEFAULT_LISTEN) or ("127.0.0.1", 0)
