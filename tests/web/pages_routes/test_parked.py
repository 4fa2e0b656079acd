"""The pages of parked entries and jobs: filters, groups, the dry run, the job and its buttons."""

from __future__ import annotations

import re

from consumer.core.store.tokens import Scope
from consumer.core.subscription.subscription import subscription_id
from consumer.edges.store.rows.records import Batch
from tests.support.builders.rows import parked_line
from tests.support.visitor import HTML, Visitor
from tests.support.web import SHOP, Api

OF = subscription_id("acme", "shop")


async def fill(api: Api, count: int = 60) -> None:
    """Make a subscription, and park entries of it a second apart; the last one never became an event."""
    async with await api.client_of() as program:
        assert (await program.post("/v1/tenants/acme/subscriptions", json=dict(SHOP))).status_code == 201
    now = api.clock.now()
    lines = [
        parked_line(number, now - 1_000 + number, tenant="acme", subscription_ids=(OF,), type="order.paid")
        for number in range(count)
    ]
    raw = {"subscription_ids": (), "reason": "malformed", "code": None, "tenant": None, "type": None}
    lines.append(parked_line(count, now - 10, **raw))
    await api.context.store.records.write(Batch(parked={line.id: line for line in lines}))


async def test_the_list_is_filtered_grouped_and_paged(api: Api) -> None:
    """Fifty entries on a page, the newest first; each group links to its filter."""
    await fill(api)
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.READ))
        first = await client.get("/parked?tenant=&type=order.%23&since=1h&group=subscription", headers=HTML)
        following = re.search(r'href="(/parked\?[^"]*cursor=[^"]*)"', first.text)
        assert following is not None
        second = await visitor.see(following[1].replace("&amp;", "&"))
        everything = await visitor.see("/parked")
        malformed = await visitor.see("/parked?reason=malformed")
        named = await visitor.see("/parked?subscription=acme/shop")

    assert "60 entries that fit the filter" in visitor.read(first)
    assert f"subscription={OF}" in first.text
    assert "acme/shop" in first.text
    assert second.count("prk_") == 10
    assert "61 entries" in everything
    assert "1 entry that fit" in malformed
    assert "60 entries" in named
    assert "Resend 60" not in named


async def test_a_filter_is_resent_as_a_job(api: Api) -> None:
    """The dry run counts, the job has its total and rate, and its buttons steer it."""
    await fill(api)
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.OPERATE))
        dry = await visitor.see("/parked/resend?subscription=acme/shop")
        wrong = await visitor.send("/parked/resend", {"subscription": "acme/shop", "rate": "-1"})
        made = await visitor.send("/parked/resend", {"subscription": "acme/shop", "rate": "5"})
        job = made.headers["location"]
        page = await visitor.see(job)
        paused = await visitor.sent(f"{job}/pause")
        again = await visitor.sent(f"{job}/pause")
        cancelled = await visitor.sent(f"{job}/cancel")
        listed = await visitor.see("/jobs")
        unknown = await visitor.send(f"{job}/explode")

    assert "Resend 60 entries?" in dry
    assert "acme/shop 60" in dry
    assert wrong.status_code == 422
    assert "the rate must be a number from" in wrong.text
    assert made.status_code == 303
    assert "0 of 60 entries" in page
    assert "subscription acme/shop" in page
    assert "5" in page
    assert "paused within a second" in paused
    assert "so pause does nothing" in again
    assert "cancelled" in cancelled
    assert job.rpartition("/")[2] in listed
    assert unknown.status_code == 404


async def test_one_entry_without_a_broker(api: Api) -> None:
    """The index has all but the payload; the page says why, and the entry can be resent."""
    await fill(api, 1)
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.OPERATE))
        page = await visitor.see("/parked/prk_0000000000000000")
        raw = await visitor.see("/parked/prk_0000000000000001")
        made = await visitor.send("/parked/prk_0000000000000000/resend")
        job = await visitor.see(made.headers["location"])
        search = await client.get("/search?q=prk_0000000000000000", headers=HTML)

    assert "The broker is away" in page
    assert "acme/shop" in page
    assert "Resend" in page
    assert "Unreadable message" in raw
    assert "entry prk_0000000000000000" in job
    assert search.headers["location"] == "/parked/prk_0000000000000000"


async def test_a_reader_resends_nothing(api: Api) -> None:
    """A reader sees the dry run without a button that works, and each form is 403."""
    await fill(api, 1)
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.READ))
        for path in ("/parked/resend", "/parked/prk_0000000000000000/resend", "/jobs/job_000000000000/pause"):
            assert (await visitor.send(path)).status_code == 403
        asked = await client.get("/parked/resend", headers=HTML)

    assert '<form method="post" action="/parked/resend">' not in asked.text


async def test_a_customer_resends_only_the_own_entries(api: Api) -> None:
    """The job of the whole view names the tenant, so that entries of others stay."""
    await fill(api, 2)
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.OPERATE, tenant="acme"), "/my")
        page = await visitor.sent("/my/parked/resend")
        one = await visitor.sent(f"/my/endpoints/{OF}/resend")
        rows = await api.context.store.records.jobs.all()

    assert "2 failed webhooks are being sent again" in page
    assert "2 failed webhooks are being sent again" in one
    assert [row.job.chosen.tenant for row in rows] == ["acme", "acme"]
    assert {row.job.chosen.subscription for row in rows} == {None, OF}
