"""Let workers agree on breakers and count each other: read and write their messages, and rank their states.

    worker --beat | hello | state | bye--> leveret.control (fanout) --> every worker

Data flow: flow.endpoints.agreement encodes the changes of this worker and decodes the messages of others;
:func:`outranks` decides whose state holds; :class:`Workers` counts the live workers.

Which state holds depends on its epoch and its rank alone. So messages may arrive in any order, twice, or not
at all as long as a later one carries the same state: workers that received the same states agree. Messages
carry remaining times and ages, since the clocks of machines differ.

A state with a lower epoch is ignored; opening takes epoch + 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from consumer.core.endpoint.breaker import BreakerPolicy, Closed, Open, Probing, State, cooldown_s
from consumer.core.endpoint.health import Failing, Health
from consumer.core.store.lineage import Generation
from consumer.core.store.lineage import read as read_generation

T = TypeVar("T")

#: Distance of heart-beats.
BEAT_S: Final = 2.0
#: Endpoints in a beat, at most, of each kind: changed lately, and not closed. More take turns in later beats.
BEAT_ENDPOINTS: Final = 100
#: A worker that sent nothing for this long is gone: three beats may be lost.
ALIVE_S: Final = 7.0
#: Workers that are counted at most, so that made-up names cannot fill the memory.
WORKERS_MAX: Final = 1_000
#: Longest remaining time in a message.
REST_MAX_S: Final = 86_400.0
#: Highest age in a message: an older failure is sent with this age, an older success as unknown.
AGE_MAX_S: Final = 400 * 86_400.0
#: Age of the last success where none is known.
UNKNOWN_S: Final = -1.0
EPOCH_MAX: Final = 2**53
#: The worker that opened a breaker probes first. The others wait this much longer, with a jitter of as much.
HEAD_START_S: Final = 0.5
#: A success of this worker that is no older counts for more than the news of another worker.
TRUST_S: Final = 2.0

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class NewsKind(StrEnum):
    """Why a message is sent."""

    BEAT = "beat"  #: every :data:`BEAT_S`, with the endpoints that changed lately or are not closed
    HELLO = "hello"  #: when a worker begins to listen; the others answer with all their news
    STATE = "state"  #: at once after a change
    BYE = "bye"  #: when a worker stops


#: Of two states in one epoch the more careful one holds; ``forced`` is open by an operator.
RANK: Final[Mapping[str, int]] = {"closed": 0, "probing": 1, "open": 2, "forced": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The state of one endpoint in the eyes of one worker."""

    subscription: str  #: id of the subscription
    endpoint: str  #: id of the endpoint; news of another URL are ignored
    state: str  #: a key of :data:`RANK`
    epoch: int
    rest_s: float = 0.0  #: until the endpoint may be tried again
    openings: int = 1  #: of the breaker since the endpoint was last well, 1-based; 0 is closed and well
    held_s: float = 0.0  #: rest of a ``Retry-After``
    failing_s: float = 0.0  #: age of the first failure since the last success; 0: the last attempt succeeded
    failing_counts: bool = False  #: see :class:`consumer.core.endpoint.health.Failing`
    taken_s: float = UNKNOWN_S  #: age of the last success of this worker's own requests


class NewsMessage(NamedTuple):
    """One message to all workers."""

    kind: NewsKind
    worker: str  #: name of the sender
    news: Sequence[News]
    store: Generation | None = None  #: that the sender has in memory


def encode(message: NewsMessage) -> bytes:
    """Write a message; its rows have no field names, since beats are many."""
    rows = [_row(news) for news in message.news]
    body: dict[str, object] = {"kind": message.kind.value, "worker": message.worker, "news": rows}
    if message.store is not None:
        body["store"] = message.store._asdict()
    return orjson.dumps(body)


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


def decode(body: Mapping[str, Any]) -> NewsMessage | None:
    """Read a message that is JSON already; None where it is not one of these. A wrong row is left out."""
    try:
        kind, worker, rows = NewsKind(body["kind"]), body["worker"], body.get("news", ())
        if not isinstance(worker, str) or not _NAME.fullmatch(worker) or not isinstance(rows, list | tuple):
            return None
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    store = read_generation(body.get("store"))
    return NewsMessage(kind, worker, [news for row in rows if (news := _read(row)) is not None], store)


def _read(row: Any) -> News | None:
    """Read one row; a worker of the version before sends fewer values, one of the next may send more."""
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


def news_of(names: tuple[str, str], state: State, held_until: float, now: float) -> News:
    """Return the news of a breaker and a pause.

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
    """Return *news* with the failures that the worker knows and the last success of its own requests.

    The success of another worker's request is not repeated, since each repetition would be late by the travel
    time of a message.
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
    """Return the failures and successes in *news*; *now* is in Unix seconds on this machine."""
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
    """Return whether *news* replace *state*: by a higher epoch, or in the same epoch by a higher rank."""
    return (news.epoch, RANK[news.state]) > (state.epoch, RANK[state_name(state)])


def outdoes(news: News, older: News) -> bool:
    """Return whether *news* replace older news of the same endpoint."""
    return (news.epoch, RANK[news.state]) > (older.epoch, RANK[older.state])


def contradicts(state: State, taken_s: float, news: News) -> bool:
    """Return whether a worker knows better than *news* of a breaker that is not closed.

    The worker's own requests succeeded until just now, and none has failed since. An endpoint that is down
    for all fails each worker's requests within moments. Where only the network of one worker is down, only
    that worker holds back; otherwise it would stop the others for as long as it lives.

    Args:
        state: Of this worker's breaker.
        taken_s: Age of the last success of its own requests, in seconds.
        news: Of another worker.
    """
    well = isinstance(state, Closed) and not state.failures and (state.proven or not state.openings)
    return well and news.state in ("open", "probing") and 0 <= taken_s <= TRUST_S


def adopted(news: News, now: float, sample: float) -> State:
    """Return the state of the breaker in *news*.

    Args:
        news: Of another worker.
        now: Seconds on the clock of the breaker.
        sample: Uniform in [0, 1), so that workers with the same news do not probe together.
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

    Two workers that opened their breakers by themselves at the same time have the same state and would probe
    together each time. So of two whose probes are closer than :data:`HEAD_START_S`, one waits as if it had
    adopted the state of the other.
    """
    if not isinstance(state, Open) or (news.state, news.epoch) != (state_name(state), state.epoch):
        return state
    first_at = now + news.rest_s
    if state.forced or abs(state.until - first_at) >= HEAD_START_S:
        return state
    return Open(first_at + HEAD_START_S * (1 + sample), state.epoch, state.openings)


def yielding(state: State, news: News, now: float, sample: float) -> State:
    """Return *state* after news of a worker that waits for the same probe.

    A worker whose last probe failed lets another one go first, once: its own network may be the cause.
    """
    if not isinstance(state, Open) or state.forced or state.openings < 2 or state.since == math.inf:
        return state
    first_at = now + news.rest_s
    if (news.state, news.epoch) != ("open", state.epoch) or first_at < state.until:
        return state
    return Open(first_at + HEAD_START_S * (1 + sample), state.epoch, state.openings)


def remembered(state: str, epoch: int, since: float, policy: BreakerPolicy) -> State | None:
    """Return the state of a breaker in a row of the store; None where the row holds no usable one.

    Args:
        state: Its name in the store.
        epoch: Of the breaker.
        since: Seconds on the clock of the breaker; the cooldown counts from here.
        policy: Of the endpoint.
    """
    if epoch < 1 or state not in RANK:
        return None
    if state == "closed":
        return Closed(epoch=epoch)
    if state == "forced":
        return Open(math.inf, epoch, since=since, forced=True)
    return Open(since + cooldown_s(policy, 1, 0.0), epoch, since=since)


class Rotation:
    """Takes ids in turn, a bounded number at a time, until each one has had its turn."""

    def __init__(self) -> None:
        self._left: list[str] = []

    def take(self, count: int, every: Callable[[], Iterable[str]]) -> Sequence[str]:
        """Return the next ids, at most *count*; *every* returns all of them for a new round."""
        if not self._left:
            self._left = list(every())
        taken = self._left[-count:]
        del self._left[-count:]
        return taken


@dataclass(slots=True)
class Workers:
    """The other live workers, by the time of their last message. Times are monotonic seconds."""

    _heard: dict[str, float] = field(default_factory=dict)

    def hear(self, worker: str, now: float) -> None:
        """Take in that another worker sent a message."""
        if worker in self._heard or len(self._heard) < WORKERS_MAX:
            self._heard[worker] = now

    def leave(self, worker: str) -> None:
        """Forget a worker that stops."""
        self._heard.pop(worker, None)

    def leads(self, worker: str, now: float) -> bool:
        """Return whether *worker*, this one, does the tasks that one of all workers has to do."""
        self.count(now)
        return all(worker < other for other in self._heard)

    def count(self, now: float) -> int:
        """Return how many workers live, this one included."""
        for gone in [worker for worker, at in self._heard.items() if now - at > ALIVE_S]:
            del self._heard[gone]
        return 1 + len(self._heard)


def batches(of: Sequence[T], size: int) -> Sequence[Sequence[T]]:
    """Cut *of* into batches of at most *size*; without any there is one empty batch."""
    return [of[start : start + size] for start in range(0, len(of), size)] or [()]
