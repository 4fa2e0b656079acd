"""The reason that people see agrees with the decision that workers make."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.subscription.brief import MatchNow, SubscriptionBrief, any_matches, match_now
from consumer.core.subscription.match import Matcher
from tests.support.builders.endpoints import subscription

WORDS = st.sampled_from(["a", "b", "order", "*", "#"])
PATTERNS = st.lists(st.lists(WORDS, min_size=1, max_size=4).map(".".join), min_size=1, max_size=4)
TYPES = st.lists(st.sampled_from(["a", "b", "order"]), min_size=1, max_size=5).map(".".join)


@given(PATTERNS, TYPES, st.booleans(), st.booleans())
def test_the_reason_agrees_with_the_matcher(
    patterns: list[str], kind: str, enabled: bool, paused: bool
) -> None:
    """A subscription matches for people exactly if it matches in a worker; a pause changes only the word."""
    real = replace(subscription(), tenant="acme", events=tuple(patterns), enabled=enabled, paused=paused)
    brief = SubscriptionBrief(
        id=real.id, tenant="acme", name="shop", events=patterns, enabled=enabled, paused=paused
    )

    matched = bool(Matcher([real]).match("acme", kind))

    assert any_matches([brief], kind) == matched
    assert (match_now(brief, kind) is MatchNow.DISABLED) == (not enabled)
    assert (match_now(brief, kind) is MatchNow.PAUSED) == (matched and paused)
