"""The matcher finds exactly the subscriptions that AMQP topic rules match, of the same tenant only."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.breaker import BreakerPolicy
from consumer.core.errors import ConfigError
from consumer.core.retry.policy import POLICIES
from consumer.core.subscription.match import MEMO_ENTRIES, MEMO_TARGETS, Matcher, check_pattern
from consumer.core.subscription.subscription import Subscription, subscription_id
from consumer.core.subscription.wildcards import MASKS_KEPT, Wildcards
from consumer.core.webhook.signing import HmacKey

KEY = HmacKey(bytes(24))
words = st.sampled_from(["a", "b", "c"])
event_types = st.lists(words, min_size=1, max_size=5).map(".".join)
patterns = st.lists(st.sampled_from(["a", "b", "c", "*", "#"]), min_size=1, max_size=6).map(".".join)


def subscribe(tenant: str, name: str, *events: str, enabled: bool = True) -> Subscription:
    """Return a subscription to these patterns."""
    return Subscription(
        id=subscription_id(tenant, name),
        tenant=tenant,
        name=name,
        url=f"https://hooks.example/{tenant}/{name}",
        events=events,
        keys=(KEY,),
        retry=POLICIES["default"],
        breaker=BreakerPolicy(),
        enabled=enabled,
    )


@st.composite
def subscription_lists(draw: st.DrawFn) -> list[Subscription]:
    """Draw subscriptions of two tenants, some disabled, with one to three patterns each."""
    return [
        subscribe(
            draw(st.sampled_from(["x", "y"])),
            str(number),
            *draw(st.lists(patterns, min_size=1, max_size=3)),
            enabled=draw(st.booleans()) or draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 12)))
    ]


def fits(pattern: Sequence[str], event: Sequence[str]) -> bool:
    """Return whether a topic pattern matches, by the plain definition."""
    if not pattern:
        return not event
    if pattern[0] == "#":
        return any(fits(pattern[1:], event[taken:]) for taken in range(len(event) + 1))
    return bool(event) and pattern[0] in ("*", event[0]) and fits(pattern[1:], event[1:])


def plainly(subscriptions: Sequence[Subscription], tenant: str, event_type: str) -> list[Subscription]:
    """Return the matches without any index."""
    event = event_type.split(".")
    return [
        s
        for s in subscriptions
        if s.tenant == tenant and s.enabled and any(fits(p.split("."), event) for p in s.events)
    ]


@given(subscription_lists(), st.lists(event_types, max_size=5))
def test_equals_the_plain_definition(subscriptions: list[Subscription], types: list[str]) -> None:
    """SW-33, fault 16: the same subscriptions, each once, in order, of this tenant only."""
    matcher = Matcher(subscriptions)

    for tenant in ("x", "y", "", "z"):
        for event_type in types + types:  # the second round is answered from the memo
            assert list(matcher.match(tenant, event_type)) == plainly(subscriptions, tenant, event_type)


@given(subscription_lists(), subscription_lists(), event_types)
def test_replacing_one_tenant_leaves_the_others(
    before: list[Subscription], after: list[Subscription], event_type: str
) -> None:
    """SW-33: a change affects matches and ids of its tenant only; the old matcher stays unchanged."""
    old = Matcher(before)
    old.match("x", event_type)
    mine = [s for s in after if s.tenant == "x"]
    others = [s for s in before if s.tenant == "y"]

    new = old.replace({"x": mine})

    assert list(new.match("x", event_type)) == plainly(mine, "x", event_type)
    assert list(new.match("y", event_type)) == plainly(others, "y", event_type)
    assert list(old.match("x", event_type)) == plainly(before, "x", event_type)
    assert {s.id for s in new.subscriptions} == {s.id for s in mine + others}
    for subscription in mine + others:
        assert new.get(subscription.id) is subscription
    for gone in {s.id for s in before} - {s.id for s in mine + others}:
        assert new.get(gone) is None
        assert old.get(gone) is not None


@given(subscription_lists(), st.data())
def test_disabled_subscriptions_are_matched_no_more(before: list[Subscription], data: st.DataObject) -> None:
    """Fault 38: each disabled subscription is found only by its id; the old matcher stays unchanged."""
    matcher, now = Matcher(before), list(before)
    event_type = data.draw(event_types)
    for at in data.draw(st.permutations(range(len(before)))):
        older, then = matcher, list(now)
        now[at] = replace(now[at], enabled=False)

        matcher = older.without(now[at])

        for tenant in ("x", "y"):
            assert list(matcher.match(tenant, event_type)) == plainly(now, tenant, event_type)
            assert list(older.match(tenant, event_type)) == plainly(then, tenant, event_type)
        assert matcher.get(now[at].id) is now[at]


@pytest.mark.parametrize(
    ("pattern", "event_type", "expected"),
    [
        ("#", "a", True),
        ("#", "a.b.c.d", True),
        ("*", "a", True),
        ("*", "a.b", False),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("a.#", "b", False),
        ("#.c", "a.b.c", True),
        ("#.c", "c", True),
        ("a.*.c", "a.b.c", True),
        ("a.*.c", "a.c", False),
        ("a.#.c", "a.c", True),
        ("#.#", "a", True),
        ("#.*.#", "a", True),
        ("order.*", "order.created", True),
        ("order.*", "order.created.late", False),
        ("order.*", "Order.created", False),
        ("producto.*", "producto.creado", True),
    ],
)
def test_topic_rules(pattern: str, event_type: str, expected: bool) -> None:
    """SW-33, S0-4: ``*`` is one word, ``#`` any number of words, and case matters."""
    matcher = Matcher([subscribe("x", "1", pattern)])

    assert bool(matcher.match("x", event_type)) is expected


def test_tenants_are_compared_whole() -> None:
    """Fault 16: pattern characters in a tenant's name have no effect."""
    matcher = Matcher([subscribe("acme", "1", "#")])

    for tenant in (".*", "acm", "acme ", "ACME", "*", "#", "acme\n"):
        assert not matcher.match(tenant, "a")


def test_get_also_finds_disabled_ones() -> None:
    """Fault 31: a disabled subscription does not match, but is found by its id."""
    off = subscribe("x", "1", "#", enabled=False)
    matcher = Matcher([off])

    assert matcher.match("x", "a") == ()
    assert matcher.get(off.id) is off
    assert matcher.get("sub_unknown") is None
    assert matcher.subscriptions == (off,)


def test_hostile_patterns_cost_no_backtracking() -> None:
    """Fault 8: the longest chain of ``#`` against a long type needs no backtracking."""
    hostile = ".".join(["#", "a"] * 30 + ["#", "b"])
    matcher = Matcher([subscribe("x", "1", hostile)])

    assert not matcher.match("x", ".".join(["a"] * 120))


def test_answers_keep_the_given_order() -> None:
    """SW-33: targets keep the order of the file, however many subscriptions are between them."""
    found = {9, 40, 41, 999}
    given_order = [subscribe("x", str(n), "a" if n in found else "b") for n in range(1000)]

    assert [s.name for s in Matcher(given_order).match("x", "a")] == ["9", "40", "41", "999"]


def test_memo_is_bounded() -> None:
    """Fault 8: a producer with endless event types or a huge fan-out cannot fill the memory."""
    many = [subscribe("x", str(n), "big") for n in range(MEMO_TARGETS + 1)]
    matcher = Matcher([*many, subscribe("x", "all", "t.*")])
    big = matcher.match("x", "big")
    assert len(big) == MEMO_TARGETS + 1
    assert matcher.match("x", "big") is not big  # found anew, so not kept

    answers = [matcher.match("x", f"t.{number}") for number in range(MEMO_ENTRIES + 1)]

    assert all(len(answer) == 1 for answer in answers)
    assert all(matcher.match("x", f"t.{n}") is answers[n] for n in range(1, MEMO_ENTRIES + 1))
    assert matcher.match("x", "t.0") is not answers[0]  # the oldest made room


def test_memo_never_outlives_a_change() -> None:
    """SW-33: a change clears the cached answers."""
    first = subscribe("x", "1", "a")
    matcher = Matcher([first])
    assert list(matcher.match("x", "a")) == [first]

    assert not matcher.replace({"x": [replace(first, enabled=False)]}).match("x", "a")
    assert not matcher.replace({"x": []}).match("x", "a")


def test_refuses_strangers_and_doubles() -> None:
    """Fault 16: a tenant's list contains only its own subscriptions, and an id names only one."""
    matcher = Matcher()
    with pytest.raises(ValueError, match="belongs to the tenant 'x'"):
        matcher.replace({"x": [subscribe("y", "1", "#")]})
    with pytest.raises(ValueError, match="two subscriptions"):
        Matcher([subscribe("x", "1", "a"), subscribe("x", "1", "b")])


@pytest.mark.parametrize("pattern", ["a", "*", "#", "a.b_1.C", "a.*.#", "#.#", "a" * 255])
def test_takes_patterns(pattern: str) -> None:
    """SW-21, SW-33: words of letters, digits and underscores, and the two wildcards."""
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize(
    "pattern", ["", ".", "a.", ".a", "a..b", "a b", "a-b", "a*", "**", "##", "a.b\n", "é", "a" * 256]
)
def test_refuses_patterns_that_fit_nothing(pattern: str) -> None:
    """SW-21: a pattern that matches no event type is refused at once."""
    with pytest.raises(ConfigError, match="pattern"):
        check_pattern(pattern)


@pytest.mark.parametrize("seed", ["#.*.#.a", "*", "#.a", "a.*", "#.a.#.b", "a"])
def test_no_pattern_costs_more_than_its_length(seed: str) -> None:
    """Fault 86: matching a type of 127 words against 1,000 patterns takes no longer than compiling them.

    Walking a trie took 70 times as long: 4.6 s.
    """
    heads = list(product("#*a", repeat=7))[:1_000]
    longest = [".".join((*head, *[seed] * 127))[:253] for head in heads]
    events = [pattern.rstrip(".") + ".x" for pattern in longest]
    event_type = ".".join(["a"] * 127)

    began = time.thread_time()
    matcher = Matcher([subscribe("x", str(n), pattern) for n, pattern in enumerate(events)])
    compiled = time.thread_time()
    found = matcher.match_uncached("x", event_type)
    matched = time.thread_time()

    assert not found
    assert matched - compiled < 2 * (compiled - began)


@given(st.lists(patterns, min_size=1, max_size=40), st.lists(event_types, min_size=1, max_size=3))
def test_many_patterns_are_matched_as_each_by_itself(given_patterns: list[str], types: list[str]) -> None:
    """SW-33: neighbouring patterns never affect each other."""
    wildcards = Wildcards(given_patterns)

    for event_type in types:
        event = event_type.split(".")
        wanted = [n for n, each in enumerate(given_patterns) if fits(each.split("."), event)]
        assert sorted(wildcards.matching(event)) == wanted


def test_only_so_many_masks_are_kept() -> None:
    """Fault 86: the number of cached masks is bounded, because producers choose the words."""
    words_wanted = [f"w{number}" for number in range(MASKS_KEPT + 50)]
    wildcards = Wildcards([f"{word}.*" for word in words_wanted])

    for _ in range(2):
        assert [wildcards.matching([word, "z"]) for word in words_wanted] == [
            [number] for number in range(len(words_wanted))
        ]
    assert len(wildcards._masks) == MASKS_KEPT
