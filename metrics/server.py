"""The text of the answer to ``GET /metrics``."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder


def exposition(registry: CollectorRegistry, accept: str) -> tuple[str, bytes]:
    """Return the content type and the body for a scrape.

    Args:
        registry: The series to expose.
        accept: The ``Accept`` header of the scrape; it selects OpenMetrics or the older text format.
    """
    encoder, content_type = choose_encoder(accept)
    return content_type, encoder(registry)
