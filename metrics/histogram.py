"""A histogram for the path of every request: one bisection and two additions for each value.

The library's own histogram takes a lock for the sum and another for the bucket, about 1.5 us for each value.
All our values come from the single thread of the event loop, which needs no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from time import time
from typing import TypeAlias

from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

Bucket: TypeAlias = tuple[str, float] | tuple[str, float, Exemplar]
"""Upper bound, number of values up to it, and perhaps an exemplar."""


class HistogramChild:
    """The values of one label set."""

    __slots__ = ("_bounds", "_counts", "_exemplars", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._exemplars: dict[int, tuple[str, float, float]] = {}  #: trace, value, Unix seconds; by bucket

    def observe(self, value: float, trace_id: str | None = None) -> None:
        """Record one value; a bucket includes its upper bound.

        Args:
            value: The value.
            trace_id: The recorded trace of the value: the newest one of each bucket becomes its exemplar.
        """
        bucket = bisect_left(self._bounds, value)
        self._counts[bucket] += 1
        self._sum += value
        if trace_id is not None:
            self._exemplars[bucket] = (trace_id, value, time())

    def buckets(self) -> list[Bucket]:
        """Return each upper bound with the number of values up to it, and with its exemplar if it has one."""
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        found: list[Bucket] = list(zip(names, map(float, accumulate(self._counts)), strict=True))
        for bucket, (trace_id, value, at) in self._exemplars.items():  # only OpenMetrics shows them
            found[bucket] = (*found[bucket][:2], Exemplar({"trace_id": trace_id}, value, at))
        return found

    @property
    def sum(self) -> float:
        """The sum of all values."""
        return self._sum


class Histogram(Collector):
    """A histogram of floats with fixed bounds."""

    def __init__(self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        """Create the histogram without registering it.

        Args:
            name: Name with the unit, such as ``leveret_retry_wait_seconds``.
            text: Description of the values.
            bounds: Upper bounds of the buckets, ascending, without the infinite one.
            labels: Label names; a histogram without labels has one child from the start.
        """
        self._name = name
        self._text = text
        self._bounds = tuple(bounds)
        self._labelnames = tuple(labels)
        self._children: dict[tuple[str, ...], HistogramChild] = {}
        if not labels:
            self.labels()

    def labels(self, *values: str) -> HistogramChild:
        """Return the child for these label values; the first call creates it."""
        if len(values) != len(self._labelnames):
            raise ValueError(f"{self._name} has the labels {self._labelnames}, got {values}")
        return self._children.setdefault(values, HistogramChild(self._bounds))

    def describe(self) -> Iterable[HistogramMetricFamily]:
        """Return the collected name, so that the registry refuses a second series of that name."""
        return [HistogramMetricFamily(self._name, self._text, labels=self._labelnames)]

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Return the values so far."""
        [family] = self.describe()
        for values, child in self._children.items():
            family.add_metric(values, child.buckets(), child.sum)
        return [family]
