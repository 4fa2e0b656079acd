"""Open the tracing that the settings ask for, and import its packages only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.core.errors import ConfigError
from consumer.flow.base.no_tracer import NoTracer
from consumer.settings import Settings
from consumer.tracing_ports import Tracer, TracingReports

if TYPE_CHECKING:
    from consumer.edges.tracing.build import Tracing


def tracing_of(settings: Settings, instance: str, reports: TracingReports) -> Tracing | None:
    """Return what records and exports spans; None if the settings name no collector.

    Args:
        settings: With the section ``tracing``.
        instance: The id of this worker.
        reports: Takes faults and counts.

    Raises:
        ConfigError: the packages of the extra are missing, or a file cannot be read.
    """
    url = settings.tracing.url
    if url is None:
        return None
    try:
        from consumer.edges.tracing.build import open_tracing  # noqa: PLC0415 (an extra, and 3 MB)
    except ImportError as error:
        raise ConfigError(f"tracing.endpoint needs pip install 'leveret[otel]': {error}") from None
    return open_tracing(settings, url, instance, reports)


def tracer_of(tracing: Tracing | None) -> Tracer:
    """Return the tracer of the flow."""
    return NoTracer() if tracing is None else tracing.tracer
