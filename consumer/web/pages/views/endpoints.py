"""Define the table of endpoints, and the page of one endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from consumer.core.history.records import HistoryRow
from consumer.web.pages.views.parts import EndpointLine, Page, Pager, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFilter:
    """The fields of the filter form; empty: any."""

    q: str = ""  #: a part of name or URL
    tenant: str = ""
    state: str = ""  #: a :class:`consumer.web.pages.views.parts.State`, or ``failing``


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsPage(Page):
    """The page at ``/endpoints``."""

    template: ClassVar[str] = "endpoints.html"
    section: ClassVar[str] = "endpoints"
    sums_attempts: ClassVar[bool] = True
    lines: Sequence[EndpointLine] = ()  #: sorted by trouble, see :func:`consumer.web.pages.words.by_trouble`
    total: int = 0  #: endpoints that fit the filter
    chosen: EndpointFilter = field(default_factory=EndpointFilter)
    pager: Pager = field(default_factory=Pager)

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return "Endpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorKind:
    """How often attempts failed in one way within the last hour."""

    code: str  #: a status such as ``503``, or a kind such as ``timeout_total``
    count: int
    last_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One field of the form for thresholds and cooldown."""

    name: str  #: of the form field, such as ``failures``
    label: str
    unit: str
    hint: str
    value: float | None  #: None: the default holds
    default: float
    sent: str = ""  #: the value that was sent and refused; empty: show *value*
    error: str = ""  #: why the value that was sent is refused


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPage(Page):
    """The page at ``/endpoints/{subscription_id}``."""

    template: ClassVar[str] = "endpoint.html"
    section: ClassVar[str] = "endpoints"
    sums_attempts: ClassVar[bool] = True
    line: EndpointLine
    events: Sequence[str] = ()  #: its AMQP topic patterns
    latency: Series = field(default_factory=Series)  #: p95 in seconds, last hour
    attempts_hour: int = 0
    failures_in_row: int = 0
    in_flight: int | None = None
    errors: Sequence[ErrorKind] = ()  #: the most frequent first
    attempts: Sequence[HistoryRow] = ()  #: newest first, steps ``attempt`` only
    thresholds: Sequence[Threshold] = ()
    version: str = ""  #: ETag of the subscription; the form for thresholds sends it back
    older: str = ""  #: link to older attempts; empty if there are none
    history_is_off: bool = False  #: the settings keep no history

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return self.line.full_name
