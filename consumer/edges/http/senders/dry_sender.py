"""Send nothing: log each signed webhook, and return a success.

Events are consumed as usual, so a dry run needs its own topology, or events that may get lost.
"""

from __future__ import annotations

from consumer.core.model import Outcome, OutcomeKind, SignedRequest
from consumer.core.text.urls import show_url
from consumer.ports import StepReports

DETAIL = "dry: nothing was sent"


class DrySender:
    """Implements :class:`consumer.ports.Sender` without a network."""

    def __init__(self, observe: StepReports) -> None:
        self._observe = observe

    async def send(self, request: SignedRequest) -> Outcome:
        """Log the request, without its body and without secrets."""
        headers = dict(request.headers)
        self._observe.said(
            "webhook.dry",
            event_id=headers.get("webhook-id"),
            url=show_url(request.url),
            timestamp=headers.get("webhook-timestamp"),
            signature=headers.get("webhook-signature"),
            size_bytes=len(request.body),
        )
        return Outcome(kind=OutcomeKind.OK, duration_s=0.0, status=204, detail=DETAIL)

    async def close(self) -> None:
        """Do nothing."""
