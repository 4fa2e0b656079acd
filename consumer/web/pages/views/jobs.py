"""Define the pages of replay jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from consumer.web.pages.views.parts import Page, Pager


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """One replay job."""

    id: str
    state: str  #: a :class:`consumer.core.message.jobs.JobState`
    origin: str  #: operator | automatic | schedule
    filter: str  #: in words, such as ``tenant acme, reason exhausted``; empty: all entries
    created: float
    updated: float
    replayed: int = 0
    refused: int = 0
    total: int | None = None  #: entries that it was made for; None: unknown
    rate_per_s: float | None = None
    to: str = ""  #: the subscription that gets the deliveries instead of their own
    detail: str = ""  #: why the last entry was refused, or the thing that the job waits for
    worker: str = ""

    @property
    def done_ratio(self) -> float | None:
        """Return the share that is worked off; None if it is unknown."""
        if not self.total:
            return 1.0 if self.state == "done" else None
        return min(1.0, (self.replayed + self.refused) / self.total)

    @property
    def left_s(self) -> float | None:
        """Return the seconds that a running job takes at its rate; None if they are unknown."""
        if self.state != "running" or self.total is None or not self.rate_per_s:
            return None
        return max(0.0, (self.total - self.replayed - self.refused) / self.rate_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsPage(Page):
    """The page at ``/jobs``."""

    template: ClassVar[str] = "jobs.html"
    section: ClassVar[str] = "jobs"
    lines: Sequence[JobLine] = ()  #: newest first
    pager: Pager = field(default_factory=Pager)

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return "Jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage(Page):
    """The page at ``/jobs/{id}``."""

    template: ClassVar[str] = "job.html"
    section: ClassVar[str] = "jobs"
    line: JobLine

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return f"{self.line.id} {self.line.state}"
