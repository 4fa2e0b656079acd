"""How many messages of which queues are taken at once: settings -> windows.

One lane's window alone can fill the worker; all of them, full of the largest events, stay within the memory
limit. Due, replay and spill have windows of their own, so that no backlog takes room of another kind.
"""

from __future__ import annotations

from consumer.edges.broker.windows import Window
from consumer.flow.intake import Source
from consumer.flow.observe import Observer
from consumer.settings import Settings
from topology.plan import TopologySpec, inbox_queues, lane_queues

MIN_WINDOW = 16  #: messages; a window is never lowered below this
SINGLE_WINDOW = 1  #: suspect, overflow and expired are worked off one message at a time


def windows(settings: Settings, observe: Observer) -> tuple[Window, ...]:
    """Return every window of a worker; says where one is lowered."""
    spec, w = settings.topology_spec(), settings.windows
    names, room = spec.names, _room(settings, spec)

    def window(source: Source, queues: tuple[str, ...], prefetch: int | None) -> Window:
        wanted = settings.window(prefetch)
        if wanted > room:
            observe.warned("window.lowered", source=source.value, wanted=wanted, prefetch=room)
        counted = spec.queue_type == "quorum"
        return Window(source=source, queues=queues, prefetch=min(wanted, room), counted=counted)

    inboxes = inbox_queues(spec)
    found = [
        window(Source.LANE, lane_queues(spec), w.lane_prefetch),
        window(Source.DUE, tuple(map(names.due_queue, range(spec.due_queues))), settings.due_window()),
        window(Source.REPLAY, (names.replay,), w.replay_prefetch),
        window(Source.STRAY, (names.stray,), settings.due_window()),
        window(Source.SUSPECT, (names.suspect,), SINGLE_WINDOW),
        window(Source.OVERFLOW, (names.overflow,), SINGLE_WINDOW),
        window(Source.EXPIRED, (names.expired,), SINGLE_WINDOW),
    ]
    if spec.spill_queues:
        spills = tuple(map(names.spill, range(spec.spill_queues)))
        found.append(window(Source.SPILL, spills, w.spill_prefetch))
    if inboxes:
        found.append(window(Source.INBOX, inboxes, w.lane_prefetch))
    return tuple(found)


def lane_window(settings: Settings) -> int:
    """Return how many messages of one lane are in hand at most."""
    return min(settings.window(settings.windows.lane_prefetch), _room(settings, settings.topology_spec()))


def _room(settings: Settings, spec: TopologySpec) -> int:
    """Return the largest window with which all of them, full of the largest events, fit into the memory."""
    fresh = len(lane_queues(spec)) + len(inbox_queues(spec))
    queues = fresh + spec.due_queues + spec.spill_queues + 2
    return max(MIN_WINDOW, settings.limits.memory_bytes // (settings.events.max_event_bytes * queues))
