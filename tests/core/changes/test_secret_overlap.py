"""A new secret never displaces one that receivers may still need."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.changes.merge import StoredEntry, date_secrets, merge
from consumer.core.changes.secret_overlap import GRACE_S, describe_secrets, still_signing
from consumer.core.changes.steps import drop_old, limit_overlap, rotate
from consumer.core.errors import ConfigError
from consumer.core.subscription.entry import SECRETS_MAX
from tests.support.builders.subscriptions import RULES, counting, entry, kept, parsed, secret_of

T0 = 1_790_000_000.0
"""2026-09-21T14:13:20Z."""
ENDS = "2026-09-22T14:13:21Z"
"""One second and a day later: the oldest of :func:`full` was replaced a second after T0."""


def full() -> Sequence[StoredEntry]:
    """Return a subscription with ten secrets, rotated once a second."""
    entries = kept(entry("shop", secrets=[secret_of("0")]))
    for number in range(1, SECRETS_MAX):
        entries = rotate(entries, entries[0].id, secret_of(str(number)), now=T0 + number).entries
    return entries


def secrets(entries: Sequence[StoredEntry]) -> list[str]:
    """Return the secrets of the one subscription, newest first."""
    return list(entries[0].secret_texts())


def listed(*names: str) -> list[dict[str, object]]:
    """Return an entry of a file with these secrets."""
    return [entry("shop", secrets=[secret_of(name) for name in names])]


NINE = [str(number) for number in range(SECRETS_MAX - 1, 0, -1)]
"""All but the oldest, newest first."""


def test_an_eleventh_secret_is_refused_until_the_oldest_has_had_its_grace() -> None:
    """The error names the end of the oldest secret's grace; after it, the new secret displaces the oldest."""
    entries = full()
    before = secrets(entries)

    with pytest.raises(ConfigError, match=r"acme/shop: secrets: 10 sign already.*grace") as raised:
        rotate(entries, entries[0].id, secret_of("new"), now=T0 + GRACE_S)
    after = rotate(entries, entries[0].id, secret_of("new"), now=T0 + 1 + GRACE_S).entries

    assert f"ends at {ENDS}" in str(raised.value)
    assert secret_of("new") not in str(raised.value)
    assert secrets(after) == [secret_of("new"), *before[:-1]]


def test_a_file_is_held_to_the_same() -> None:
    """An apply may not displace the oldest secret within its grace."""
    entries = full()
    file = parsed(*listed("new", *NINE))

    with pytest.raises(ConfigError, match=ENDS):
        date_secrets(merge(entries, file, counting()), T0 + 100)

    assert secrets(date_secrets(merge(entries, file, counting()), T0 + 1 + GRACE_S).entries)[0] == secret_of(
        "new"
    )


def test_a_row_that_another_ends_is_ended() -> None:
    """Secrets that a file or --drop-old removes end at once; a file may replace its only secret."""
    entries, now = full(), T0 + 100

    assert len(date_secrets(merge(entries, parsed(*listed(*NINE)), counting()), now).entries[0].secrets) == 9
    assert drop_old(entries, entries[0].id).entries[0].replaced_at == ()
    one = kept(entry("shop", secrets=[secret_of("a")]))
    assert secrets(date_secrets(merge(one, parsed(*listed("b")), counting()), now).entries) == [
        secret_of("b")
    ]


def test_an_apply_that_changes_nothing_keeps_the_moments() -> None:
    """Applying a file twice changes nothing, even if time passed in between."""
    entries = full()

    again = date_secrets(merge(entries, parsed(entry("shop")), counting()), T0 + 5_000)
    listed_again = date_secrets(merge(entries, parsed(*listed(*NINE, "0")), counting()), T0 + 5_000)

    assert (again.changed, listed_again.changed) == ([], [])
    moments = [at - int(T0) if at else 0 for at in again.entries[0].replaced_at]
    assert moments == [0, 9, 8, 7, 6, 5, 4, 3, 2, 1]


def test_replaced_secrets_end_by_themselves_after_a_day() -> None:
    """SW-32: after 24 h only the new secret signs; changes meanwhile do not move that time."""
    one = kept(entry("shop", secrets=[secret_of("a")]))
    rotated = limit_overlap(rotate(one, one[0].id, secret_of("b"), now=T0), int(T0 + GRACE_S))
    applied = merge(rotated.entries, parsed(*listed("b", "a")), counting())
    again = merge(rotated.entries, parsed(entry("shop")), counting())

    for entries in (rotated.entries, applied.entries, again.entries):
        built = entries[0].build(RULES)
        assert list(built.keys_at(T0 + GRACE_S - 1)) == list(built.keys)
        assert list(built.keys_at(T0 + GRACE_S)) == [built.keys[0]]
        assert still_signing(secrets(entries), entries[0].ends_at, T0 + GRACE_S) == [secret_of("b")]
    assert (applied.changed, again.changed) == ([], [])
    [later] = rotate(rotated.entries, one[0].id, secret_of("c"), now=T0 + GRACE_S).entries
    assert secrets([later]) == [secret_of("c"), secret_of("b")]


@pytest.mark.parametrize("overlap", [10, 100_000])
def test_a_rotation_moves_no_end_that_was_promised_earlier(overlap: int) -> None:
    """SW-32: no overlap counts for older secrets; one without an end keeps none."""
    entries = kept(*listed("c", "b", "a"))
    first = limit_overlap(rotate(entries, entries[0].id, secret_of("d"), now=T0), int(T0) + 5_000)
    second = limit_overlap(rotate(first.entries, entries[0].id, secret_of("e"), now=T0), int(T0) + overlap)

    assert first.entries[0].ends_at == (0, int(T0) + 5_000, 0, 0)
    assert second.entries[0].ends_at == (0, int(T0) + overlap, int(T0) + 5_000, 0, 0)


def test_each_replaced_secret_has_its_own_end() -> None:
    """A description names the end of each replaced secret; the newest one has none."""
    entries = kept(entry("shop", secrets=[secret_of("a")]))
    first = limit_overlap(rotate(entries, entries[0].id, secret_of("b"), now=T0), int(T0) + 100)
    second = limit_overlap(rotate(first.entries, entries[0].id, secret_of("c"), now=T0 + 1), int(T0) + 500)

    [now] = second.entries
    assert now.ends_at == (0, int(T0) + 500, int(T0) + 100)
    assert describe_secrets(now.replaced_at, now.ends_at, 3, T0 + 120) == [
        "newest: 1 min old",
        "older: 2 min old, replaced 1 min ago, ends 2026-09-21T14:21:40Z",
        "older: of unknown age, replaced 2 min ago, ended 2026-09-21T14:15:00Z",
    ]


def test_a_secret_of_unknown_age_is_not_given_up() -> None:
    """A secret without a known time of replacement is kept, as in a store of an earlier release."""
    entries = kept(*listed(*NINE, "0"))

    with pytest.raises(ConfigError, match=r"at an unknown time.*--drop-old"):
        rotate(entries, entries[0].id, secret_of("new"), now=T0)


@given(st.lists(st.floats(min_value=0, max_value=2 * GRACE_S), min_size=1, max_size=30))
def test_no_rotation_ends_a_secret_early(pauses: list[float]) -> None:
    """SW-32: for all pauses between rotations, a displaced secret was replaced a full grace before."""
    entries, now, replaced = kept(entry("shop", secrets=[secret_of("first")])), T0, dict[str, float]()
    for number, pause in enumerate(pauses):
        now += pause
        before = secrets(entries)
        try:
            entries = rotate(entries, entries[0].id, secret_of(f"n{number}"), now=now).entries
        except ConfigError:
            assert now < replaced[before[-1]] + GRACE_S
            continue
        replaced[before[0]] = now
        for gone in set(before) - set(secrets(entries)):
            assert now >= int(replaced[gone]) + GRACE_S
