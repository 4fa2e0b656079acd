"""The JSON of parked entries and of replay jobs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from consumer.edges.operate.parked.jobs import RATE_LEAST, RATE_MOST
from consumer.web.models.base import Out


class ParkedAttempt(Out):
    """One attempt of a parked delivery."""

    replay: int
    """How often the delivery had been replayed before it."""
    number: int
    """1-based since that replay."""
    at: str
    kind: str
    """Such as `ok`, `http_5xx`, `timeout_total`, `dns`."""
    status: int | None
    duration_s: float
    wait_s: float | None
    """The wait that followed; null if no retry followed."""


class ParkedEntry(Out):
    """One parked entry, as `leveret parked list --json` prints it."""

    id: str
    reason: str
    detail: str
    parked_at: str
    ttl_s: float
    """Seconds for which the parked queue keeps it."""
    size_bytes: int | None = None
    delivery_id: str | None = None
    event_id: str | None
    subscription_id: str | None
    """Null for a message that never became an event."""
    tenant: str | None
    type: str | None
    exchange: str | None = None
    routing_key: str | None = None
    content_type: str | None = None
    arrived_at: str | None = None
    replays: int = 0
    replayed_at: str | None = None
    failed_attempts: int
    """Over all replays."""
    last_failure_code: str | None
    """HTTP status, or a kind such as `dns`."""
    last_failure_at: str | None = None
    attempts: Annotated[list[ParkedAttempt], Field(default_factory=list)]
    """Over all replays, oldest first; in a list the newest 20 of them."""


class ParkedPage(Out):
    """Some parked entries, newest first."""

    items: list[ParkedEntry]
    next: str | None
    """Cursor of the next page; null on the last one."""
    total: int
    """Entries that pass the filter."""


class ParkedHeader(Out):
    """One header of the producer's message."""

    name: str
    value: str


class ParkedPayload(ParkedEntry):
    """One parked entry with its exact payload."""

    data: str | None
    """The payload if it is UTF-8 text, else null."""
    data_base64: str | None
    """The payload in base64 if it is not UTF-8 text, else null."""
    headers: list[ParkedHeader]
    """Headers of a message that never became an event; a delivery keeps only those that it needs."""


class ParkedGroup(Out):
    """Entries that share the values of some fields."""

    values: dict[str, str | None]
    """By the fields of `by`."""
    count: int
    oldest: str
    newest: str


class ParkedGroups(Out):
    """Parked entries, counted by some fields."""

    items: list[ParkedGroup]
    """The largest first."""
    groups: int
    """All groups, also those that are not in `items`."""


class ParkedStats(Out):
    """Counts of parked entries."""

    entries: int
    oldest: str | None
    newest: str | None
    tenants: int
    subscriptions: int
    by_reason: dict[str, int]
    by_status: dict[str, int]
    in_queue: int | None
    """Messages in the queue; null for a token with a tenant, and while it is unknown."""
    gap: int | None
    """Messages in the queue that the index lacks; if it stays, reindex."""


class DryRunOut(Out):
    """How many entries a replay would send, by the index."""

    total: int
    sends: list[ParkedGroup]
    """By tenant, subscription and reason, the largest first."""
    stays: dict[str, int]
    """Entries that would stay parked, by the reason."""


class ParkedFilterIn(Out):
    """Chooses parked entries; an absent field sets no condition."""

    ids: Annotated[list[str], Field(min_length=1, max_length=1_000)] | None = None
    tenant: str | None = None
    subscription: str | None = None
    """Its id, or tenant/name."""
    type: str | None = None
    """AMQP topic pattern on the event type, such as `order.*`."""
    reason: str | None = None
    since: str | None = None
    """Only entries parked since: RFC 3339, or a duration such as 2h."""
    until: str | None = None
    """Only entries parked before: RFC 3339, or a duration such as 2h."""


class ReplayIn(ParkedFilterIn):
    """A replay job."""

    rate_per_s: Annotated[float, Field(ge=RATE_LEAST, le=RATE_MOST)] | None = None
    """Entries a second; absent: as fast as the broker confirms."""
    to: str | None = None
    """Id, tenant/name or URL of the subscription that gets the deliveries; absent: their own."""


class PurgeIn(ParkedFilterIn):
    """A purge."""

    confirm: bool = False
    """Without it, nothing is purged: 409 counts the entries."""
    show: bool = False
    """Return the purged entries, without their payloads."""


class PurgedOut(Out):
    """The result of a purge."""

    purged: int
    """Entries that were archived and left the queue."""
    archive: str | None
    """Folder of the archive, on the machine of the API; null for a token with a tenant."""
    items: list[ParkedEntry] | None
    """The purged entries, if `show` is set."""


class Reindexed(Out):
    """The result of a rebuild of the index."""

    entries: int
    added: int
    removed: int
    repeated_messages: int
    """Further messages of the same entries."""
    unreadable_messages: int


class Job(Out):
    """One replay job."""

    id: str
    state: str
    """running, paused, cancelled, done or unreadable."""
    origin: str
    """operator, automatic or schedule."""
    filter: dict[str, Any]
    rate_per_s: float | None
    to: str | None
    total: int | None
    """Entries for which it was made, by the index; null: not counted."""
    replayed: int
    """Entries that have left the parked queue."""
    refused: int
    """Entries that stay parked, as of its last complete pass."""
    detail: str | None
    """Why the last entry was refused, or the reason for its wait."""
    created_at: str
    updated_at: str
    worker: str | None
