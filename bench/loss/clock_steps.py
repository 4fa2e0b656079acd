"""The daemon's clock is set while retries wait: they come when they were due, and none is parked.

The receiver holds 100 requests and fails them all at once; their retries are due in 4 s. One second later the
daemon's clock is set back or forward. It is set in two places: behind the clock port, and by libfaketime
below the whole process, with the monotonic clock left alone. A retry is due ``wait_s`` of the daemon's log
after its first answer, and it is late by the receiver's clock, which is never set. Whether the
daemon's clock was really set is read from the timestamps that it signed.

Source: fault 82; libfaketime's README (FAKETIME_TIMESTAMP_FILE, FAKETIME_DONT_FAKE_MONOTONIC).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from bench.broker import Broker
from bench.core.timing import logged_waits
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from tests.support.broker.load import make_events, publish
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

RETRIES = 100
WAIT_S = 4.0
HOUR_S, DAY_S = 3_600, 86_400
WARM_ROUNDS, WARM_EVENTS = 5, 40
PATIENCE_S = 30.0  #: a delivery that has not come by then counts as this late
SET_SLACK_S = 10.0  #: a signed timestamp is this near to the clock that was set
LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib64/faketime/libfaketimeMT.so.1")

GOALS = (
    Goal(name="clock_late_s", text="≤ 5", unit="s", n=8),
    Goal(name="clock_parked", text="0", unit="entries", n=8),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One method to set the clock."""

    way: str  #: port | faketime
    step_s: int

    @property
    def name(self) -> str:
        """Name of its endpoint, events and folder."""
        return f"{self.way}_{'back' if self.step_s < 0 else 'forward'}_{abs(self.step_s)}"


#: A smoke takes the first ones.
CASES = (
    Case("port", -HOUR_S),
    Case("faketime", DAY_S),
    Case("port", DAY_S),
    Case("faketime", -HOUR_S),
    Case("port", -DAY_S),
    Case("faketime", -DAY_S),
    Case("port", HOUR_S),
    Case("faketime", HOUR_S),
)


class SetDaemon(Daemon):
    """A daemon whose clock can be set while it runs."""

    def __init__(self, folder: Path, amqp_url: str, case: Case) -> None:
        self._offset = folder / f"{case.name}-offset"
        self._port = case.way == "port"
        self.set_clock(0)
        super().__init__(folder, amqp_url, {} if self._port else faketime(self._offset), name=case.name)
        if self._port:
            self.program = ("-m", "bench.loss.shifted", str(self._offset))

    def set_clock(self, by_s: int) -> None:
        """Set the clock *by_s* seconds off the real time, from now on."""
        whole = self._offset.with_suffix(".new")
        whole.write_text(f"{by_s:+d}\n", "ascii")
        whole.replace(self._offset)


def faketime(offset: Path) -> Mapping[str, str]:
    """Return the environment in which a program's wall clock follows a file, within a second.

    Without the last but one, threads of Python that wait for each other would spin.

    Raises:
        FileNotFoundError: libfaketime is not installed.
    """
    found = [path for pattern in LIBRARIES for path in sorted(Path("/").glob(pattern.lstrip("/")))]
    if not found:
        raise FileNotFoundError("libfaketime is not here: sh scripts/apt-install.sh faketime")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "NO_FAKE_STAT": "1",
    }


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one case."""

    late_s: float  #: of the latest retry, after its due time
    parked: int
    set_right: bool  #: all failed and waited, and the clock was really set


async def run_case(bench: Bench, case: Case, count: int) -> Run:
    """Let *count* deliveries fail once, set the clock, and see when they come again."""
    folder = bench.folder / case.name
    folder.mkdir()
    target = {case.name: f"/hold/{case.name}?n={count}&status=503", "warm": "/ok/warm"}
    async with (
        Broker(bench) as broker,
        Sink(folder, target) as sink,
        SetDaemon(folder, broker.url, case) as daemon,
    ):
        policy = retry(base_s=WAIT_S, multiplier=1)
        own = {"events": [f"clock.{case.name}"], "retry": policy, "breaker": NO_BREAKER, "concurrency": count}
        warm = subscription("warm", sink.url("warm"), events=["clock.warm"])
        await daemon.subscribe([subscription(case.name, sink.url(case.name), **own), warm])
        await daemon.start()
        await warm_up(broker.url, sink)
        before = await sink.answered()
        await publish(broker.url, make_events(case.name, count, kind=f"clock.{case.name}"))
        failed = await sink.until_answered(before + count, 60)
        await asyncio.sleep(1.0)  # every failure waits on its rung by now
        daemon.set_clock(case.step_s)
        await sink.until_answered(before + 2 * count, PATIENCE_S)
        retried = [one for one in sink.read() if one.path == case.name]
        late_s = latest_s(retried, logged_waits(daemon, case.name), count)
        parked = len(await daemon.listing("parked", "list"))
        set_right = failed and was_set(sink.log, case.step_s)
    return Run(late_s, parked, set_right)


async def warm_up(url: str, sink: Sink) -> None:
    """Send some events one after the other: the lanes' windows grow from 4 with the sizes that come."""
    for number in range(WARM_ROUNDS):
        before = await sink.answered()
        await publish(url, make_events(f"warm{number}", WARM_EVENTS, kind="clock.warm"))
        await sink.until_answered(before + WARM_EVENTS, 30)
        await asyncio.sleep(0.2)  # a window grows no faster


def latest_s(seen: Sequence[Seen], waits: Mapping[str, float], count: int) -> float:
    """Return how late the latest retry was; one that never came is as late as it was waited for.

    Args:
        seen: Every request.
        waits: The wait that the daemon chose after each first attempt, by id, in seconds.
        count: Deliveries.
    """
    due = {one.id: one.ended + waits[one.id] for one in seen if one.attempt == 1 and one.id in waits}
    late = [one.began - due[one.id] for one in seen if one.attempt == 2 and one.id in due]
    return max(late, default=PATIENCE_S) if len(late) == count else PATIENCE_S


def was_set(log: Path, step_s: int) -> bool:
    """Return whether any request was signed with a clock that is off by *step_s*, within ten seconds.

    Where no retry came, nothing was signed since: then nothing speaks against it.
    """
    rows = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    retried = [row for row in rows if int(row["attempt"]) > 1]
    off = [int(row["timestamp"]) - float(row["start"]) - step_s for row in retried]
    return all(abs(rest) <= SET_SLACK_S for rest in off)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Set the clock by each method."""
    cases, count = CASES[: bench.count(len(CASES), 2)], bench.count(RETRIES, 10)
    runs = []
    for case in cases:
        runs.append(await run_case(bench, case, count))
        bench.note(f"clock_{case.name}", f"late {runs[-1].late_s:.2f} s, parked {runs[-1].parked}")
    valid = all(run.set_right for run in runs)
    late_s, parked = max(run.late_s for run in runs), sum(run.parked for run in runs)
    return (
        Measured(name="clock_late_s", value=round(late_s, 3), n=len(runs), valid=valid),
        Measured(name="clock_parked", value=parked, n=len(runs), valid=valid),
    )


PROOF = Proof("clock_steps", GOALS, prove)
