"""Let workers agree on breakers, and count each other: what one says, who is right, who lives.

    worker --beat | hello | state | bye--> leveret.control (fanout) --> every worker

Data flow: flow.agreement encodes what changed here; :func:`decode` reads what others say; :func:`outranks`
decides who is right; :class:`Workers` counts who was heard.

Who is right depends on nothing but epoch and state. So it does not matter in which order messages come,
whether one comes twice, and whether one is lost as long as a later one tells the same: workers that have
heard the same are of the same mind. Times travel as rests, since clocks of machines differ.

Source: ARCHITECTURE "Breaker" (a lower epoch is ignored, opening takes epoch + 1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson

from consumer.core.breaker import BreakerPolicy, Closed, Open, Probing, State, cooldown_s

BEAT_S: Final = 2.0
"""Distance of heart-beats."""
ALIVE_S: Final = 7.0
"""A worker that was not heard for this long is gone: three beats may be lost."""
WORKERS_MAX: Final = 1_000
"""Workers that are counted; a stranger who makes names up must not fill the memory."""
REST_MAX_S: Final = 86_400.0
EPOCH_MAX: Final = 2**53
#: Who opened a breaker probes first; whoever was told waits this much longer, with a jitter of as much again.
HEAD_START_S: Final = 0.5

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Kind(StrEnum):
    """Why a message is sent."""

    BEAT = "beat"  #: every :data:`BEAT_S`, with what changed lately or is not closed
    HELLO = "hello"  #: by who begins to listen; the others answer with all they know
    STATE = "state"  #: at once, when something changed
    BYE = "bye"  #: by who stops


#: Of two states of one epoch the more careful one is right.
RANK: Final[Mapping[str, int]] = {"closed": 0, "probing": 1, "open": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What a worker says of one endpoint."""

    subscription: str  #: id of the subscription
    endpoint: str  #: id of the endpoint: news of another URL are no news
    state: str  #: a key of :data:`RANK`
    epoch: int
    rest_s: float = 0.0  #: until it may be tried again
    openings: int = 1  #: since it was last closed, 1-based
    held_s: float = 0.0  #: rest of a ``Retry-After``


class Said(NamedTuple):
    """One message."""

    kind: Kind
    worker: str
    news: Sequence[News]


def encode(said: Said) -> bytes:
    """Write a message; short keys, since beats are many."""
    rows = [
        [n.subscription, n.endpoint, n.state, n.epoch, round(n.rest_s, 3), n.openings, round(n.held_s, 3)]
        for n in said.news
    ]
    return orjson.dumps({"kind": said.kind.value, "worker": said.worker, "news": rows})


def decode(message: Mapping[str, Any]) -> Said | None:
    """Read a message that is JSON already; None when it is none of ours. A row that is wrong is left out."""
    try:
        kind, worker, rows = Kind(message["kind"]), message["worker"], message.get("news", ())
        if not isinstance(worker, str) or not _NAME.fullmatch(worker) or not isinstance(rows, list | tuple):
            return None
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    return Said(kind, worker, [news for row in rows if (news := _read(row)) is not None])


def _read(row: Any) -> News | None:
    try:
        subscription, endpoint, state, epoch, rest_s, openings, held_s = row
        news = News(
            subscription=str(subscription),
            endpoint=str(endpoint),
            state=str(state),
            epoch=int(epoch),
            rest_s=float(rest_s),
            openings=int(openings),
            held_s=float(held_s),
        )
    except (ValueError, TypeError, OverflowError):
        return None
    sound = news.state in RANK and 0 <= news.epoch <= EPOCH_MAX and 1 <= news.openings <= EPOCH_MAX
    return news if sound and 0 <= news.rest_s <= REST_MAX_S and 0 <= news.held_s <= REST_MAX_S else None


def state_name(state: State) -> str:
    """Return the name of a state: a key of :data:`RANK`."""
    match state:
        case Closed():
            return "closed"
        case Open():
            return "open"
        case Probing():
            return "probing"


def outranks(news: News, state: State) -> bool:
    """Say whether *news* replaces *state*: by its epoch, and in the same epoch by being more careful."""
    return (news.epoch, RANK[news.state]) > (state.epoch, RANK[state_name(state)])


def outdoes(news: News, older: News) -> bool:
    """Say whether *news* replaces what was heard before of the same endpoint."""
    return (news.epoch, RANK[news.state]) > (older.epoch, RANK[older.state])


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
            return Closed(epoch=news.epoch)
        case "open":
            return Open(now + news.rest_s + late_s, news.epoch, news.openings)
        case _:
            return Probing(now + news.rest_s + late_s, news.epoch, news.openings)


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

    def count(self, now: float) -> int:
        """Return how many live, oneself included."""
        for gone in [worker for worker, at in self._heard.items() if now - at > ALIVE_S]:
            del self._heard[gone]
        return 1 + len(self._heard)


def pieces(news: Iterable[News], size: int) -> Sequence[Sequence[News]]:
    """Cut *news* into pieces of at most *size*; no news are one empty piece."""
    listed = list(news)
    return [listed[start : start + size] for start in range(0, len(listed), size)] or [[]]
