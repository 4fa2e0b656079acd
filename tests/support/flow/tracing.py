"""A tracer whose spans a test can read."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span
from prometheus_client import CollectorRegistry

from consumer.core.spans.context import Sampling
from consumer.edges.tracing.otlp_tracer import OtlpTracer
from consumer.flow.observe.observer import Observer
from metrics.series import Series
from tests.support.fakes import RecordingLog


class SpanDesk:
    """The tracer of a worker, with every span that it recorded."""

    def __init__(self, sampling: Sampling | None = None, add: Any = None) -> None:
        """Record spans; *add* takes their bytes instead of the desk."""
        self.items: list[bytes] = []
        self.log = RecordingLog()
        self.observe = Observer(Series(CollectorRegistry()), self.log)
        self.tracer = OtlpTracer(add or self.items.append, sampling or Sampling(), self.observe)

    def spans(self, name: str = "") -> list[Span]:
        """Return the spans whose names begin with *name*."""
        every = ScopeSpans.FromString(b"".join(self.items)).spans
        return [span for span in every if span.name.startswith(name)]

    def bugs(self) -> list[dict[str, object]]:
        """Return the unexpected errors."""
        return self.log.events("task.failed")
