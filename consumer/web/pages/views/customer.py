"""Define the customer's view: the endpoints, attempts and secrets of one tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from consumer.core.history.records import HistoryRow
from consumer.web.pages.views.parked import ParkedLine
from consumer.web.pages.views.parts import EndpointLine, Page, Pager


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerPage(Page):
    """The page at ``/my``."""

    template: ClassVar[str] = "customer.html"
    section: ClassVar[str] = "own"
    sums_attempts: ClassVar[bool] = True
    lines: Sequence[EndpointLine] = ()  #: sorted by trouble
    delivered_day: int = 0  #: webhooks that were delivered within the last 24 hours
    success_ratio: float | None = None  #: of the last 24 hours
    parked: int = 0
    pager: Pager = field(default_factory=Pager)

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return f"Webhooks of {self.shell.tenant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretLine:
    """One secret, without its content."""

    hint: str  #: its last four characters
    kind: str  #: v1 | v1a
    created: float | None = None
    expires: float | None = None  #: end of its grace; None: it stays


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerEndpointPage(Page):
    """The page at ``/my/endpoints/{subscription_id}``."""

    template: ClassVar[str] = "customer_endpoint.html"
    section: ClassVar[str] = "own"
    sums_attempts: ClassVar[bool] = True
    line: EndpointLine
    events: Sequence[str] = ()  #: its AMQP topic patterns
    attempts: Sequence[HistoryRow] = ()  #: newest first
    older: str = ""  #: link to older attempts; empty if there are none
    secrets: Sequence[SecretLine] = ()  #: newest first
    new_secret: str = ""  #: the secret that was made just now; shown this once
    parked: Sequence[ParkedLine] = ()  #: the newest ones

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return self.line.name
