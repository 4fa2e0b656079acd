"""Send nothing: take each signed webhook, log it, and say that it was delivered.

Events are consumed as ever. So a dry run wants a topology of its own, or events that nobody will miss.
"""

from __future__ import annotations

from consumer.core.model import Outcome, OutcomeKind, SignedRequest
from consumer.core.text.urls import show_url
from consumer.ports import StepReports

SAID = "dry: nothing was sent"


class DrySender:
    """Implements :class:`consumer.ports.Sender` without a network."""

    def __init__(self, observe: StepReports) -> None:
        self._observe = observe

    async def send(self, request: SignedRequest) -> Outcome:
        """Log what would be sent; no body, and no secret."""
        headers = dict(request.headers)
        self._observe.said(
            "webhook.dry",
            event_id=headers.get("webhook-id"),
            url=show_url(request.url),
            timestamp=headers.get("webhook-timestamp"),
            signature=headers.get("webhook-signature"),
            size_bytes=len(request.body),
        )
        return Outcome(kind=OutcomeKind.OK, duration_s=0.0, status=204, detail=SAID)

    async def close(self) -> None:
        """Hold nothing."""
