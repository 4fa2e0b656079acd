"""Define the parts that several pages share: the frame, series of numbers, states of endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar


class Tone(StrEnum):
    """How serious something is; each tone has a colour and a shape."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    REST = "rest"  #: it waits, as somebody wanted it
    LIVE = "live"  #: it is in progress
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flash:
    """The result of the form that was sent last, in one sentence."""

    text: str
    tone: Tone = Tone.GOOD


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """The frame around a page."""

    now: float
    csrf: str = ""  #: hidden field of every form
    user: str = ""  #: name of the token; empty: nobody is logged in
    scope: str = "read"  #: read | operate | admin
    tenant: str = ""  #: of a token that is bound to one; such a user sees the customer's view only
    flash: Flash | None = None
    refresh_s: int | None = None  #: the page reloads itself this often; None: never
    search: str = ""  #: content of the search field
    is_summing: bool = False  #: the history is still being summed up, so that its sums are too small

    @property
    def may_operate(self) -> bool:
        """Return whether the user may change the state of endpoints, parked entries and jobs."""
        return self.scope in ("operate", "admin")

    @property
    def may_admin(self) -> bool:
        """Return whether the user may change tokens."""
        return self.scope == "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Each page: its frame, and the template that draws it."""

    template: ClassVar[str]
    section: ClassVar[str] = ""  #: the entry of the navigation that is marked
    sums_attempts: ClassVar[bool] = False  #: whether each such page shows sums of the history
    shell: Shell

    @property
    def has_sums(self) -> bool:
        """Return whether it shows sums of the history now."""
        return self.sums_attempts

    @property
    def title(self) -> str:
        """Return the title of the window."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Numbers at equal distances in time, oldest first; None where nothing was measured."""

    values: Sequence[float | None] = ()
    low: float | None = None  #: lower end of the scale; None: the least value
    high: float | None = None  #: upper end of the scale; None: the largest value


class State(StrEnum):
    """The state of an endpoint."""

    WELL = "well"
    DEGRADED = "degraded"  #: its breaker is closed, and too many attempts fail
    OPEN = "open"
    PROBING = "probing"
    FORCED = "forced"  #: an operator opened the breaker
    RESTING = "resting"  #: it asked for a rest, such as by ``Retry-After``
    PAUSED = "paused"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The state of an endpoint, and the reason."""

    state: State
    since: float | None = None
    until: float | None = None  #: open: the next probe; resting: its end
    reason: str = ""  #: of a state that an operator or the endpoint caused


@dataclass(frozen=True, slots=True, kw_only=True)
class LastError:
    """The last failed attempt of an endpoint."""

    at: float
    code: str  #: a status such as ``503``, or a kind such as ``timeout_total``
    detail: str = ""
    answer: bytes = b""  #: start of the response body, as received
    answer_type: str = ""  #: content type of the response


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointLine:
    """One endpoint in a table. Success and latency are those of the last hour."""

    subscription_id: str
    tenant: str
    name: str
    url: str
    condition: Condition
    success_ratio: float | None = None
    p95_s: float | None = None
    waiting: int = 0
    parked: int = 0
    last_error: LastError | None = None
    success: Series = field(default_factory=Series)  #: ratios

    @property
    def full_name(self) -> str:
        """Return ``tenant/name``."""
        return f"{self.tenant}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pager:
    """Links to the pages around this one; empty where there is none."""

    previous: str = ""
    next: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One option of a select field."""

    value: str
    label: str
