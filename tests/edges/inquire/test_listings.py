"""Lists of deliveries and attempts on both databases: each delivery once, at its newest wanted step."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.core.history.batch import HistoryBatch
from consumer.core.history.listing import Listing
from consumer.core.history.records import HistoryRow
from consumer.core.history.status import DeliveryStatus
from consumer.core.subscription.subscription import subscription_id
from consumer.edges.inquire.listings import BATCH, SUBSCRIPTIONS_MAX, Listings
from consumer.edges.store.rows.records import Batch
from tests.support.builders.rows import SHOP, delivered, parked_line, step
from tests.support.stores import Place, apply, many, shop

NOW = 1_767_225_600.0
TILL = subscription_id("acme", "till")


async def listings(
    place: Place, *rows: HistoryRow, subscriptions: Sequence[dict[str, object]] = ()
) -> Listings:
    """Return lists of a store with subscriptions, and a history with *rows*."""
    till = shop(name="till", url="https://till.example/")
    await apply(place.open(), *(subscriptions or (shop(), till)))
    history = place.open_history()
    await history.write(1, HistoryBatch(rows))
    return Listings(place.open_history(), place.open_lookup())


async def events(found: Listings, wanted: Listing, size: int = 3) -> list[tuple[str, str]]:
    """Return event and status of the deliveries on every page."""
    pages: list[tuple[str, str]] = []
    before: int | None = None
    while True:
        page = await found.deliveries(wanted, size, NOW, before)
        assert len(page.items) <= size
        pages += [(event.key.event_id, one.state.status.value) for event, one in page.items]
        before = page.next
        if before is None:
            return pages


async def test_the_subscriptions_of_a_tenant_are_read_together(place: Place) -> None:
    """The order is that of writing, over all of them; rows of other tenants are left out."""
    found = await listings(
        place,
        *(
            delivered(f"e{n}", NOW - 100 + n, subscription_id=(SHOP, TILL, "sub_of_beta")[n % 3])
            for n in range(30)
        ),
    )

    seen = [event for event, _ in await events(found, Listing(tenant="acme"))]
    attempts = await found.attempts(Listing(tenant="acme"), 4)

    assert seen == [f"e{n}" for n in range(29, -1, -1) if n % 3 != 2]
    assert [row.event_id for row in attempts.items] == ["e28", "e27", "e25", "e24"]


async def test_a_deleted_subscription_is_still_listed(place: Place) -> None:
    """Its tombstone names the tenant, so that the past does not vanish with it."""
    found = await listings(place, delivered("e1", NOW - 5, subscription_id=TILL))
    await apply(place.open(), shop(), prune=True)

    assert await events(found, Listing(tenant="acme")) == [("e1", "delivered")]


async def test_a_tenant_with_many_subscriptions_is_filtered_row_by_row(place: Place) -> None:
    """Over the limit of one query the newest rows are read, and those of others are left out."""
    entries = many(SUBSCRIPTIONS_MAX + 1)
    tenant = str(entries[0]["tenant"])
    rows = [delivered("mine", NOW - 9, tenant=tenant)]
    rows += [delivered(f"e{n}", NOW - 5, tenant="other") for n in range(BATCH + 1)]
    found = await listings(place, *rows, subscriptions=entries)

    assert await events(found, Listing(tenant=tenant)) == [("mine", "delivered")]


async def test_the_index_of_parked_entries_counts(place: Place) -> None:
    """A delivery whose entry is parked names it; a status is judged by all steps, not by the listed one."""
    found = await listings(
        place,
        step("e1", NOW - 50, "parked", reason="exhausted", number=5),
        step("e2", NOW - 40, "parked", reason="exhausted", number=5),
        step("e2", NOW - 30, "replayed"),
    )
    line = parked_line(1, NOW - 50, event_id="e1")
    await place.open().records.write(Batch(parked={line.id: line}))

    page = await found.deliveries(Listing(status=DeliveryStatus.PARKED), 10, NOW)
    [(_, one)] = page.items

    assert one.parked is not None
    assert one.parked.entry_id == line.id
    assert await events(found, Listing(status=DeliveryStatus.DELIVERING)) == [("e2", "delivering")]


async def test_times_bound_the_rows(place: Place) -> None:
    """Since and until hold for each row, also where no index is used."""
    found = await listings(place, *(delivered(f"e{n}", NOW - 100_000 + n * 10_000) for n in range(10)))

    wanted = Listing(since=NOW - 60_000, until=NOW - 20_000)

    assert [event for event, _ in await events(found, wanted)] == ["e7", "e6", "e5", "e4"]
