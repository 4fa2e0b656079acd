"""Measure the matcher: one tenant with 10,000 subscriptions, an event type of 4 words, 20 matches.

And what one changed subscription among them costs a running daemon: see :mod:`bench.reload`.

Run: python -m bench.match. Writes build/bench-match.json.
The goal counts for the look-up without its memo; the remembered one is printed beside it.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench import reload
from consumer.core.endpoint.breaker import BreakerPolicy
from consumer.core.retry.policy import POLICIES
from consumer.core.subscription.match import Matcher
from consumer.core.subscription.subscription import Subscription, subscription_id
from consumer.core.webhook.signing import HmacKey
from consumer.flow.store_sync import POLL_S

TENANT: Final = "acme"
SUBSCRIPTIONS: Final = 10_000
EVENT_TYPE: Final = "w0.w1.w2.w3"
#: Fourteen exact wishes and six with wildcards, of every shape, fit the event type.
WILD_MATCHES: Final = ("w0.#", "#.w3", "w0.*.w2.w3", "*.w1.#", "#.w2.#", "w0.#.*.w3")
EXACT_MATCHES: Final = 14
#: Words per place: few, so that most patterns share a beginning with the event type.
VOCABULARY: Final = 30
LOOKUPS: Final = 20_000
REBUILDS: Final = 50

Figure = dict[str, str | float | int | bool]


def fits(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether a topic pattern fits, by the plain definition, to build the load with."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return fits(pattern[1:], words) or (bool(words) and fits(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and fits(pattern[1:], words[1:])


def patterns(rng: random.Random) -> list[str]:
    """Return 10,000 patterns: a third with wildcards, exactly 20 that fit the event type."""
    wild_left = SUBSCRIPTIONS // 3 - len(WILD_MATCHES)
    exact_left = SUBSCRIPTIONS - SUBSCRIPTIONS // 3 - EXACT_MATCHES
    chosen = list(WILD_MATCHES) + [EVENT_TYPE] * EXACT_MATCHES
    while wild_left or exact_left:
        words = [f"w{rng.randrange(VOCABULARY)}" for _ in range(rng.choice((3, 4, 4, 5)))]
        if wild_left:
            for place in rng.sample(range(len(words)), rng.choice((1, 1, 2))):
                words[place] = rng.choice("*#")
        if fits(words, EVENT_TYPE.split(".")):
            continue
        chosen.append(".".join(words))
        wild_left, exact_left = (wild_left - 1, exact_left) if wild_left else (0, exact_left - 1)
    rng.shuffle(chosen)
    return chosen


def subscribe(pattern: str, number: int) -> Subscription:
    """Return one subscription with one pattern."""
    return Subscription(
        id=subscription_id(TENANT, str(number)),
        tenant=TENANT,
        name=str(number),
        url=f"https://hooks.example/{number}",
        events=(pattern,),
        keys=(HmacKey(bytes(32)),),
        retry=POLICIES["default"],
        breaker=BreakerPolicy(),
    )


def durations_s(work: Callable[[int], object], times: int) -> list[float]:
    """Return how long each of *times* calls took, in seconds."""
    taken = []
    for number in range(times):
        began = time.perf_counter()
        work(number)
        taken.append(time.perf_counter() - began)
    return taken


def measure() -> list[Figure]:
    """Return the figures, in the form of every proof."""
    rng = random.Random(1)
    subscriptions = [subscribe(p, n) for n, p in enumerate(patterns(rng))]
    matcher = Matcher(subscriptions)
    assert len(matcher.match_uncached(TENANT, EVENT_TYPE)) == 20
    changed = [subscribe(p, n) for n, p in enumerate(patterns(rng)[:REBUILDS])]

    def rebuild(number: int) -> Matcher:
        subscriptions[number] = changed[number]
        return matcher.replace({TENANT: subscriptions})

    afresh = durations_s(lambda _: matcher.match_uncached(TENANT, EVENT_TYPE), LOOKUPS)
    remembered = durations_s(lambda _: matcher.match(TENANT, EVENT_TYPE), LOOKUPS)
    rebuilt = durations_s(rebuild, REBUILDS)
    reloads = reload.measure(TENANT, patterns(rng))
    return [
        figure("match_us", afresh, 1e6, 50.0),
        figure("match_remembered_us", remembered, 1e6, 50.0),
        figure("match_rebuild_ms", rebuilt, 1e3, 50.0),
        figure("reload_still_ms", reloads.still_s, 1e3, 50.0),
        figure("reload_ms", reloads.took_s, 1e3, (1.0 - POLL_S) * 1e3),
    ]


def figure(name: str, taken_s: Sequence[float], scale: float, goal: float) -> Figure:
    """Return the median of *taken_s* as one figure; the goal is an upper bound."""
    value = statistics.median(taken_s) * scale
    return {
        "name": name,
        "value": round(value, 3),
        "goal": f"< {goal:g}",
        "unit": name.rsplit("_", 1)[1],
        "n": len(taken_s),
        "seconds": round(sum(taken_s), 3),
        "ok": value < goal,
    }


def main() -> int:
    """Measure, write, print; return 0 when every goal is met."""
    figures = measure()
    target = Path("build/bench-match.json")
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(figures, indent=1) + "\n")
    for row in figures:
        verdict = "ok" if row["ok"] else "MISSED"
        print(
            f"{row['name']:20} {row['value']:>9} {row['unit']}, goal {row['goal']}, n {row['n']}: {verdict}"
        )
    return 0 if all(row["ok"] for row in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
