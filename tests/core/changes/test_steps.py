"""One step finds an entry by its name, changes it as asked, and leaves the others alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.changes.merge import Merge, StoredEntry, merge
from consumer.core.changes.steps import (
    Address,
    Note,
    add,
    disable,
    drop_old,
    enable,
    find,
    full_name,
    remove,
    rotate,
)
from consumer.core.errors import ConfigError
from consumer.core.subscription.entry import SECRETS_MAX
from tests.support.builders.subscriptions import counting, entry, kept, kept_sets, parsed, secret_of

NOTE = Note("by hand", "2026-01-02T03:04:05Z")
STEPS = st.lists(
    st.tuples(st.sampled_from(["enable", "disable", "rotate", "drop", "remove"]), st.integers(0, 4)),
    max_size=12,
)


def documents(entries: Sequence[StoredEntry]) -> list[dict[str, object]]:
    """Return the stored form of *entries*."""
    return [one.document() for one in entries]


def secrets(one: StoredEntry) -> list[str]:
    """Return the entry's secrets, newest first."""
    return [secret.get_secret_value() for secret in one.secrets]


@given(kept_sets(least=1))
def test_each_is_found_by_id_and_by_full_name(entries: Sequence[StoredEntry]) -> None:
    """An id, tenant/name, and tenant and name find the same subscription."""
    for one in entries:
        assert find(entries, Address(text=one.id)) is one
        assert find(entries, Address(text=full_name(one))) is one
        assert find(entries, Address(tenant=one.tenant, name=one.label)) is one


def test_a_bare_name_is_enough_while_only_one_has_it() -> None:
    """A name that two tenants use is an error that names both subscriptions."""
    entries = kept(entry("shop", "acme"), entry("shop", "globex"), entry("till", "acme"))

    assert full_name(find(entries, Address(text="till"))) == "acme/till"
    assert full_name(find(entries, Address(name="till"))) == "acme/till"
    with pytest.raises(ConfigError, match="is the name of 2 subscriptions; choose one of acme/shop"):
        find(entries, Address(text="shop"))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Address(text="acme/shpo"), "no subscription 'acme/shpo'; did you mean acme/shop?"),
        (Address(text="globex/shop"), "no subscription 'globex/shop'; did you mean acme/shop?"),
        (Address(text="Sho"), "no subscription 'Sho'; did you mean acme/shop?"),
        (Address(tenant="acme", name="shopp"), "no subscription 'acme/shopp'; did you mean acme/shop?"),
        (Address(text="zzz/qqq"), "no subscription 'zzz/qqq'; see `leveret subscriptions list`"),
    ],
)
def test_a_miss_names_similar_ones(wanted: Address, expected: str) -> None:
    """An unknown name is an error that suggests similar names."""
    with pytest.raises(ConfigError) as raised:
        find(kept(entry("shop")), wanted)

    assert str(raised.value) == expected


def test_add_refuses_a_name_or_url_that_is_taken() -> None:
    """A tenant's name or URL cannot be used twice; the error names the remedy."""
    entries = kept(entry("shop"))
    [same_name] = parsed(entry("shop", url="https://else.example/"))
    [same_url] = parsed(entry("other", url=entry("shop")["url"]))

    with pytest.raises(ConfigError, match="acme/shop already exists; choose another name"):
        add(entries, same_name, counting())
    with pytest.raises(ConfigError, match="tenant acme already has this URL"):
        add(entries, same_url, counting())


def test_add_generates_a_secret_to_be_shown() -> None:
    """Absent secrets are generated and shown once; given ones are never shown."""
    [bare] = parsed(entry("new"))
    [own] = parsed(entry("own", secrets=[secret_of("own")]))

    first = add(kept(entry("shop")), bare, counting())
    second = add(first.entries, own, counting())

    assert [one.label for one in first.generated] == ["new"]
    assert list(second.generated) == []
    assert [one.label for one in second.entries] == ["shop", "new", "own"]


@given(kept_sets(least=1), st.data())
def test_enable_undoes_disable(entries: Sequence[StoredEntry], data: st.DataObject) -> None:
    """Enable restores a disabled entry; both steps are idempotent."""
    one = data.draw(st.sampled_from(list(entries)))
    started = enable(entries, one.id).entries

    off = disable(started, one.id, NOTE)
    again = disable(off.entries, one.id, Note("later", "2027-01-01T00:00:00Z"))
    on = enable(off.entries, one.id)

    [now] = off.changed
    assert (now.enabled, now.disabled_reason, now.disabled_at) == (False, "by hand", NOTE.at)
    assert not again.changed
    assert documents(again.entries) == documents(off.entries)
    assert documents(on.entries) == documents(started)
    assert not enable(on.entries, one.id).changed


def test_disabling_by_hand_outlives_an_apply() -> None:
    """The next apply keeps an operator's disable and reports it; --enable ends it."""
    file = parsed(entry("shop"))
    off = disable(kept(entry("shop")), find(kept(entry("shop")), Address(text="shop")).id, NOTE).entries

    applied = merge(off, file, counting())
    forced = merge(off, file, counting(), enable=True)

    assert not applied.entries[0].enabled
    assert [one.label for one in applied.still_disabled] == ["shop"]
    assert forced.entries[0].enabled


@given(kept_sets(least=1), st.integers(1, SECRETS_MAX + 3))
def test_rotate_keeps_the_newest_secrets(entries: Sequence[StoredEntry], times: int) -> None:
    """SW-32: the new secret is first, the number is bounded, and drop_old ends the overlap."""
    one = entries[0]
    for number in range(times):
        step = rotate(entries, one.id, secret_of(f"rotated {number}"))
        assert [e.id for e in step.generated] == [one.id]
        entries = step.entries

    had = [secret_of(f"rotated {n}") for n in reversed(range(times))] + secrets(one)
    now = find(entries, Address(text=one.id))
    assert secrets(now) == had[:SECRETS_MAX]
    alone = drop_old(entries, one.id)
    assert secrets(find(alone.entries, Address(text=one.id))) == had[:1]
    assert not drop_old(alone.entries, one.id).changed


def test_rotate_refuses_a_secret_that_is_no_new_one() -> None:
    """Fault 29: a secret already in use, another tenant's, or a bad one is refused and not repeated."""
    mine, theirs = secret_of("mine"), secret_of("theirs")
    entries = kept(entry("shop", secrets=[mine]), entry("till", "globex", secrets=[theirs]))
    shop = find(entries, Address(text="acme/shop")).id

    for secret, expected in (
        (mine, "acme/shop already has that secret"),
        (theirs, "has the same secret; give each endpoint its own"),
        ("whsec_short", "standard base64|24 to 64 bytes"),
    ):
        with pytest.raises(ConfigError, match=expected) as raised:
            rotate(entries, shop, secret)
        assert secret not in str(raised.value)


@given(kept_sets(), st.sets(st.integers(0, 4)))
def test_remove_takes_only_the_named_subscription(entries: Sequence[StoredEntry], chosen: set[int]) -> None:
    """Remove leaves every other subscription unchanged."""
    ids = {one.id for number, one in enumerate(entries) if number in chosen}

    step = remove(entries, ids)

    assert {one.id for one in step.removed} == ids
    assert documents(step.entries) == documents([one for one in entries if one.id not in ids])


def take(entries: Sequence[StoredEntry], what: str, subscription_id: str, number: int) -> Merge:
    """Return the result of one step, chosen by name."""
    match what:
        case "enable":
            return enable(entries, subscription_id)
        case "disable":
            return disable(entries, subscription_id, NOTE)
        case "rotate":
            return rotate(entries, subscription_id, secret_of(f"step {number}"))
        case "drop":
            return drop_old(entries, subscription_id)
        case _:
            return remove(entries, {subscription_id})


@given(kept_sets(least=1), STEPS)
def test_no_history_breaks_the_set(entries: Sequence[StoredEntry], steps: list[tuple[str, int]]) -> None:
    """After any steps names and URLs are unique, and every entry has 1 to 10 secrets.

    The entries before and after a step differ exactly by the changes that the step reports.
    """
    for number, (what, position) in enumerate(steps):
        if not entries:
            return
        one = entries[position % len(entries)]
        step = take(entries, what, one.id, number)
        before, after = {e.id: e for e in entries}, {e.id: e for e in step.entries}
        gone = before.keys() - after.keys()
        differ = {k for k in before.keys() & after.keys() if before[k].document() != after[k].document()}
        assert gone == {e.id for e in step.removed}
        assert differ == {e.id for e in step.changed}
        assert [e.id for e in step.replaced] == [e.id for e in step.changed]
        entries = step.entries
        assert len({(e.tenant, e.url) for e in entries}) == len({full_name(e) for e in entries})
        assert all(1 <= len(e.secrets) <= SECRETS_MAX for e in entries)


def test_a_step_on_a_missing_subscription_changes_nothing() -> None:
    """Fault 75: a step on a subscription that another writer removed changes nothing."""
    entries = kept(entry("shop"))

    for what in ("enable", "disable", "rotate", "drop", "remove"):
        step = take(entries, what, "sub_0000000000000000", 0)
        assert documents(step.entries) == documents(entries)
        assert [*step.changed, *step.removed, *step.added] == []
