"""An idempotency key belongs to its first request, for a day, and to one process at a time."""

from __future__ import annotations

from consumer.edges.store.rows.publish_keys import KEPT_S, PublishKey, PublishKeys
from tests.support.stores import Place, execute

KEY = PublishKey(tenant="acme", key="k-1", digest="d-1", event_id="k-1")
OTHER = PublishKey(tenant="acme", key="k-1", digest="d-2", event_id="x")


async def test_the_first_request_keeps_the_key(place: Place) -> None:
    """Another process sees it; another tenant has keys of its own."""
    keys, others = place.open().records.publish_keys, place.open().records.publish_keys

    first = await keys.claim(KEY)
    second = await others.claim(OTHER)
    foreign = await others.claim(PublishKey(tenant="rival", key="k-1", digest="d-2", event_id="x"))
    await others.confirm(first.use)
    confirmed = await keys.claim(KEY)

    assert (second.use, second.is_ours) == (first.use, False)
    assert not first.use.confirmed
    assert foreign.use.digest == "d-2"
    assert (confirmed.use.confirmed, confirmed.is_ours) == (True, False)


async def test_one_process_at_a_time_publishes_the_event(place: Place) -> None:
    """Until it gives the key back, or has not confirmed for longer than a publish takes."""
    keys, others = place.open().records.publish_keys, place.open().records.publish_keys

    first = await keys.claim(KEY)
    meanwhile = await others.claim(KEY)
    await keys.release(first.use)
    second = await others.claim(KEY)
    await keys.release(first.use)  # too late: the key is the other's
    held = await keys.claim(KEY)
    await execute(place, "UPDATE leveret_publish_keys SET claimed_until = 1")
    after_a_kill = await keys.claim(KEY)
    await execute(place, "UPDATE leveret_publish_keys SET claimed_until = 9e12")
    after_a_clock_step = await others.claim(KEY)

    found = (first, meanwhile, second, held, after_a_kill, after_a_clock_step)
    assert [claim.is_ours for claim in found] == [True, False, True, False, True, True]
    assert {claim.use.at for claim in found} == {first.use.at}


async def test_the_clocks_of_processes_may_differ(place: Place) -> None:
    """A claim of a clock that is some seconds ahead holds, as does one of a clock that is behind."""
    database = place.open()._database
    ahead, behind = PublishKeys(database, lambda: 1_010.0), PublishKeys(database, lambda: 1_000.0)

    first = await ahead.claim(KEY)
    second = await behind.claim(KEY)
    await ahead.release(first.use)
    third = await behind.claim(KEY)
    fourth = await ahead.claim(KEY)

    assert [claim.is_ours for claim in (first, second, third, fourth)] == [True, False, True, False]


async def test_a_key_is_forgotten_after_a_day(place: Place) -> None:
    """Then it may name another request."""
    keys = place.open().records.publish_keys
    first = (await keys.claim(KEY)).use
    await execute(place, f"UPDATE leveret_publish_keys SET at = {first.at - KEPT_S - 1}")  # noqa: S608 (ours)

    later = await keys.claim(OTHER)

    assert (later.use.digest, later.is_ours) == ("d-2", True)
