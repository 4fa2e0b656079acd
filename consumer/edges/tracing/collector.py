"""Post batches of spans to a collector that speaks OTLP over HTTP.

Data flow: body of one export -> gzip -> POST -> Answer. Nothing here raises for a fault of the collector.

Source: OpenTelemetry Protocol 1.x, "OTLP/HTTP" (binary protobuf, retryable statuses, partial success).
"""

from __future__ import annotations

import asyncio
import ssl
import time
import zlib
from collections.abc import Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

import httpx2
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from consumer.core.errors import ConfigError
from consumer.core.text.printable import printable
from consumer.core.text.retry_after import parse_retry_after

LEVEL: Final = 1  #: of the compression; higher ones save little of spans
ANSWER_BYTES: Final = 65_536  #: bytes of an answer that are read, at most
DETAIL_MAX: Final = 200  #: characters of a collector's text in our log

_RETRYABLE: Final = frozenset((429, 502, 503, 504))


class Fate(Enum):
    """The collector's decision on a batch."""

    TAKEN = auto()
    REFUSED = auto()  #: it would refuse the batch again
    LATER = auto()  #: it may take the batch later, or cannot be reached now


class Answer(NamedTuple):
    """The collector's answer to a batch."""

    fate: Fate
    rejected: int = 0  #: spans of a batch that it took except for these
    wait_s: float = 0.0  #: time for which it asks before the next batch
    detail: str = ""  #: the fault in words; never a header


class Collector:
    """One collector; at most one batch is under way."""

    def __init__(
        self, url: str, *, headers: Sequence[tuple[str, str]], ca_file: Path | None, timeout_s: float
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            url: Where batches are posted.
            headers: Sent with each batch; they may be secret.
            ca_file: PEM file with the authorities of the collector's certificate; None: the system's.
            timeout_s: Longest time for one batch.

        Raises:
            ConfigError: *ca_file* cannot be read.
        """
        self._url = url
        self._timeout_s = timeout_s
        self._client = httpx2.AsyncClient(
            headers=[
                *headers,
                ("content-type", "application/x-protobuf"),
                ("content-encoding", "gzip"),
            ],
            verify=_authorities(ca_file),
            timeout=timeout_s,
            trust_env=False,
            follow_redirects=False,
        )

    async def post(self, body: bytes) -> Answer:
        """Send one batch, and return the answer."""
        packed = await asyncio.to_thread(_packed, body)
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream("POST", self._url, content=packed) as response,
            ):
                return _read(response, await _start_of(response))
        except TimeoutError:
            return Answer(Fate.LATER, detail=f"no answer within {self._timeout_s:g} s")
        except (httpx2.HTTPError, OSError) as error:
            return Answer(Fate.LATER, detail=_shown(str(error) or type(error).__name__))

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()


def _authorities(ca_file: Path | None) -> ssl.SSLContext | bool:
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:  # also an ssl.SSLError
        raise ConfigError(f"tracing.ca_file: cannot read {ca_file}: {error}") from None


def _packed(body: bytes) -> bytes:
    return zlib.compress(body, LEVEL, wbits=16 + zlib.MAX_WBITS)  # with the header of gzip


async def _start_of(response: httpx2.Response) -> bytes:
    """Read the start of an answer; a longer one is cut off."""
    start = b""
    async for chunk in response.aiter_bytes():
        start += chunk
        if len(start) > ANSWER_BYTES:
            break
    return start[:ANSWER_BYTES]


def _read(response: httpx2.Response, content: bytes) -> Answer:
    status = response.status_code
    if status in _RETRYABLE:
        wait_s = parse_retry_after(response.headers.get("retry-after"), time.time())
        return Answer(Fate.LATER, wait_s=wait_s or 0.0, detail=f"HTTP {status}")
    if not 200 <= status < 300:
        return Answer(Fate.REFUSED, detail=f"HTTP {status}")
    try:
        partial = ExportTraceServiceResponse.FromString(content).partial_success
    except DecodeError:  # it took the spans, whatever it wrote
        return Answer(Fate.TAKEN)
    return Answer(Fate.TAKEN, max(partial.rejected_spans, 0), detail=_shown(partial.error_message))


def _shown(text: str) -> str:
    return printable(text[:DETAIL_MAX])
