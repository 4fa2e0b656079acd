"""Compute the windows of a worker from the settings: prefetch per queue, and a bound on all bytes in hand.

One lane's window alone can fill the worker. Due, replay and spill queues have their own windows, so that a
backlog of one kind takes no room of another. All windows together fit into the part of the memory that is for
bodies: a window of larger messages takes fewer.
"""

from __future__ import annotations

from consumer.edges.broker.consume.byte_budget import ByteBudget
from consumer.edges.broker.consume.windows import Window
from consumer.ports import Source
from consumer.settings import Settings
from topology.plan import inbox_queues, lane_queues

SINGLE_WINDOW = 1  #: suspect, overflow and expired are handled one message at a time
BODIES_SHARE = 0.5
"""Share of the memory for messages in hand; the rest is for requests, publishes and values made from them."""


def budget(settings: Settings) -> ByteBudget:
    """Return the bound on the bytes in hand; a message that may inflate is charged as inflated."""
    return ByteBudget(
        int(settings.limits.memory_bytes * BODIES_SHARE), inflated_bytes=settings.events.max_event_bytes
    )


def windows(settings: Settings) -> tuple[Window, ...]:
    """Return every window of a worker."""
    spec, w = settings.topology_spec(), settings.windows
    names = spec.names
    inboxes = inbox_queues(spec)
    spills = tuple(map(names.spill, range(spec.spill_queues)))
    dues = tuple(map(names.due_queue, range(spec.due_queues)))
    found: list[tuple[Source, tuple[str, ...], int | None]] = [
        (Source.LANE, lane_queues(spec), w.lane_prefetch),
        (Source.DUE, dues, settings.due_window()),
        (Source.REPLAY, (names.replay,), w.replay_prefetch),
        (Source.STRAY, (names.stray,), settings.due_window()),
        (Source.SUSPECT, (names.suspect,), SINGLE_WINDOW),
        (Source.OVERFLOW, (names.overflow,), SINGLE_WINDOW),
        (Source.EXPIRED, (names.expired,), SINGLE_WINDOW),
        (Source.SPILL, spills, w.spill_prefetch),
        (Source.INBOX, inboxes, w.lane_prefetch),
    ]
    found = [window for window in found if window[1]]
    room_bytes = budget(settings).limit_bytes / sum(len(queues) for _, queues, _ in found)
    return tuple(
        Window(
            source=source,
            queues=queues,
            prefetch=settings.window(prefetch),
            counted=spec.queue_type == "quorum",
            room_bytes=None if prefetch == SINGLE_WINDOW else room_bytes,
        )
        for source, queues, prefetch in found
    )


def lane_window(settings: Settings) -> int:
    """Return how many messages of one lane are in hand, at most."""
    return settings.window(settings.windows.lane_prefetch)
