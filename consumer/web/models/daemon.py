"""The JSON of the health of everything that delivers, and of the sharing among tenants."""

from __future__ import annotations

from consumer.web.models.base import Out


class Part(Out):
    """Whether store or broker answer."""

    is_up: bool
    detail: str
    """Why it does not; else empty."""


class Activity(Out):
    """The activity of a worker, as `leveret status` shows it; rates cover the time of `interval_s`."""

    interval_s: float
    events_per_s: float
    unmatched_per_s: float
    unmatched: int
    deliveries_per_s: float
    attempts_per_s: float
    success_ratio: float | None
    in_flight: int
    waiting: dict[str, int]
    """Messages by kind of queue."""
    overdue: dict[str, int]
    """Messages that a queue should have given back over 60 s ago, by queue; only queues with some."""
    windows: dict[str, int]
    """Messages received and not yet started, by source."""
    breakers: dict[str, int]
    """Endpoints by the state of their breaker."""
    parked: int
    parked_indexed: int | None
    subscriptions: int
    subscriptions_disabled: int


class Worker(Out):
    """The worker at `listen` of the settings."""

    at: str
    ready: bool
    reasons: list[str]
    """Why it is not ready; otherwise its notes."""
    workers: int | None
    """Live workers, as this one knows them."""
    loop_lag_s: float | None
    """Longest delay of its event loop in the last minute."""
    oldest_delivery_s: float | None
    """Age of the oldest event whose delivery is in flight, or failed within a minute."""
    is_pressed: bool
    """No new attempt starts because the broker is slow or blocked."""
    rerouted_tenants: int
    history_dropped: int
    """Rows of the history that were not recorded since its start."""
    status: Activity


class DaemonStatus(Out):
    """The health of store, broker and worker."""

    status: str
    """ok, or degraded."""
    store: Part
    broker: Part
    worker: Worker | None
    worker_detail: str
    """Why nothing is known of the worker; else empty."""
    parked_gap: int | None
    """Parked messages that the index lacks; if that stays, reindex."""


class TenantShare(Out):
    """One tenant's share of the worker."""

    tenant: str
    subscriptions: int
    parked: int
    waiting: int | None
    """Messages in the worker's hands that wait for their turn."""
    deliveries_per_s: float | None
    share: float | None
    """Part of all deliveries that were started, from 0 to 1; null while none is."""
    in_flight: int | None
    """Deliveries in flight."""
    is_rerouted: bool
    """Its events are rerouted around the lanes."""
    rounds_waited: int | None
    """Rounds since it was last served, or began to wait."""


class Fairness(Out):
    """How evenly the worker is shared."""

    fairness: float | None
    """Jain's index of the last minute, from 0 to 1."""
    fairness_tenants: int | None
    """Tenants that had work throughout the last minute; the index covers them."""
    slots: int | None
    """Requests that all workers may have in flight."""
    slots_used: int | None
    """Requests of this worker in flight."""
    borrowable: int | None
    """Deliveries that one tenant may have in flight while no other waits."""
    rerouted: int | None
    """Tenants whose events are now rerouted around the lanes."""
    in_lanes: int | None
    """Events in the lanes, ready in the broker."""
    in_spill: int | None
    """Events in the spill queues, ready in the broker."""
    worker_detail: str
    """Why nothing is known of the worker; else empty."""
    items: list[TenantShare]
    """Rerouted tenants, then the busiest."""
    tenants: int
    """All tenants of the filter, also those that are not in `items`."""
