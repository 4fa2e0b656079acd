"""Define the pages of parked entries: the list, one entry, and the question before a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar

from consumer.core.model import Attempt
from consumer.web.pages.views.parts import Choice, Page, Pager


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedFilter:
    """The fields of the filter form; empty: any."""

    tenant: str = ""
    type: str = ""  #: AMQP topic pattern
    reason: str = ""
    subscription: str = ""  #: id, or ``tenant/name``
    since: str = ""  #: a duration such as ``2h``, or RFC 3339
    until: str = ""

    @property
    def query(self) -> Mapping[str, str]:
        """Return the fields that are not empty."""
        return {name: value for name, value in asdict(self).items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedLine:
    """One parked entry in a table."""

    id: str
    parked_at: float
    expires_at: float
    tenant: str
    type: str
    subscription_id: str  #: empty for a message that never became an event
    subscription: str  #: ``tenant/name``; empty if the subscription is gone
    reason: str
    detail: str
    code: str  #: of the last failure; empty if there was none
    attempts: int
    replays: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Entries that share the value of one field."""

    label: str
    count: int
    oldest: float
    href: str  #: the same page, filtered by this value


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTab:
    """One way to group the entries."""

    key: str  #: reason | subscription | type
    label: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedPage(Page):
    """The page at ``/parked``."""

    template: ClassVar[str] = "parked.html"
    section: ClassVar[str] = "parked"
    lines: Sequence[ParkedLine] = ()
    total: int = 0  #: entries that fit the filter
    chosen: ParkedFilter = field(default_factory=ParkedFilter)
    filter_error: str = ""  #: why a field of the filter is refused
    reasons: Sequence[Choice] = ()
    tabs: Sequence[GroupTab] = ()
    tab: str = "reason"  #: the key of the chosen tab
    groups: Sequence[Group] = ()  #: the largest first
    pager: Pager = field(default_factory=Pager)
    index_gap: int = 0  #: messages in the queue that the index does not have

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return f"Parked: {self.total:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPage(Page):
    """The page at ``/parked/{id}``."""

    template: ClassVar[str] = "entry.html"
    section: ClassVar[str] = "parked"
    line: ParkedLine
    event_id: str = ""
    delivery_id: str = ""
    arrived_at: float | None = None
    payload: bytes | None = None  #: exactly as published; None: the entry is no longer in the queue
    payload_note: str = ""  #: why there is no payload, or that it is cut
    size_bytes: int = 0  #: of the whole payload
    content_type: str = ""
    headers: Sequence[tuple[str, str]] = ()
    attempts: Sequence[Attempt] = ()  #: over all replays, oldest first
    forgotten_attempts: int = 0  #: made, and no longer remembered
    can_resend: bool = True
    why_not: str = ""  #: why it cannot be sent again

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return self.line.id


@dataclass(frozen=True, slots=True, kw_only=True)
class DryCount:
    """Entries that a replay would send, or would leave parked."""

    label: str  #: a subscription, or the reason why they stay
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendPage(Page):
    """The page at ``/parked/resend``: the result of a dry run, and the form that starts the job."""

    template: ClassVar[str] = "resend.html"
    section: ClassVar[str] = "parked"
    chosen: ParkedFilter = field(default_factory=ParkedFilter)
    total: int = 0
    sends: Sequence[DryCount] = ()  #: by subscription
    stays: Sequence[DryCount] = ()  #: by reason
    rate_per_s: float | None = 20.0  #: proposed; None: as fast as the broker confirms
    error: str = ""  #: why the form is refused

    @property
    def sending(self) -> int:
        """Return the number of entries that would be sent."""
        return sum(each.count for each in self.sends)

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return f"Resend {self.sending:,}"
