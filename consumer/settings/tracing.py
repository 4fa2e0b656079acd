"""The section ``[tracing]``: where spans are sent, which are recorded, and their bounds in memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from consumer.core.schema import Section

KIB = 1024
PATH: Final = "/v1/traces"
"""Source: OpenTelemetry Protocol, "OTLP/HTTP Request"."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")


class TracingSettings(Section):
    """OpenTelemetry: spans of events and attempts. It needs `pip install 'leveret[otel]'`."""

    endpoint: str | None = None
    """URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318. Leveret adds /v1/traces
    unless the URL ends with it. Absent: no spans."""
    headers: SecretStr | None = None
    """Headers for the collector, such as a token: `name=value`, several separated by commas. Values are
    percent-encoded as in OTEL_EXPORTER_OTLP_HEADERS: write %2C for a comma and %25 for a percent sign."""
    headers_file: Path | None = None
    """File that contains the headers, such as a mounted secret."""
    ca_file: Path | None = None
    """PEM file with the authorities of the collector's certificate; absent: those of the system."""
    sample_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the events whose spans are recorded; those of their attempts follow."""
    follow_parent: bool = True
    """The sampled flag of an event's traceparent decides instead of sample_ratio."""
    service_name: Annotated[str, Field(min_length=1, max_length=255)] = "leveret"
    """Resource attribute service.name of the spans."""
    attributes: dict[str, str] = Field(default_factory=dict, max_length=32)
    """Further resource attributes, such as deployment.environment.name."""
    queue_bytes: Annotated[int, Field(ge=64 * KIB, le=1024 * KIB * KIB)] = 8 * KIB * KIB
    """Bytes of recorded spans that wait for the collector; further spans are dropped and counted."""
    timeout_s: Annotated[float, Field(ge=0.1, le=60)] = 10.0
    """Longest wait for the collector's answer to one batch."""

    @field_validator("endpoint")
    @classmethod
    def _check_endpoint(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError(
                "must be the URL of a collector without user, query and fragment, such as "
                "http://127.0.0.1:4318; put a token into headers"
            )
        return value

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parse_headers(value.get_secret_value())
        return value

    @model_validator(mode="after")
    def _check_one_source(self) -> TracingSettings:
        if self.headers is not None and self.headers_file is not None:
            raise ValueError("tracing.headers and tracing.headers_file cannot both be set; remove one")
        return self

    @property
    def url(self) -> str | None:
        """The URL to which spans are posted."""
        if self.endpoint is None:
            return None
        base = self.endpoint.rstrip("/")
        return base if base.endswith(PATH) else base + PATH


def parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    """Read ``name=value,name=value``; a line break is a comma too. Values are percent-decoded.

    Raises:
        ValueError: an entry is something else; the text never repeats it, as it may be a secret.

    Source: OpenTelemetry, "Specifying headers via environment variables" (``OTEL_EXPORTER_OTLP_HEADERS``);
    W3C Baggage, "value" (percent-encoded; ``+`` is a plus sign).
    """
    pairs = []
    for number, entry in enumerate(filter(None, (part.strip() for part in re.split(r"[,\n]", text))), 1):
        name, equals, value = (part.strip() for part in entry.partition("="))
        value = unquote(value)
        if not equals or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(f"entry {number} is not name=value in ASCII; separate entries by commas")
        pairs.append((name, value))
    return tuple(pairs)
