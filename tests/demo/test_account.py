"""The account of the demo finds lost deliveries, and its headlines describe the current events."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo import cast
from demo.account import REMEMBERED, Book, Pair, Request
from demo.cast import ENDPOINTS, TENANTS, endpoints_of
from demo.headlines import NOTHING, SHOWN_S, STALE_S, News

NOW = 1_700_000_000.0


def book(*tenants: str) -> Book:
    """A book that owes one event of each tenant: ``e0``, ``e1`` ..."""
    owing = Book()
    for number, tenant in enumerate(tenants):
        owing.made(f"e{number}", tenant, NOW)
        owing.confirmed(f"e{number}")
    return owing


def request(
    event_id: str, endpoint: str, status: int | None = 200, *, at: float = NOW + 1, good: bool = True
) -> Request:
    """Return one request that took no time."""
    return Request(Pair(event_id, endpoint), at, at, status, good)


def test_every_event_goes_to_healthy_and_to_a_trouble_of_its_own() -> None:
    """Six endpoints, five tenants; every pair is owed until it has ended."""
    assert len(ENDPOINTS) == 6
    assert [[e.name for e in endpoints_of(tenant)] for tenant in TENANTS] == [
        ["healthy", name] for name in ("slow", "flaky", "dead", "gone", "busy")
    ]
    assert book("acme", "birch").unaccounted() == [
        Pair("e0", "healthy"),
        Pair("e0", "slow"),
        Pair("e1", "healthy"),
        Pair("e1", "flaky"),
    ]


@pytest.mark.parametrize("status", [None, 301, 401, 410, 429, 503])
def test_only_a_2xx_or_a_parked_entry_ends_a_pair(status: int | None) -> None:
    """SW-35: after any other answer, the pair is unaccounted."""
    owing = book("cedar")

    owing.requested(request("e0", "healthy", 204))
    owing.requested(request("e0", "dead", status))
    before = owing.unaccounted()
    owing.parked(Pair("e0", "dead"))

    assert before == [Pair("e0", "dead")]
    assert owing.unaccounted() == []


def test_an_event_is_owed_once_the_broker_took_it() -> None:
    """A receiver may be faster than the confirm; an event that the broker never took is not owed."""
    owing = Book()
    owing.made("e0", "acme", NOW)
    owing.requested(request("e0", "healthy"))

    assert (owing.unaccounted(), owing.pairs(), owing.strangers) == ([], 0, 0)

    owing.confirmed("e0")

    assert (owing.unaccounted(), owing.pairs()) == ([Pair("e0", "slow")], 2)


def _all_seen(owing: Book) -> None:
    owing.requested(request("e0", "gone", 410, at=NOW + 1))
    owing.parked(Pair("e0", "gone"))
    owing.requested(request("e1", "healthy", at=NOW + 2))
    owing.disabled = True


def _not_disabled(owing: Book) -> None:
    _all_seen(owing)
    owing.disabled = False


def _no_410(owing: Book) -> None:
    owing.requested(request("e1", "healthy", at=NOW + 2))
    owing.disabled = True


def _sibling_before(owing: Book) -> None:
    _all_seen(owing)
    owing.requested(request("e1", "healthy", at=NOW + 0.5))


def _something_sent(owing: Book) -> None:
    _all_seen(owing)
    owing.requested(request("e1", "gone", 503, at=NOW + 2))


def _sibling_unseen(owing: Book) -> None:
    owing.requested(request("e0", "gone", 410, at=NOW + 1))
    owing.disabled = True


@pytest.mark.parametrize(
    ("seen", "ended"),
    [
        (_all_seen, True),
        (_not_disabled, False),
        (_no_410, False),
        (_sibling_before, False),
        (_something_sent, False),
        (_sibling_unseen, False),
    ],
)
def test_unmatched_needs_all_of_its_evidence(seen: Callable[[Book], None], *, ended: bool) -> None:
    """Fault 38: an event is unmatched only after the 410, with its endpoint disabled and no request made."""
    owing = book("dune", "dune")

    seen(owing)
    owing.settle_unmatched()

    assert (Pair("e1", "gone") not in owing.unaccounted()) == ended


def test_what_should_not_be_is_counted() -> None:
    """A bad signature, an unknown request and a second delivery are counted."""
    owing = book("acme")

    owing.requested(request("e0", "healthy", good=False))
    owing.requested(request("e0", "healthy"))
    owing.requested(request("e9", "healthy"))
    owing.requested(request("e0", "dead"))

    assert (owing.bad_signatures, owing.repeated, owing.strangers) == (1, 1, 2)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["request", "park", "gone"]),
        st.integers(0, 6),
        st.sampled_from([e.name for e in ENDPOINTS]),
        st.sampled_from([None, 200, 410, 503]),
        st.floats(0, 5),
    ),
    max_size=60,
)


@given(STEPS)
def test_the_columns_always_add_up(steps: list[tuple[str, int, str, int | None, float]]) -> None:
    """In any order of observations, delivered + waiting + parked + unmatched is the number owed."""
    owing = book(*TENANTS)

    for kind, number, endpoint, status, at in steps:
        if kind == "request":
            owing.requested(request(f"e{number}", endpoint, status, at=NOW + at))
        elif kind == "park":
            owing.parked(Pair(f"e{number}", endpoint))
        else:
            owing.disabled = True
            owing.settle_unmatched()

    rows = list(owing.rows())
    assert sum(r.delivered + r.waiting + r.parked + r.unmatched for r in rows) == owing.pairs() == 10
    assert sum(r.waiting for r in rows) == len(owing.unaccounted())
    assert all(min(r.delivered, r.parked, r.unmatched) >= 0 for r in rows)


def test_a_long_play_does_not_fill_the_memory() -> None:
    """Pairs that ended long ago are forgotten, but the sums are not."""
    owing = Book()
    events = REMEMBERED // 2 + 100

    for number in range(events):
        owing.made(f"e{number}", "acme", NOW)
        owing.confirmed(f"e{number}")
        owing.requested(request(f"e{number}", "healthy"))
        owing.requested(request(f"e{number}", "slow", at=NOW + 2))

    assert len(owing._ended) == REMEMBERED
    assert [row.delivered for row in owing.rows()][:2] == [events, events]
    assert [row.half_s for row in owing.rows()][:3] == [1.0, 2.0, None]


def test_the_news_is_what_was_said_least_and_stays_a_while() -> None:
    """One line describes a current event."""
    news = News(now=NOW)
    first = news.headline(NOW)
    for at in (0.0, 0.1):
        news.now = NOW + SHOWN_S + at
        news.breaker("dead", "open")
    news.now += 0.1
    news.disabled("gone")

    said = [news.headline(NOW + SHOWN_S * n + 0.2) for n in (1, 1.5, 2)]
    news.now = NOW + 3 * SHOWN_S
    news.parked("dead", "expired")
    news.breaker("dead", "open")
    later = news.headline(NOW + 3 * SHOWN_S + 0.3)
    stale = news.headline(NOW + 3 * SHOWN_S + STALE_S + 1)

    assert first == stale == NOTHING
    assert "disabled" in said[0]
    assert said[1] == said[0]
    assert "breaker opens" in said[2]
    assert "parked" in later


KINDS: list[Callable[[News], None]] = [
    lambda news: news.breaker("healthy", "open"),
    lambda news: news.breaker("healthy", "probing"),
    lambda news: news.breaker("healthy", "closed"),
    lambda news: news.parked("healthy", "expired"),
    lambda news: news.parked("healthy", "exhausted"),
    lambda news: news.parked("healthy", "disabled"),
    lambda news: news.disabled("gone"),
    lambda news: news.requested(request("e", "busy", 429), cast.BUSY_S),
    lambda news: news.requested(request("e", "flaky", 503), None),
    lambda news: news.requested(request("e", "slow", 200), None),
]


@pytest.mark.parametrize("happens", KINDS)
def test_each_kind_of_news_fits_on_a_narrow_terminal(happens: Callable[[News], None]) -> None:
    """A person reads it at a glance: it fits into 80 columns behind its prefix `now: `."""
    news = News(now=NOW)

    happens(news)
    said = news.headline(NOW)

    assert said != NOTHING
    assert len(said) <= 75
    assert len(NOTHING) <= 75
