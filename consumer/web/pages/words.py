"""Describe states in words, with a tone for the colour and the shape.

Data flow: :class:`Condition` -> :func:`badge`, :func:`sentence` -> templates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from consumer.core.history.wording import span
from consumer.web.pages.filters import clock_time
from consumer.web.pages.views.parts import Condition, EndpointLine, State, Tone


class Badge(NamedTuple):
    """A word with its tone."""

    word: str
    tone: Tone


_BADGES: Final = {
    State.WELL: Badge("well", Tone.GOOD),
    State.DEGRADED: Badge("degraded", Tone.WARN),
    State.OPEN: Badge("failing", Tone.BAD),
    State.PROBING: Badge("probing", Tone.WARN),
    State.FORCED: Badge("held open", Tone.BAD),
    State.RESTING: Badge("resting", Tone.REST),
    State.PAUSED: Badge("paused", Tone.REST),
    State.DISABLED: Badge("disabled", Tone.PLAIN),
}
_ORDER: Final = (
    *(State.OPEN, State.FORCED, State.PROBING, State.DEGRADED),
    *(State.RESTING, State.PAUSED, State.DISABLED, State.WELL),
)
#: Words of states that other pages show: jobs, deliveries, verdicts of attempts.
_TONES: Final = {
    "delivered": Tone.GOOD,
    "done": Tone.GOOD,
    "running": Tone.LIVE,
    "delivering": Tone.LIVE,
    "waiting": Tone.WARN,
    "retry": Tone.WARN,
    "defer": Tone.WARN,
    "rerouted": Tone.WARN,
    "paused": Tone.REST,
    "parked": Tone.BAD,
    "park": Tone.BAD,
    "failed": Tone.BAD,
    "unreadable": Tone.BAD,
    "expired": Tone.PLAIN,
}


def badge(condition: Condition) -> Badge:
    """Return the word for the state of an endpoint."""
    return _BADGES[condition.state]


def tone_of(word: str) -> Tone:
    """Return the tone of a state in one word; an unknown word is plain."""
    return _TONES.get(word, Tone.PLAIN)


def sentence(condition: Condition, now: float) -> str:
    """Return the state of an endpoint as a sentence or two; *now* is in Unix seconds."""
    since = "" if condition.since is None else f" since {clock_time(condition.since, now)}"
    why = f" Reason: {condition.reason}." if condition.reason else ""
    match condition.state:
        case State.WELL:
            return f"Webhooks are delivered. The breaker is closed{since}."
        case State.DEGRADED:
            return "Webhooks are sent, and many of them fail. The breaker is still closed." + why
        case State.OPEN:
            return f"Nothing is sent{since}. The breaker is open; {_probe(condition, now)}.{why}"
        case State.PROBING:
            return f"One probe is in flight. Its answer decides whether the breaker closes.{why}"
        case State.FORCED:
            return f"Nothing is sent{since}. An operator opened the breaker; only a reset closes it.{why}"
        case State.RESTING:
            until = "" if condition.until is None else f" until {clock_time(condition.until, now)}"
            return f"The endpoint asked for a rest{until}. Deliveries wait.{why}"
        case State.PAUSED:
            return f"Paused by an operator{since}. Deliveries wait and lose no attempt.{why}"
        case State.DISABLED:
            return f"Disabled{since}. New events do not match it.{why}"


def _probe(condition: Condition, now: float) -> str:
    if condition.until is None:
        return "the time of the next probe is not known"
    if condition.until <= now:
        return "the next delivery is the probe"
    return f"the next probe goes in {span(condition.until - now)}"


def by_trouble(lines: Iterable[EndpointLine]) -> Sequence[EndpointLine]:
    """Return the endpoints with the most serious trouble first."""

    def place(line: EndpointLine) -> tuple[int, float, int, str]:
        ratio = 1.0 if line.success_ratio is None else line.success_ratio
        return _ORDER.index(line.condition.state), ratio, -line.waiting - line.parked, line.full_name

    return sorted(lines, key=place)
