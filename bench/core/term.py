"""SIGTERM with 500 requests in flight, restart, five times: nothing is sent twice."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from tests.support.broker.load import make_events, publish
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

ROUNDS = 5
IN_FLIGHT = 500
MARGIN = 20  #: some may end between the look and the signal
EVENTS = 1_200  #: per round
CONCURRENCY = 600
ANSWER_S = 4.0  #: well under the grace for requests in flight (20 s)
EXIT_S = 40.0
END_S = 90.0
SETTINGS = {"LEVERET_SENDING__CONCURRENCY": "700"}

GOALS = (Goal(name="term_duplicates", text="0", unit="requests", n=ROUNDS),)


async def until_in_flight(sink: Sink, wanted: int, timeout_s: float) -> bool:
    """Wait until *wanted* requests are open at the receiver; return whether they were in time."""
    deadline = time.monotonic() + timeout_s
    while (await sink.counts()).in_flight < wanted:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


async def one_round(bench: Bench, daemon: Daemon, sink: Sink, in_flight: int) -> float | None:
    """Terminate the daemon with *in_flight* requests open; return when, or None when it did not count."""
    full = await until_in_flight(sink, in_flight, 60)
    at = time.time()
    daemon.terminate()
    code = await daemon.wait_exit(EXIT_S)
    bench.say(f"SIGTERM with {in_flight} in flight: {full}; exit {code} after {time.time() - at:.1f} s")
    await daemon.start()
    return at if full and code == 0 else None


def open_at(seen: Sequence[Seen], at: float) -> int:
    """Return how many requests were in flight at *at*, from the log."""
    return sum(one.began <= at < one.ended for one in seen)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Terminate, restart, and count requests beyond the first of each event."""
    count, in_flight = bench.count(EVENTS, 100), bench.count(IN_FLIGHT + MARGIN, 25)
    stops: list[float | None] = []
    wanted = 0
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, {"slow": f"/slow/slow?s={ANSWER_S:g}"}) as sink,
        Daemon(bench.folder, broker.url, SETTINGS) as daemon,
    ):
        await daemon.subscribe(
            [
                subscription(
                    "slow", sink.url("slow"), retry=retry(), breaker=NO_BREAKER, concurrency=CONCURRENCY
                )
            ]
        )
        await daemon.start()
        for number in range(ROUNDS):
            await publish(broker.url, make_events(f"trm_{number}", count))
            wanted += count
            stops.append(await one_round(bench, daemon, sink, in_flight))
            if not await sink.until_answered(wanted, END_S):
                bench.say(f"{await sink.answered()} of {wanted} were answered")
        await asyncio.sleep(2 * ANSWER_S)  # a second request for the same event would be under way
        seen = sink.read()
    return [measure(bench, seen, [at for at in stops if at is not None], wanted)]


def measure(bench: Bench, seen: Sequence[Seen], stops: Sequence[float], wanted: int) -> Measured:
    """Count requests that were one too many; a stop counts when 500 were really in flight."""
    in_flight = [open_at(seen, at) for at in stops]
    per_event = Counter(one.id for one in seen)
    bench.note("term_in_flight", in_flight)
    bench.note("term_missing", wanted - len(per_event))
    duplicates = sum(per_event.values()) - len(per_event)
    return Measured(
        name="term_duplicates",
        value=duplicates,
        n=sum(count >= IN_FLIGHT for count in in_flight),
        valid=wanted == len(per_event),
    )


PROOF = Proof("term", GOALS, prove)
