"""Define the timeline of one event, and the result of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from consumer.core.history.trace import EventTrace
from consumer.web.pages.views.parts import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage(Page):
    """The page at ``/events/{event_id}``; in the customer's view at ``/my/events/{event_id}``."""

    template: ClassVar[str] = "event.html"
    trace: EventTrace
    other_tenants: Sequence[str] = ()  #: tenants that have an event with the same id

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return self.trace.key.event_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One result of a search."""

    kind: str  #: event | endpoint | parked entry | job | tenant
    label: str
    detail: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage(Page):
    """The page at ``/search``; a route leads a search with one result to that result itself."""

    template: ClassVar[str] = "search.html"
    found: Sequence[Found] = ()

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return f"Search: {self.shell.search}"
