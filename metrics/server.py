"""The text that ``GET /metrics`` answers with."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder


def exposition(registry: CollectorRegistry, accept: str) -> tuple[str, bytes]:
    """Return the content type and the body for a scrape.

    Args:
        registry: What to expose.
        accept: The ``Accept`` header of the scrape; chooses OpenMetrics or the older text format.
    """
    encoder, content_type = choose_encoder(accept)
    return content_type, encoder(registry)
