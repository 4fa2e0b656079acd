"""The JSON of requests that work on several objects."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from consumer.core.changes.file import TEXT_MAX
from consumer.core.changes.report import Report
from consumer.web.models.base import Out


class In(Out):
    """A request; it has no other fields."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class SubscriptionsFile(In):
    """One subscriptions file."""

    name: Annotated[str, Field(min_length=1, max_length=4_096)]
    """Its name, for the lines that name its faults."""
    text: Annotated[str, Field(max_length=TEXT_MAX)]
    """YAML or JSON."""


class HowIn(In):
    """How a change of several subscriptions is made."""

    dry_run: bool = False
    """Only show the changes, and the deliveries that they would destroy."""
    may_remove: Annotated[list[str], Field(max_length=100_000, default_factory=list)]
    """Ids that may be removed, as a dry run showed them; another removal is refused with 409."""


class ApplyIn(HowIn):
    """Subscriptions files to apply, all or nothing."""

    files: Annotated[list[SubscriptionsFile], Field(min_length=1, max_length=10_000)]
    prune: bool = False
    """Remove the subscriptions that the files do not name."""
    enable: bool = False
    """Enable subscriptions that were disabled by hand, after a 410 or a long failure."""


class RemoveIn(HowIn):
    """Subscriptions to remove, all or nothing."""

    subscriptions: Annotated[list[str], Field(min_length=1, max_length=10_000)]
    """Each as tenant/name, as an id, or as a name that only one tenant uses."""


class FieldChangeOut(Out):
    """One field that differs. Secrets are masked."""

    field: str
    old: Any
    new: Any


class ChangeOut(Out):
    """The change of one subscription."""

    change: Literal["added", "changed", "unchanged", "removed"]
    id: str
    endpoint: str
    tenant: str
    name: str
    url: str
    """URL without its query, which may contain a token."""
    fields: list[FieldChangeOut]
    secret: str | None
    """Its generated secret, shown this once."""
    waiting: int | None
    """Of a removal in a dry run: waiting deliveries, which would be cancelled."""
    parked: int | None
    """Of a removal in a dry run: parked deliveries, which could not be replayed."""


class ChangesOut(Out):
    """The changes of one request."""

    changes: list[ChangeOut]
    warnings: list[str]
    losses: list[str]
    """In a dry run: a line for each removal that would destroy deliveries, and for each doubt."""
    lost: str
    """Their total in words; empty: nothing would be lost."""
    named: int
    """Subscriptions that the files name."""
    dry_run: bool


def changes_out(report: Report, *, dry_run: bool) -> ChangesOut:
    """Return the JSON of a report."""
    rows = [
        ChangeOut.model_validate(
            {
                "change": row.change,
                **row.identity,
                "fields": [field._asdict() for field in row.fields],
                "secret": row.secret,
                "waiting": None if row.owed is None else row.owed["waiting"],
                "parked": None if row.owed is None else row.owed["parked"],
            }
        )
        for row in report.changes
    ]
    return ChangesOut(
        changes=rows,
        warnings=list(report.warnings),
        losses=list(report.losses),
        lost=report.lost,
        named=report.named,
        dry_run=dry_run,
    )


class BreakerRow(Out):
    """An endpoint whose breaker is not closed, that asked for a rest, or that failed for ten minutes."""

    id: str
    endpoint: str
    tenant: str
    name: str
    url: str
    state: str
    since: str | None
    held_until: str | None
    """End of the rest for which the endpoint asked."""
    failing_since: str | None
    reason: str | None


class BreakerRows(Out):
    """Endpoints on hold, by tenant and name."""

    items: list[BreakerRow]


class PauseRow(Out):
    """One pause."""

    scope: Literal["all", "tenant", "subscription"]
    name: str
    """The tenant, or the id of the subscription."""
    subscription: str | None
    """tenant/name."""
    since: str


class PauseIn(In):
    """The scope of a pause."""

    scope: Literal["all", "tenant", "subscription"]
    name: Annotated[str, Field(max_length=512)] = ""
    """The tenant; the subscription as tenant/name or by its id; empty for all."""


class Pauses(Out):
    """The pauses that hold now."""

    items: list[PauseRow]
    changed: bool
    """Whether the request changed one."""


class LiftedPauses(Pauses):
    """The pauses that remain, and the deliveries that are sent now."""

    released: int
    warnings: list[str]
    """Why some waiting deliveries are sent at their own times."""


class WaitingDelivery(Out):
    """One delivery that waits for its next attempt."""

    delivery_id: str
    event_id: str
    subscription_id: str
    tenant: str
    type: str
    not_before: str
    arrived_at: str
    failed_attempts: int
    last_failure_code: str | None
    size_bytes: int


class WaitingDeliveries(Out):
    """Deliveries that wait, were sent, or were cancelled."""

    items: list[WaitingDelivery]
    warnings: list[str]
    """Messages that were not looked at, and why."""
    broken: str | None
    """Why the pass ended early; what `items` has is done."""


class WaitingIn(In):
    """Chooses waiting deliveries."""

    tenant: Annotated[str, Field(max_length=256)] | None = None
    subscription: Annotated[str, Field(max_length=512)] | None = None
    """Its id, or tenant/name."""
    event: Annotated[str, Field(max_length=512)] | None = None
    """Id of the event."""


class KickIn(WaitingIn):
    """Waiting deliveries to send at once."""

    all: bool = False
    """Needed if there is no filter."""
