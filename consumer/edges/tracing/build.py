"""Build the tracing that the settings ask for. Importing this module imports the packages of the extra."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

from consumer.core.spans.context import Sampling
from consumer.edges.tracing.collector import Collector
from consumer.edges.tracing.exporter import SpanExporter
from consumer.edges.tracing.otlp import request_of
from consumer.edges.tracing.otlp_tracer import OtlpTracer
from consumer.settings import Settings
from consumer.tracing_ports import Tracer, TracingReports


@dataclass(frozen=True, slots=True)
class Tracing:
    """The parts of tracing that a worker uses."""

    tracer: Tracer
    exporter: SpanExporter


def open_tracing(settings: Settings, url: str, instance: str, reports: TracingReports) -> Tracing:
    """Return the tracing; nothing is sent yet.

    Args:
        settings: With the section ``tracing``.
        url: Where spans are posted.
        instance: The id of this worker.
        reports: Takes faults and counts.

    Raises:
        ConfigError: a file of the section cannot be read.
    """
    tracing, release = settings.tracing, version("leveret")
    resource = {
        **tracing.attributes,
        "service.name": tracing.service_name,
        "service.version": release,
        "service.instance.id": instance,
    }
    collector = Collector(
        url,
        headers=(("user-agent", f"leveret/{release}"), *settings.tracing_headers()),
        ca_file=tracing.ca_file,
        timeout_s=tracing.timeout_s,
    )
    exporter = SpanExporter(collector, request_of(resource, release), tracing.queue_bytes, reports)
    sampling = Sampling(tracing.sample_ratio, tracing.follow_parent)
    return Tracing(OtlpTracer(exporter.add, sampling, reports), exporter)
