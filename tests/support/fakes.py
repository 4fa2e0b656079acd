"""Fakes of the ports, and a virtual time that passes once nothing else is left to do.

Data flow: test -> flow under test -> fakes (one journal of all that happened, in order) -> test.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from consumer.core.errors import BrokerUnavailable, Refused, Unroutable
from consumer.core.model import Outcome, RawMessage, SignedRequest
from consumer.ports import Incoming, Publication
from tests.support.fakes_sender import FakeSender, Reply

START = 1_700_000_000.0  #: Unix seconds when a virtual loop begins

T = TypeVar("T")


class Stuck(RuntimeError):
    """Nothing is left to run: the condition that the test waits for can never hold."""


class _Jumping(selectors.DefaultSelector):
    """A selector that never waits: the time of the loop jumps to the next timer instead."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready: list[Any] = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise Stuck("nothing is left to happen")
        self.passed_s += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which hours take no time, in the same order on every run."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._jumping.passed_s


def run_virtually(main: Callable[[], Awaitable[T]]) -> T:
    """Run *main* on a virtual loop of its own; for property tests."""

    async def start() -> T:
        return await main()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(start())


async def settled() -> None:
    """Run everything that needs no time."""
    for _ in range(50):
        await asyncio.sleep(0)


class ManualClock:
    """The Clock port over the running virtual loop, or over a number that the test moves."""

    def __init__(self) -> None:
        self.step_s = 0.0  #: sum of the steps of the wall clock (the monotonic clock has none)
        self.passed_s = 0.0  #: time that was skipped without running the timers in it

    def now(self) -> float:
        """Unix seconds."""
        return START + self.step_s + self.monotonic()

    def monotonic(self) -> float:
        """Monotonic seconds."""
        return asyncio.get_running_loop().time() + self.passed_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Run *callback* after *delay_s* of virtual time."""
        return asyncio.get_running_loop().call_later(delay_s, callback).cancel

    async def advance(self, delay_s: float) -> None:
        """Let *delay_s* pass, and run all timers in it."""
        await asyncio.sleep(delay_s)
        await settled()


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a journal."""

    what: str  #: publishing | confirmed | sending | answered | ack | requeue
    of: str  #: routing key, URL, or the ticket's name
    at: float  #: loop time, seconds
    publication: Publication | None = None


class Journal(list[Step]):
    """All steps, in their order."""

    def note(self, what: str, of: str, publication: Publication | None = None) -> None:
        """Add a step."""
        self.append(Step(what, of, asyncio.get_running_loop().time(), publication))

    def places(self, *what: str) -> list[int]:
        """Return the positions of the steps of these kinds."""
        return [place for place, step in enumerate(self) if step.what in what]

    def words(self) -> list[str]:
        """Return the kinds of the steps alone."""
        return [step.what for step in self]


class FakeTicket:
    """A ticket that remembers how it was settled."""

    def __init__(self, journal: Journal | None = None, name: str = "message") -> None:
        self.name = name
        self.settles: list[str] = []
        self.dead = False
        self._journal = Journal() if journal is None else journal

    def alive(self) -> bool:
        """Whether the worker still has to settle the message."""
        return not self.dead

    async def ack(self) -> None:
        """Settle."""
        await self._settle("ack")

    async def requeue(self) -> None:
        """Give back."""
        await self._settle("requeue")

    async def reject(self) -> None:
        """Give back after a failure."""
        await self._settle("reject")

    async def _settle(self, how: str) -> None:
        self.settles.append(how)
        self._journal.note(how, self.name)


@dataclass(frozen=True, slots=True)
class Published:
    """One publication that was confirmed."""

    publication: Publication
    message_id: str
    at: float  #: loop time, seconds

    @property
    def key(self) -> str:
        """The routing key."""
        return self.publication.routing_key

    @property
    def headers(self) -> Mapping[str, object]:
        """The headers."""
        return self.publication.headers

    def raw(self, **more: Any) -> RawMessage:
        """Return it as a queue would give it out."""
        publication = self.publication
        fields: dict[str, Any] = {
            "body": publication.body,
            "headers": dict(publication.headers),
            "exchange": publication.exchange,
            "routing_key": publication.routing_key,
            "content_type": publication.content_type,
            "message_id": self.message_id,
        }
        return RawMessage(**fields | more)


class FakePublisher:
    """A broker that takes everything, until a test sets a fault. Implements ``ports.Publisher``.

    Attributes:
        confirmed: The taken publications, in order.
        connected: False: every publish is ``BrokerUnavailable``.
        unbound: Beginnings of routing keys that no queue is bound for.
        full: Beginnings of routing keys whose queue refuses.
        faults: Raised by the next publishes, one each; None lets one pass.
        reason: The answer of :meth:`pressed`.
        on_confirmed: Called with each publication that was taken.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self.confirmed: list[Published] = []
        self.connected = True
        self.unbound: set[str] = set()
        self.full: set[str] = set()
        self.faults: list[BaseException | None] = []
        self.reason: str | None = None
        self.confirm_s = 0.0  #: how long a confirm takes
        self.on_confirmed: Callable[[Published], None] = lambda _published: None
        self._open = asyncio.Event()
        self._open.set()
        self._journal = Journal() if journal is None else journal
        self._ids = count(1)

    def hang(self) -> None:
        """Confirm nothing until :meth:`go_on`."""
        self._open.clear()

    def go_on(self) -> None:
        """Confirm again, pending publishes included."""
        self._open.set()

    def pressed(self) -> str | None:
        """Return why no new attempt should start, or None."""
        return self.reason

    async def publish(self, publication: Publication) -> None:
        """Take the publication, or fail as the test set it up."""
        self._journal.note("publishing", publication.routing_key, publication)
        await asyncio.sleep(self.confirm_s)
        await self._open.wait()
        self._fail(publication.routing_key)
        message_id = publication.message_id or f"fake-{next(self._ids)}"
        published = Published(publication, message_id, asyncio.get_running_loop().time())
        self.confirmed.append(published)
        self._journal.note("confirmed", publication.routing_key, publication)
        self.on_confirmed(published)

    def to(self, beginning: str) -> list[Published]:
        """Return the publications whose routing keys start with *beginning*."""
        return [each for each in self.confirmed if each.key.startswith(beginning)]

    def _fail(self, key: str) -> None:
        if not self.connected:
            raise BrokerUnavailable("no publishing connection to the broker")
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        if key.startswith(tuple(self.unbound)):
            raise Unroutable(f"no queue for {key}")
        if key.startswith(tuple(self.full)):
            raise Refused(f"nack for {key}")


class PacedSender(FakeSender):
    """The fake sender, with a latency per URL and a journal."""

    def __init__(self, journal: Journal | None = None) -> None:
        super().__init__()
        self.latency_s: dict[str, float] = {}  #: by URL; others answer at once
        self.started: list[tuple[str, float]] = []  #: URL and loop time of each request
        self.peaks: dict[str, int] = {}  #: most requests in flight at once, by URL
        self._now: dict[str, int] = {}
        self._journal = Journal() if journal is None else journal

    async def send(self, request: SignedRequest) -> Outcome:
        """Answer as the test set it up."""
        url = request.url
        self._journal.note("sending", url)
        self.started.append((url, asyncio.get_running_loop().time()))
        self._now[url] = self._now.get(url, 0) + 1
        self.peaks[url] = max(self.peaks.get(url, 0), self._now[url])
        try:
            return await super().send(request)
        finally:
            self._now[url] -= 1
            self._journal.note("answered", url)

    async def _reply(self, url: str) -> Reply:
        await asyncio.sleep(self.latency_s.get(url, 0.0))
        return await super()._reply(url)


@dataclass(slots=True)
class MemoryArchive:
    """An archive in memory. Implements ``ports.Archive``."""

    entries: list[Mapping[str, object]] = field(default_factory=list)
    failures: list[OSError] = field(default_factory=list)  #: raised by the next appends, one each
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _hangs: bool = False

    def hang(self) -> None:
        """Let each append wait until :meth:`go_on`."""
        self._hangs = True

    def go_on(self) -> None:
        """Take entries again, pending appends included."""
        self._hangs = False
        self._idle.set()

    async def append(self, entry: Mapping[str, object]) -> None:
        """Keep *entry*, or raise the next of :attr:`failures`."""
        if self._hangs:
            await self._idle.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.entries.append(entry)


class RecordingLog:
    """A logger that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []  #: level, event, fields

    def events(self, name: str) -> list[dict[str, object]]:
        """Return the fields of every line with this event name."""
        return [fields for _, event, fields in self.lines if event == name]

    def debug(self, event: str, **fields: object) -> None:
        """Keep a line."""
        self.lines.append(("debug", event, fields))

    def info(self, event: str, **fields: object) -> None:
        """Keep a line."""
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        """Keep a line."""
        self.lines.append(("warning", event, fields))

    def error(self, event: str, **fields: object) -> None:
        """Keep a line."""
        self.lines.append(("error", event, fields))


def incoming(message: RawMessage, ticket: FakeTicket | None = None) -> Incoming:
    """Return *message* with a ticket."""
    return Incoming(message, FakeTicket() if ticket is None else ticket)


def tickets_of(taken: Sequence[Incoming]) -> list[FakeTicket]:
    """Return the fake tickets of *taken*."""
    return [each.ticket for each in taken if isinstance(each.ticket, FakeTicket)]
