"""An idempotency key belongs to its first request, for a day."""

from __future__ import annotations

from consumer.edges.store.rows.publish_keys import KEPT_S, PublishKey
from tests.support.stores import Place, execute

KEY = PublishKey(tenant="acme", key="k-1", digest="d-1", event_id="k-1")


async def test_the_first_request_keeps_the_key(place: Place) -> None:
    """Another process sees it; another tenant has keys of its own."""
    keys, others = place.open().records.publish_keys, place.open().records.publish_keys

    first = await keys.claim(KEY)
    second = await others.claim(PublishKey(tenant="acme", key="k-1", digest="d-2", event_id="x"))
    foreign = await others.claim(PublishKey(tenant="rival", key="k-1", digest="d-2", event_id="x"))
    await others.confirm(first)

    assert second == first
    assert not first.confirmed
    assert foreign.digest == "d-2"
    assert (await keys.claim(KEY)).confirmed


async def test_a_key_is_forgotten_after_a_day(place: Place) -> None:
    """Then it may name another request."""
    keys = place.open().records.publish_keys
    first = await keys.claim(KEY)
    await execute(place, f"UPDATE leveret_publish_keys SET at = {first.at - KEPT_S - 1}")  # noqa: S608 (ours)

    later = await keys.claim(PublishKey(tenant="acme", key="k-1", digest="d-2", event_id="x"))

    assert later.digest == "d-2"
