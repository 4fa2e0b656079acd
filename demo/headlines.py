"""Choose the most interesting recent event and describe it in one line. Pure.

Data flow: requests, breakers, parked, disabled -> recent news by kind -> headline(now).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from demo.account import Request
from demo.cast import BREAKER, BUSY_S, LONGEST_S, RETRY

SHOWN_S: Final = 3.0  #: seconds for which a line stays
STALE_S: Final = 5.0  #: age in seconds from which news are dropped

NOTHING: Final = "each event goes to healthy, and to one endpoint with a trouble of its own"
BREAKERS: Final[Mapping[str, str]] = {
    "open": f"{{}} failed {BREAKER['failures']} times: its breaker opens for {BREAKER['cooldown_s']} s",
    "probing": "{}: one probe is sent, the other deliveries wait behind it",
    "closed": "{} is back: its breaker closes",
}
PARKED: Final[Mapping[str, str]] = {
    "expired": f"{{}} took nothing for {LONGEST_S} s: the delivery is parked, for an operator",
    "exhausted": f"{{}} failed all {RETRY['max_attempts']} attempts: the delivery is parked, for an operator",
    "disabled": "{} is disabled: its waiting deliveries are parked, not lost",
}


class _Item(NamedTuple):
    at: float  #: Unix seconds
    text: str


@dataclass(slots=True)
class News:
    """Collects news, and shows the kind that has been shown least."""

    now: float = 0.0  #: Unix seconds of the current look
    _fresh: dict[str, _Item] = field(default_factory=dict)  #: the latest item of each kind
    _said: Counter[str] = field(default_factory=Counter)
    _shown: str = NOTHING
    _until: float = 0.0

    def look(self, now: float) -> None:
        """Take in what follows as news of *now*, in Unix seconds."""
        self.now = now

    def requested(self, request: Request, retry_after_s: int | None) -> None:
        """Add one request and the Retry-After of its answer."""
        name = request.pair.endpoint
        if retry_after_s == BUSY_S:
            self._add("busy", f"{name} asked for {BUSY_S} s of rest: it gets nothing before that")
        elif name == "flaky" and request.status == 503:
            self._add("flaky", f"{name} failed: {RETRY['base_s']} s in RabbitMQ, then again with the same id")
        elif name == "slow" and request.status == 200:
            self._add(
                "slow",
                f"{name} takes {request.ended - request.began:.0f} s for each: only its own deliveries wait",
            )

    def breaker(self, name: str, state: str) -> None:
        """Add a change of a breaker."""
        self._add(f"breaker {name} {state}", BREAKERS[state].format(name))

    def parked(self, name: str, reason: str) -> None:
        """Add a delivery that was given up."""
        if reason in PARKED:
            self._add(f"parked {name} {reason}", PARKED[reason].format(name))

    def disabled(self, name: str) -> None:
        """Add a disabled subscription."""
        self._add("disabled", f"{name} answered 410: it is disabled, and new events pass it by")

    def headline(self, now: float) -> str:
        """Return the line for *now*; it changes every few seconds at most."""
        if now >= self._until:
            fresh = {kind: item for kind, item in self._fresh.items() if item.at >= now - STALE_S}
            self._fresh = fresh
            if fresh:
                kind = min(fresh, key=lambda each: (self._said[each], -fresh[each].at))
                self._said[kind] += 1
                self._shown = self._fresh.pop(kind).text
            else:
                self._shown = NOTHING
            self._until = now + SHOWN_S
        return self._shown

    def _add(self, kind: str, text: str) -> None:
        self._fresh[kind] = _Item(self.now, text)
