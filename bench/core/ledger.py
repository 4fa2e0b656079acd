"""The ledger: every (event, subscription) pair must end as delivered, parked or, after a 410, unmatched.

Six subscriptions of one tenant see the same events: a healthy one, a flaky one, a slow one, two dead ones
(breaker off and on) and one that is gone after its 100th request. The receiver's log lists its
requests, and ``parked list`` the parked deliveries; the expected attempts of each pair are computed.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink, flaky_attempts
from consumer.core.subscription.subscription import subscription_id
from tests.support.broker.load import EventSpec, make_events, publish
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

EVENTS = 2_000
SHARE = 0.3
GONE_AFTER = 100
MAX_ATTEMPTS = 5
MAX_AGE_S = 30
PER_SECOND = 250  #: events published per second
END_S = 240.0  #: from the last publish until every pair has to be accounted for

NAMES = ("healthy", "flaky", "slow", "dead", "dead_breaker", "gone")
PARK_REASON = {"flaky": "exhausted", "dead": "exhausted", "dead_breaker": "expired", "gone": "disabled"}

GOALS = (
    Goal(name="ledger_unaccounted", text="0", unit="pairs", n=EVENTS),
    Goal(name="ledger_wrong_attempts", text="0", unit="pairs", n=EVENTS),
    Goal(name="ledger_bad_signatures", text="0", unit="requests", n=EVENTS),
    Goal(name="dead_breaker_requests", text="≤ 30", unit="requests", n=EVENTS),
)


@dataclass(frozen=True, slots=True)
class Parked:
    """The pair, the reason and the attempts of a parked entry."""

    reason: str
    attempts: int


@dataclass(slots=True)
class Books:
    """Everything that was seen, by (event id, subscription name)."""

    requests: Mapping[tuple[str, str], list[Seen]]
    parked: Mapping[tuple[str, str], list[Parked]]
    gone_at: float  #: Unix seconds when the first 410 was answered; infinity when none was
    gone_disabled: bool  #: the subscription list shows it disabled

    def delivered(self, event_id: str, name: str) -> bool:
        """Return whether an endpoint took the event."""
        return any(200 <= seen.status < 300 for seen in self.requests.get((event_id, name), ()))

    def ended(self, event_id: str, name: str) -> bool:
        """Return whether the pair is accounted for, exactly once and for the expected reason."""
        entries = self.parked.get((event_id, name), [])
        if self.delivered(event_id, name):
            return not entries
        if entries:
            return len(entries) == 1 and entries[0].reason == PARK_REASON.get(name)
        return name == "gone" and self.unmatched(event_id)

    def unmatched(self, event_id: str) -> bool:
        """Return whether a pair of the gone endpoint may be unmatched.

        Its event must have been taken after the 410: then its healthy sibling's request, which leaves
        together with it, came after the 410 too, and nothing was ever sent to the gone one.
        """
        sibling = self.requests.get((event_id, "healthy"))
        never_sent = (event_id, "gone") not in self.requests
        if not sibling:
            return False
        return self.gone_disabled and never_sent and sibling[0].began > self.gone_at

    def expected_attempts(self, event_id: str, name: str) -> int | None:
        """Return the computed number of attempts, None where it cannot be computed."""
        if name in {"healthy", "slow"}:
            return 1
        if name == "flaky":
            return flaky_attempts(event_id, SHARE, MAX_ATTEMPTS)[0]
        if name == "dead":
            return MAX_ATTEMPTS
        return None

    def attempts_right(self, event_id: str, name: str, expected: int) -> bool:
        """Compare requests, and the attempts that a parked entry lists, with *expected*."""
        listed = [entry.attempts for entry in self.parked.get((event_id, name), ())]
        return len(self.requests.get((event_id, name), ())) == expected and all(n == expected for n in listed)


TARGETS = {
    "healthy": "/ok/healthy",
    "flaky": f"/flaky/flaky?share={SHARE}",
    "slow": "/slow/slow?s=1",
    "dead": "/status/503/dead",
    "dead_breaker": "/status/503/dead_breaker",
    "gone": f"/gone/gone?after={GONE_AFTER}",
}


def subscriptions(sink: Sink) -> list[dict[str, object]]:
    """Return the six subscriptions."""
    more: dict[str, dict[str, object]] = {
        "healthy": {},
        "flaky": {"breaker": NO_BREAKER},
        "slow": {"concurrency": 64},
        "dead": {"breaker": NO_BREAKER},
        "dead_breaker": {"retry": retry(max_age_s=MAX_AGE_S)},
        "gone": {"breaker": NO_BREAKER},
    }
    return [subscription(name, sink.url(name), **({"retry": retry()} | more[name])) for name in NAMES]


async def publish_steadily(url: str, events: Sequence[EventSpec]) -> None:
    """Publish *events* at :data:`PER_SECOND`."""
    for start in range(0, len(events), PER_SECOND):
        began = time.monotonic()
        await publish(url, events[start : start + PER_SECOND])
        await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - began)))


async def keep_books(daemon: Daemon, sink: Sink) -> Books:
    """Read every log and listing."""
    requests: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    seen = sink.read()
    for one in seen:
        requests[one.id, one.path].append(one)
    names = {subscription_id("t00", name): name for name in NAMES}
    parked: dict[tuple[str, str], list[Parked]] = defaultdict(list)
    for row in await daemon.listing("parked", "list"):
        attempts = row["attempts"]
        count = len(attempts) if isinstance(attempts, list) else int(str(attempts))
        name = names.get(str(row["subscription_id"]), "?")
        parked[str(row["event_id"]), name].append(Parked(str(row["reason"]), count))
    states = {str(row["name"]): bool(row["enabled"]) for row in await daemon.listing("subscriptions", "list")}
    gone_at = min((one.ended for one in seen if one.status == 410), default=float("inf"))
    return Books(requests, parked, gone_at, not states.get("gone", True))


async def until_accounted(bench: Bench, daemon: Daemon, sink: Sink, events: Sequence[EventSpec]) -> Books:
    """Read the books until every pair ended, and once more when nothing moves; or until time is up."""
    deadline = time.monotonic() + END_S
    while True:
        books = await keep_books(daemon, sink)
        left = Counter(name for event in events for name in NAMES if not books.ended(event.id, name))
        bench.say(f"pairs not ended: {dict(left)}")
        if not left or time.monotonic() > deadline:
            await asyncio.sleep(10)  # a stray retry or a double entry would show now
            return await keep_books(daemon, sink)
        await asyncio.sleep(5)


def measure(bench: Bench, books: Books, events: Sequence[EventSpec]) -> list[Measured]:
    """Count the pairs by their end."""
    pairs = [(event.id, name) for event in events for name in NAMES]
    unaccounted = [pair for pair in pairs if not books.ended(*pair)]
    computed = [
        (*pair, expected) for pair in pairs if (expected := books.expected_attempts(*pair)) is not None
    ]
    wrong = [pair for pair in computed if not books.attempts_right(*pair)]
    every = [seen for group in books.requests.values() for seen in group]
    digests = {pair: {seen.digest for seen in group} for pair, group in books.requests.items()}
    bad = sum(not seen.verified or len(digests[seen.id, seen.path]) != 1 for seen in every)
    dead = sum(seen.path == "dead_breaker" for seen in every)
    bench.note("ledger_requests", dict(Counter(seen.path for seen in every)))
    bench.note(
        "ledger_parked", dict(Counter(f"{n} {p.reason}" for (_, n), ps in books.parked.items() for p in ps))
    )
    bench.note("ledger_unaccounted_examples", unaccounted[:10])
    bench.note("ledger_wrong_examples", [(*p, len(books.requests.get(p[:2], ()))) for p in wrong[:10]])
    n = len(events)
    return [
        Measured(name="ledger_unaccounted", value=len(unaccounted), n=n),
        Measured(name="ledger_wrong_attempts", value=len(wrong), n=len({pair[0] for pair in computed})),
        Measured(name="ledger_bad_signatures", value=bad, n=len(every)),
        Measured(name="dead_breaker_requests", value=dead, n=n, valid=dead > 0),
    ]


async def prove(bench: Bench) -> Sequence[Measured]:
    """Publish, wait until all has ended, and balance the books."""
    events = make_events("led", bench.count(EVENTS, 120))
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, TARGETS, bodies=True) as sink,
        Daemon(bench.folder, broker.url) as daemon,
    ):
        await daemon.subscribe(subscriptions(sink))
        await daemon.start()
        bench.say(f"publishing {len(events)} events to {len(NAMES)} subscriptions")
        await publish_steadily(broker.url, events)
        books = await until_accounted(bench, daemon, sink, events)
        return measure(bench, books, events)


PROOF = Proof("ledger", GOALS, prove)
