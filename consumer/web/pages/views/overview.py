"""Define the overview: everything that is wrong now, then the last hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from consumer.web.pages.views.parts import EndpointLine, Page, Series, Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerouted:
    """A tenant whose events go by a spill queue."""

    tenant: str
    since: float
    reason: str = ""
    waiting: int = 0  #: its messages in the spill queue


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedCounts:
    """The parked queue."""

    count: int = 0
    added_hour: int = 0  #: entries that were parked within the last hour
    left_hour: int = 0  #: entries that were replayed, purged or expired within the last hour
    top_reason: str = ""  #: the most frequent reason among the added ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """Back-pressure: workers start nothing new."""

    since: float | None = None
    reason: str = ""  #: such as ``the broker blocks publishers: memory``


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """The last hour, and its latest numbers."""

    success: Series = field(default_factory=Series)  #: ratios
    latency: Series = field(default_factory=Series)  #: p95 in seconds
    deliveries: Series = field(default_factory=Series)  #: per second
    parked: Series = field(default_factory=Series)  #: entries in the queue
    success_ratio: float | None = None
    p95_s: float | None = None
    deliveries_per_s: float | None = None
    waiting: int | None = None  #: deliveries on the ladder
    oldest_due_s: float | None = None  #: age of the oldest delivery that is due and not yet sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing that is wrong now."""

    tone: Tone
    headline: str  #: a sentence with the number
    detail: str = ""
    href: str = ""
    action: str = ""  #: text of the link
    answer: bytes = b""  #: the endpoint's own answer, as received


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewPage(Page):
    """The page at ``/``."""

    template: ClassVar[str] = "overview.html"
    section: ClassVar[str] = "overview"
    sums_attempts: ClassVar[bool] = True
    troubles: Sequence[Trouble] = ()  #: most serious first, see :mod:`consumer.web.pages.troubles`
    hour: Hour = field(default_factory=Hour)
    worst: Sequence[EndpointLine] = ()  #: at most ten endpoints that are not well, worst first
    endpoints: int = 0  #: all endpoints
    parked: ParkedCounts = field(default_factory=ParkedCounts)
    workers: int | None = 0  #: live workers; None: unknown

    @property
    def title(self) -> str:
        """Return the title of the window, so that a tab in the background shows the trouble."""
        return self.headline

    @property
    def headline(self) -> str:
        """Return the state of everything in one sentence."""
        serious = sum(each.tone is Tone.BAD for each in self.troubles)
        if serious:
            wrong = "1 thing is wrong" if serious == 1 else f"{serious} things are wrong"
            others = len(self.troubles) - serious
            return f"{wrong}, {others} more to look at" if others else wrong
        if self.troubles:
            return "Nothing is broken, and something needs a look"
        return "All is well"

    @property
    def tone(self) -> Tone:
        """Return the tone of the headline."""
        return self.troubles[0].tone if self.troubles else Tone.GOOD
