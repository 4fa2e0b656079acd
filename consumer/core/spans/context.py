"""Derive the ids of an event's span from the event, so that any worker can link to that span hours later.

Data flow: Event -> :func:`event_context` -> the event's span, and the parent or link of each attempt's span.
A delivery keeps id, tenant, type and arrival of its event through every queue, so no id of a span is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from consumer.core.model import Event
from consumer.core.text.milliseconds import ceil_ms

_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8
_RANDOM_BITS: Final = (
    56  #: of a trace id, its last ones. Source: W3C Trace Context Level 2, "Random Trace ID"
)
_SAMPLED: Final = frozenset("13579bdf")  #: last digits of ``traceparent`` in which the flag is set


class SpanContext(NamedTuple):
    """The ids of an event's span."""

    trace_id: bytes  #: 16 bytes: that of the event's ``traceparent``, else derived
    span_id: bytes  #: 8 bytes
    parent_id: bytes = b""  #: 8 bytes: the span of the producer; empty without ``traceparent``


@dataclass(frozen=True, slots=True)
class Sampling:
    """The choice of the events whose spans are recorded; an event has the same answer on every worker.

    Source: OpenTelemetry, "Sampling": ParentBased, and the threshold of ConsistentProbabilityBased.
    """

    ratio: float = 1.0  #: share of the traces that is recorded, 0 to 1
    follows_parent: bool = True  #: the flag of a ``traceparent`` decides, where an event has one

    def takes(self, event: Event, trace_id: bytes) -> bool:
        """Return whether spans of *event*, whose trace is *trace_id*, are recorded."""
        parent = event.trace_parent
        if self.follows_parent and parent is not None:
            return parent[2][-1] in _SAMPLED
        return int.from_bytes(trace_id[9:]) >= (1.0 - self.ratio) * (1 << _RANDOM_BITS)


def event_context(event: Event, arrived_at: float) -> SpanContext:
    """Return the ids of the span of *event*.

    Args:
        event: Its ``traceparent`` names trace and parent, if it has one.
        arrived_at: Unix seconds when a worker first took the event, before any replay. An event that is taken
            twice has two spans.
    """
    key = f"{event.tenant}\0{event.type}\0{event.id}\0{ceil_ms(arrived_at)}"
    mark = blake2b(key.encode(errors="replace"), digest_size=_TRACE_BYTES + _SPAN_BYTES).digest()
    parent = event.trace_parent
    if parent is None:
        return SpanContext(mark[:_TRACE_BYTES], mark[_TRACE_BYTES:])
    trace_id, parent_id, _flags = parent
    return SpanContext(bytes.fromhex(trace_id), mark[_TRACE_BYTES:], bytes.fromhex(parent_id))
