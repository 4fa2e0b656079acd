"""Let workers agree on breakers, and count each other: what one says, who is right, who lives.

    worker --beat | hello | state | bye--> leveret.control (fanout) --> every worker

Data flow: flow.agreement encodes what changed here; :func:`decode` reads what others say; :func:`outranks`
decides who is right; :class:`Workers` counts who was heard.

Who is right depends on nothing but epoch and state. So it does not matter in which order messages come,
whether one comes twice, and whether one is lost as long as a later one tells the same: workers that have
heard the same are of the same mind. Times travel as rests, since clocks of machines differ.

A message with a lower epoch is ignored; opening takes epoch + 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson

from consumer.core.endpoint.breaker import BreakerPolicy, Closed, Open, Probing, State, cooldown_s
from consumer.core.endpoint.health import Failing, Health
from consumer.core.store.lineage import Generation
from consumer.core.store.lineage import read as read_generation

BEAT_S: Final = 2.0
"""Distance of heart-beats."""
ALIVE_S: Final = 7.0
"""A worker that was not heard for this long is gone: three beats may be lost."""
WORKERS_MAX: Final = 1_000
"""Workers that are counted; a stranger who makes names up must not fill the memory."""
REST_MAX_S: Final = 86_400.0
AGE_MAX_S: Final = 400 * 86_400.0
"""Nothing that is told is older: failures are told as of this age, a success as unknown."""
UNKNOWN_S: Final = -1.0
"""Age of the last success where none is known."""
EPOCH_MAX: Final = 2**53
#: Who opened a breaker probes first; whoever was told waits this much longer, with a jitter of as much again.
HEAD_START_S: Final = 0.5
#: An own success of so short ago counts for more than what another worker says.
TRUST_S: Final = 2.0

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Kind(StrEnum):
    """Why a message is sent."""

    BEAT = "beat"  #: every :data:`BEAT_S`, with what changed lately or is not closed
    HELLO = "hello"  #: by who begins to listen; the others answer with all they know
    STATE = "state"  #: at once, when something changed
    BYE = "bye"  #: by who stops


#: Of two states of one epoch the more careful one is right; ``forced`` is open by an operator.
RANK: Final[Mapping[str, int]] = {"closed": 0, "probing": 1, "open": 2, "forced": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What a worker says of one endpoint."""

    subscription: str  #: id of the subscription
    endpoint: str  #: id of the endpoint: news of another URL are no news
    state: str  #: a key of :data:`RANK`
    epoch: int
    rest_s: float = 0.0  #: until it may be tried again
    openings: int = 1  #: since it was last well, 1-based; 0 is closed and well
    held_s: float = 0.0  #: rest of a ``Retry-After``
    failing_s: float = 0.0  #: age of the first failure since the last success; 0: it does not fail
    failing_counts: bool = False  #: see :class:`consumer.core.endpoint.health.Failing`
    taken_s: float = UNKNOWN_S  #: age of the last success that this worker saw itself


class Said(NamedTuple):
    """One message."""

    kind: Kind
    worker: str
    news: Sequence[News]
    store: Generation | None = None  #: that this worker has in memory


def encode(said: Said) -> bytes:
    """Write a message; rows without names, since beats are many."""
    rows = [_row(news) for news in said.news]
    message: dict[str, object] = {"kind": said.kind.value, "worker": said.worker, "news": rows}
    if said.store is not None:
        message["store"] = said.store._asdict()
    return orjson.dumps(message)


def _row(news: News) -> Sequence[object]:
    """Return the values of a row in the order in which :func:`_read` takes them."""
    return (
        news.subscription,
        news.endpoint,
        news.state,
        news.epoch,
        round(news.rest_s, 3),
        news.openings,
        round(news.held_s, 3),
        round(news.failing_s, 3),
        news.failing_counts,
        round(news.taken_s, 3),
    )


def decode(message: Mapping[str, Any]) -> Said | None:
    """Read a message that is JSON already; None when it is none of ours. A row that is wrong is left out."""
    try:
        kind, worker, rows = Kind(message["kind"]), message["worker"], message.get("news", ())
        if not isinstance(worker, str) or not _NAME.fullmatch(worker) or not isinstance(rows, list | tuple):
            return None
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    store = read_generation(message.get("store"))
    return Said(kind, worker, [news for row in rows if (news := _read(row)) is not None], store)


def _read(row: Any) -> News | None:
    """Read one row; a worker of the version before says less, one of the next may say more."""
    try:
        subscription, endpoint, state, epoch, rest_s, openings, held_s, *more = row
        failing_s, counts, taken_s = more[:3] if len(more) >= 3 else (0.0, False, UNKNOWN_S)
        news = News(
            subscription=str(subscription),
            endpoint=str(endpoint),
            state=str(state),
            epoch=int(epoch),
            rest_s=float(rest_s),
            openings=int(openings),
            held_s=float(held_s),
            failing_s=float(failing_s),
            failing_counts=counts is True,
            taken_s=float(taken_s),
        )
    except (ValueError, TypeError, OverflowError):
        return None
    return news if _is_sound(news) else None


def _is_sound(news: News) -> bool:
    return (
        news.state in RANK
        and 0 <= news.epoch <= EPOCH_MAX
        and (0 if news.state == "closed" else 1) <= news.openings <= EPOCH_MAX
        and 0 <= news.rest_s <= REST_MAX_S
        and 0 <= news.held_s <= REST_MAX_S
        and 0 <= news.failing_s <= AGE_MAX_S
        and UNKNOWN_S <= news.taken_s <= AGE_MAX_S
    )


def told(names: tuple[str, str], state: State, held_until: float, now: float) -> News:
    """Return what a worker says of a breaker and a pause.

    Args:
        names: Ids of the subscription and of the endpoint.
        state: Of the breaker, its times in seconds on the clock of *now*.
        held_until: End of the pause, on the same clock.
        now: Unix seconds.
    """
    rest_s = 0.0 if isinstance(state, Closed) else state.until - now
    return News(
        subscription=names[0],
        endpoint=names[1],
        state=state_name(state),
        epoch=state.epoch,
        rest_s=_within(rest_s, REST_MAX_S),
        openings=state.openings,
        held_s=_within(held_until - now, REST_MAX_S),
    )


def with_health(news: News, own: Health, now: float) -> News:
    """Return *news* with what the worker knows of failures, and of the successes that it saw itself.

    What it only heard of a success it must not repeat: each repetition is late by a message's travel.
    """
    failing, taken_s = own.failing, now - own.taken_at
    known = own.taken_at > 0 and taken_s <= AGE_MAX_S
    return replace(
        news,
        failing_s=0.0 if failing is None else max(_within(now - failing.first_at, AGE_MAX_S), 0.001),
        failing_counts=failing is not None and failing.counts,
        taken_s=max(taken_s, 0.0) if known else UNKNOWN_S,
    )


def health_of(news: News, now: float) -> Health:
    """Return what *news* tells of failures and successes; *now* is in Unix seconds, here."""
    failing = Failing(now - news.failing_s, news.failing_counts) if news.failing_s > 0 else None
    return Health(failing, 0.0 if news.taken_s < 0 else now - news.taken_s)


def _within(seconds: float, most_s: float) -> float:
    return min(max(seconds, 0.0), most_s)


def state_name(state: State) -> str:
    """Return the name of a state: a key of :data:`RANK`."""
    match state:
        case Closed():
            return "closed"
        case Open():
            return "forced" if state.forced else "open"
        case Probing():
            return "probing"


def outranks(news: News, state: State) -> bool:
    """Say whether *news* replaces *state*: by its epoch, and in the same epoch by being more careful."""
    return (news.epoch, RANK[news.state]) > (state.epoch, RANK[state_name(state)])


def outdoes(news: News, older: News) -> bool:
    """Say whether *news* replaces what was heard before of the same endpoint."""
    return (news.epoch, RANK[news.state]) > (older.epoch, RANK[older.state])


def contradicts(state: State, taken_s: float, news: News) -> bool:
    """Say whether a worker knows better than *news* that tell of an endpoint which is down.

    Its own requests were taken until just now, and none has failed since. Where it is down for all, each has
    failures of its own within moments. Where a single worker's network is, only that one holds back; if not,
    it would stop the others for as long as it lives.

    Args:
        state: What the worker thinks of the breaker.
        taken_s: Age of its own last success, in seconds.
        news: Of another worker.
    """
    well = isinstance(state, Closed) and not state.failures and (state.proven or not state.openings)
    return well and news.state in ("open", "probing") and 0 <= taken_s <= TRUST_S


def adopted(news: News, now: float, sample: float) -> State:
    """Return the state that *news* tells.

    Args:
        news: Of another worker.
        now: Seconds on the clock of the breaker.
        sample: Uniform in [0, 1): workers that were told the same do not probe together.
    """
    late_s = HEAD_START_S * (1 + sample)
    match news.state:
        case "closed":
            return Closed(epoch=news.epoch, openings=news.openings)
        case "forced":
            return Open(math.inf, news.epoch, forced=True)
        case "open":
            return Open(now + news.rest_s + late_s, news.epoch, news.openings)
        case _:
            return Probing(now + news.rest_s + late_s, news.epoch, news.openings)


def behind(state: State, news: News, now: float, sample: float) -> State:
    """Return *state* after news of the same opening by a worker that goes first.

    Two that opened by themselves, at the same moment, are of one mind and would probe together each time. So
    of two whose probes stand closer than :data:`HEAD_START_S` one waits as if it had been told.
    """
    if not isinstance(state, Open) or (news.state, news.epoch) != (state_name(state), state.epoch):
        return state
    first_at = now + news.rest_s
    if state.forced or abs(state.until - first_at) >= HEAD_START_S:
        return state
    return Open(first_at + HEAD_START_S * (1 + sample), state.epoch, state.openings)


def yielding(state: State, news: News, now: float, sample: float) -> State:
    """Return *state* after news of a worker that waits for the same probe.

    Who failed with the last probe lets another one go first, once: it may be its own network that fails.
    """
    if not isinstance(state, Open) or state.forced or state.openings < 2 or state.since == math.inf:
        return state
    first_at = now + news.rest_s
    if (news.state, news.epoch) != ("open", state.epoch) or first_at < state.until:
        return state
    return Open(first_at + HEAD_START_S * (1 + sample), state.epoch, state.openings)


def remembered(state: str, epoch: int, since: float, policy: BreakerPolicy) -> State | None:
    """Return what a row of the store says of a breaker; None when it says nothing.

    Args:
        state: As the store has it.
        epoch: Of the breaker.
        since: Seconds on the clock of the breaker; the cooldown counts from here.
        policy: Of the endpoint.
    """
    if epoch < 1 or state not in RANK:
        return None
    if state == "closed":
        return Closed(epoch=epoch)
    if state == "forced":
        return Open(math.inf, epoch, forced=True)
    return Open(since + cooldown_s(policy, 1, 0.0), epoch)


@dataclass(slots=True)
class Workers:
    """Who lives, by when each was last heard. Times are monotonic seconds."""

    _heard: dict[str, float] = field(default_factory=dict)

    def hear(self, worker: str, now: float) -> None:
        """Note a sign of life of another worker."""
        if worker in self._heard or len(self._heard) < WORKERS_MAX:
            self._heard[worker] = now

    def leave(self, worker: str) -> None:
        """Forget a worker that said goodbye."""
        self._heard.pop(worker, None)

    def leads(self, worker: str, now: float) -> bool:
        """Say whether *worker*, who asks, is the one that does what one of all is to do."""
        self.count(now)
        return all(worker < other for other in self._heard)

    def count(self, now: float) -> int:
        """Return how many live, oneself included."""
        for gone in [worker for worker, at in self._heard.items() if now - at > ALIVE_S]:
            del self._heard[gone]
        return 1 + len(self._heard)


def pieces(news: Iterable[News], size: int) -> Sequence[Sequence[News]]:
    """Cut *news* into pieces of at most *size*; no news are one empty piece."""
    listed = list(news)
    return [listed[start : start + size] for start in range(0, len(listed), size)] or [[]]
