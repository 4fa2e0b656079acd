"""Remember which subscriptions had trouble lately, and judge them once in 15 s.

Data flow: failures, holds, parked entries -> :class:`TroubleBook`; with the state of each endpoint
(:class:`EndpointNow`) -> :meth:`TroubleBook.judged` -> trouble by subscription id.

A delivery that succeeds is not noted here: its endpoint counts it, and the book compares those counts. So
healthy subscriptions cost nothing, however many they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import nlargest, nsmallest
from typing import Final, NamedTuple

from consumer.core.endpoint.trouble import RecentCauses, Signs, Trouble, judge
from consumer.core.endpoint.waiting_times import WaitingTimes, slice_end

TRACKED_MAX: Final = 1_000  #: subscriptions that failed or were held lately and are remembered
MADE_ROOM: Final = 100  #: of them, those in least trouble are forgotten where there is no room left
LISTED_MAX: Final = 100  #: disabled subscriptions, and those with parked entries, that are judged
LEAST_WAIT_S: Final = 2.0  #: a delivery that may be sent sooner is in hand, or in a due queue


class EndpointNow(NamedTuple):
    """The state of one subscription's endpoint, as one worker knows it."""

    tenant: str
    name: str
    successes: int = 0  #: attempts since this worker met the endpoint
    failures: int = 0
    p95_s: float = 0.0  #: of the recent attempts; 0 before the first
    slow_ratio: float = 0.0  #: of the recent attempts
    state: str = "closed"  #: of the breaker: closed | open | probing
    is_enabled: bool = True  #: whether it gets requests; without them an open breaker is no trouble


class _Track:
    """The memory of one subscription."""

    __slots__ = ("leaving", "recent", "waits")

    def __init__(self) -> None:
        self.recent = RecentCauses()
        self.waits = WaitingTimes()
        self.leaving = WaitingTimes()  #: waiting as well; an operator is kicking some or all of them

    def waiting(self, now: float) -> int:
        """Return how many deliveries wait at *now* (Unix seconds)."""
        return self.waits.count(now) + self.leaving.count(now)


class TroubleBook:
    """The trouble of all subscriptions; each is known by its id."""

    def __init__(self) -> None:
        self._tracks: dict[str, _Track] = {}
        self._new: dict[str, None] = {}  #: tracked, without a count of successes to compare with
        self._waits = WaitingTimes()  #: of all subscriptions
        self._parked: Mapping[str, int] = {}
        self._disabled: dict[str, None] = {}  #: the latest come last
        self._weights: Mapping[str, float] = {}  #: as last judged
        self._now = 0.0  #: Unix seconds, as last given

    # what happens

    def failed(self, subscription: str, cause: str) -> None:
        """Count a failed attempt, see :func:`consumer.core.endpoint.trouble.failure_cause`."""
        track = self._tracks.get(subscription) or self._track(subscription)
        track.recent.failed(cause)

    def held(self, subscription: str, reason: str) -> None:
        """Count a delivery that was held, see :func:`consumer.core.endpoint.trouble.hold_cause`."""
        track = self._tracks.get(subscription) or self._track(subscription)
        track.recent.held(reason)

    def waits(self, subscription: str, until: float, arrived_at: float) -> None:
        """Count a delivery that waits *until* then; its event came at *arrived_at*. Both are Unix seconds."""
        if until - self._now < LEAST_WAIT_S:
            return
        end = slice_end(until, self._now)
        self._waits.add(end, arrived_at)
        track = self._tracks.get(subscription)
        if track is not None:
            track.waits.add(end, arrived_at)

    def freed(self, subscription: str) -> None:
        """Count the deliveries of a subscription as waiting no longer: its breaker closed."""
        track = self._tracks.get(subscription)
        if track is not None:
            self._end(track.waits)
            self._end(track.leaving)

    def leaves(self, subscription: str) -> None:
        """Take that an operator begins to kick the deliveries of a subscription that wait now."""
        track = self._tracks.get(subscription)
        if track is not None:
            track.waits.move(track.leaving)

    def left(self, subscription: str, deliveries: int, *, all_left: bool) -> None:
        """Count deliveries that an operator kicked or cancelled as waiting no longer.

        Args:
            subscription: Its id.
            deliveries: How many of them were this worker's, about.
            all_left: Whether those of :meth:`leaves` all left; those that wait since then stay.
        """
        track = self._tracks.get(subscription)
        if track is None:
            return
        if all_left:
            self._end(track.leaving)
            return
        track.leaving.move(track.waits)
        self._waits.subtract(track.waits.take(deliveries))

    def _end(self, times: WaitingTimes) -> None:
        """Count the deliveries in *times* as waiting no longer, neither there nor in all."""
        self._waits.subtract(times)
        times.clear()

    def parked(self, sizes: Mapping[str, int]) -> None:
        """Take how many entries are parked now, by subscription."""
        self._parked = sizes

    def disabled(self, subscriptions: Iterable[str]) -> None:
        """Take all subscriptions that Leveret disabled itself."""
        now = dict.fromkeys(subscriptions)
        kept = {each: None for each in self._disabled if each in now}
        self._disabled = {**kept, **now}

    def disable(self, subscription: str) -> None:
        """Take a subscription that Leveret disables now."""
        self._disabled[subscription] = None

    # answers

    @property
    def disabled_count(self) -> int:
        """How many subscriptions Leveret disabled itself."""
        return len(self._disabled)

    def parked_of(self, subscription: str) -> int:
        """Return how many entries of a subscription are parked."""
        return self._parked.get(subscription, 0)

    def most_parked(self, without: Collection[str]) -> int:
        """Return the most parked entries of any one subscription that is not in *without*."""
        return max((size for each, size in self._parked.items() if each not in without), default=0)

    def waiting_of(self, subscription: str, now: float) -> int:
        """Return how many deliveries of a subscription wait at *now* (Unix seconds)."""
        track = self._tracks.get(subscription)
        return 0 if track is None else track.waiting(now)

    def waiting(self, now: float) -> int:
        """Return how many deliveries wait at *now* (Unix seconds)."""
        return self._waits.count(now)

    def oldest_waiting_at(self, now: float) -> float | None:
        """Return when the oldest event of a waiting delivery arrived (Unix seconds); None: none waits."""
        return self._waits.oldest_at(now)

    def newcomers(self) -> Collection[str]:
        """Return the subscriptions to call :meth:`begin` for."""
        return self._new

    def begin(self, endpoints: Mapping[str, EndpointNow], now: float) -> Collection[str]:
        """Note the successes of the newcomers so far; return who they were."""
        self._now = now
        new, self._new = self._new, {}
        for each in new:
            endpoint, track = endpoints.get(each), self._tracks.get(each)
            if endpoint is not None and track is not None:
                track.recent.turn(endpoint.successes)
        return new

    def suspects(self) -> Collection[str]:
        """Return the subscriptions that may be in trouble."""
        listed = dict.fromkeys(list(self._disabled)[-LISTED_MAX:])
        listed |= dict.fromkeys(nlargest(LISTED_MAX, self._parked, key=self._parked.__getitem__))
        return {**dict.fromkeys(self._tracks), **listed}

    def judged(
        self, endpoints: Mapping[str, EndpointNow], now: float, new: Collection[str] = ()
    ) -> dict[str, Trouble]:
        """Return the trouble of each subscription that is in some, and begin the next slice of time.

        Args:
            endpoints: Of the suspects and of others that may be in trouble; one without is forgotten.
            now: Unix seconds.
            new: Subscriptions of which too little is known yet; they are not judged.
        """
        found: dict[str, Trouble] = {}
        for each, endpoint in endpoints.items():
            trouble = None if each in new else judge(self._signs(each, endpoint, now))
            if trouble is not None:
                found[each] = trouble
        for each, track in list(self._tracks.items()):
            known = endpoints.get(each)
            if known is None or (each not in found and each not in new and not track.waiting(now)):
                del self._tracks[each]
            elif each not in new:
                track.recent.turn(known.successes)
        self._weights = {each: trouble.weight for each, trouble in found.items()}
        return found

    def _signs(self, subscription: str, endpoint: EndpointNow, now: float) -> Signs:
        track = self._tracks.get(subscription) or _Track()
        recent, is_disabled = track.recent, subscription in self._disabled
        if not (endpoint.is_enabled or is_disabled):
            return Signs(delivered=recent.delivered(endpoint.successes), parked=self.parked_of(subscription))
        return Signs(
            counts=recent.counts(),
            delivered=recent.delivered(endpoint.successes),
            last=recent.last,
            is_closed=endpoint.state == "closed",
            waiting=track.waiting(now),
            slow_ratio=endpoint.slow_ratio,
            parked=self.parked_of(subscription),
            is_disabled=is_disabled,
        )

    def _track(self, subscription: str) -> _Track:
        """Begin to remember a subscription; where there is no room, forget some in least trouble."""
        tracks = self._tracks
        if len(tracks) >= TRACKED_MAX:
            weights = self._weights
            for light in nsmallest(MADE_ROOM, tracks, key=lambda each: weights.get(each, 0.0)):
                del tracks[light]
                self._new.pop(light, None)
        self._new[subscription] = None
        track = tracks[subscription] = _Track()
        return track
