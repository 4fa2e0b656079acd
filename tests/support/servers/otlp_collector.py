"""A collector that takes OTLP over HTTP and remembers every span, as the official messages decode it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from aiohttp import web
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from tests.support.servers.web_app import listening
from tests.support.system.waiting import PATIENCE_S, until


@dataclass(slots=True)
class OtlpCollector:
    """Answers each export in the way that the test has set; as an async context manager it listens."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)  #: of its answers
    rejected: int = 0  #: spans of each export that it does not take
    content: bytes | None = None  #: of its answers, instead of a valid one
    gate: asyncio.Event | None = None  #: it answers once this is set
    posts: list[Mapping[str, str]] = field(default_factory=list)  #: the headers of each request
    taken: list[ResourceSpans] = field(default_factory=list)
    port: int = 0
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> OtlpCollector:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/traces", self._answer)
        self.port = await self._stack.enter_async_context(listening(app, self.port))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The URL for ``[tracing] endpoint``."""
        return f"http://127.0.0.1:{self.port}"

    def spans(self, name: str = "") -> list[Span]:
        """Return the spans so far whose names begin with *name*, in their order."""
        every = (span for part in self.taken for scope in part.scope_spans for span in scope.spans)
        return [span for span in every if span.name.startswith(name)]

    def text(self) -> str:
        """Return everything that it has taken, as JSON-like text, for a search."""
        return repr([MessageToDict(part) for part in self.taken])

    async def exported(self, count: int, timeout_s: float = PATIENCE_S) -> None:
        """Wait until it has taken *count* spans."""
        await until(lambda: len(self.spans()) >= count, f"{count} spans", timeout_s)

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()  # aiohttp has unpacked it
        self.posts.append(dict(request.headers))
        if self.gate is not None:
            await self.gate.wait()
        answer = ExportTraceServiceResponse()
        if self.status == 200:
            self.taken.extend(ExportTraceServiceRequest.FromString(body).resource_spans)
            answer.partial_success.rejected_spans = self.rejected
        content = answer.SerializeToString() if self.content is None else self.content
        return web.Response(status=self.status, headers=dict(self.headers), body=content)


def attributes(pairs: Sequence[KeyValue]) -> dict[str, str | int]:
    """Return attributes by name.

    Raises:
        ValueError: two of them have one name, or one is neither text nor a whole number.
    """
    found: dict[str, str | int] = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        if pair.key in found or kind not in ("string_value", "int_value"):
            raise ValueError(f"{pair.key}: {kind}")
        found[pair.key] = pair.value.string_value if kind == "string_value" else pair.value.int_value
    return found
