"""Parked entries over HTTP: filtered, counted and paged by the index; a replay is a job with its total."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import httpx2
import pytest

from consumer.core.store.audit import AuditFilter
from consumer.core.store.tokens import Scope
from consumer.core.subscription.subscription import subscription_id
from consumer.edges.store.rows.records import Batch
from tests.support.builders.rows import SHOP, parked_line
from tests.support.web import SHOP as FIELDS
from tests.support.web import Api, problem

LIST = "/v1/parked"
TILL = subscription_id("beta", "till")


async def fill(api: Api, count: int = 12) -> None:
    """Park entries a second apart: each third one is beta's, and the last one never became an event."""
    now = api.clock.now()
    lines = [
        parked_line(number, now - 1_000 + number)
        if number % 3
        else parked_line(
            number, now - 1_000 + number, tenant="beta", subscription_ids=(TILL,), type="bill.due"
        )
        for number in range(count)
    ]
    raw = {"subscription_ids": (), "reason": "malformed", "code": None, "tenant": None, "type": None}
    lines.append(parked_line(count, now - 10, **raw))
    await api.context.store.records.write(Batch(parked={line.id: line for line in lines}))


async def ids(client: httpx2.AsyncClient, **query: Any) -> list[str]:
    """Return the ids on every page of the list, as its cursors lead."""
    found: list[str] = []
    while True:
        answer = await client.get(LIST, params={"limit": 5, **query})
        assert answer.status_code == 200, answer.text
        body = answer.json()
        found += [one["id"] for one in body["items"]]
        if body["next"] is None:
            assert body["total"] == len(found)
            return found
        query["cursor"] = body["next"]


def named(*numbers: int) -> list[str]:
    """Return the ids of the entries with these numbers."""
    return [f"prk_{number:016x}" for number in numbers]


async def test_the_list_is_paged_newest_first(api: Api) -> None:
    """Each entry is on one page; the total is that of the filter."""
    await fill(api)
    async with await api.client_of(Scope.READ) as client:
        assert await ids(client) == named(*range(12, -1, -1))
        assert await ids(client, tenant="beta") == named(9, 6, 3, 0)
        assert await ids(client, subscription="acme/shop", until="991s") == named(8, 7, 5, 4, 2, 1)
        assert await ids(client, type="bill.*") == named(9, 6, 3, 0)
        assert await ids(client, type="never.*") == []
        assert await ids(client, reason="malformed") == named(12)
        assert await ids(client, since="10s") == named(12)
        assert await ids(client, id=named(3, 4)) == named(4, 3)


async def test_a_bound_token_sees_only_its_entries(api: Api) -> None:
    """Lists, groups, counts and single entries are those of its tenant; another tenant is 404."""
    await fill(api)
    async with await api.client_of(Scope.ADMIN, tenant="beta") as beta:
        assert await ids(beta) == named(9, 6, 3, 0)
        assert await ids(beta, subscription=SHOP) == []
        problem(await beta.get(LIST, params={"tenant": "acme"}), 404)
        groups = (await beta.get(f"{LIST}/groups", params={"by": "tenant"})).json()["items"]
        assert [group["values"] for group in groups] == [{"tenant": "beta"}]
        stats = (await beta.get(f"{LIST}/stats")).json()
        assert (stats["entries"], stats["tenants"], stats["in_queue"]) == (4, 1, None)
        for path in (named(1)[0], f"{named(1)[0]}/replay", f"{named(12)[0]}/replay"):
            method = "POST" if path.endswith("replay") else "GET"
            problem(await beta.request(method, f"{LIST}/{path}"), 404)
        job = (await beta.post(f"{LIST}/replay", json={"ids": named(1)})).json()
        assert (job["total"], job["filter"]["tenant"]) == (0, "beta")
        problem(await beta.post(f"{LIST}/purge", json={"tenant": "acme", "confirm": True}), 404)
        problem(await beta.post(f"{LIST}/reindex"), 403)


async def test_groups_and_counts(api: Api) -> None:
    """S1-13: counted by several fields, the largest group first, with the first and the last time."""
    await fill(api)
    async with await api.client_of() as client:
        query = {"by": ["tenant", "type"]}
        groups = (await client.get(f"{LIST}/groups", params=query)).json()
        stats = (await client.get(f"{LIST}/stats", params={"tenant": "acme"})).json()

    assert [(group["values"], group["count"]) for group in groups["items"]] == [
        ({"tenant": "acme", "type": "order.created"}, 8),
        ({"tenant": "beta", "type": "bill.due"}, 4),
        ({"tenant": None, "type": None}, 1),
    ]
    assert groups["items"][1]["newest"] == "1970-01-12T13:30:09.000Z"
    assert groups["groups"] == 3
    assert (stats["entries"], stats["by_reason"], stats["by_status"]) == (8, {"exhausted": 8}, {"503": 8})


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"since": "yesterday"}, "since"),
        ({"until": "1"}, "until"),
        ({"subscription": "shop"}, "subscription"),
        ({"reason": "bored"}, "reason"),
        ({"cursor": "WyJ4IiwieSJd"}, "cursor"),
        ({"limit": "0"}, "limit"),
    ],
)
async def test_a_filter_that_is_not_valid_is_named(api: Api, query: dict[str, str], field: str) -> None:
    """422 names the field and a remedy."""
    async with await api.client_of() as client:
        body = problem(await client.get(LIST, params=query), 422)

    assert body["field"] == field
    assert body["remedy"]


async def test_a_dry_run_counts_and_a_replay_keeps_the_count(api: Api) -> None:
    """Entries of a subscription that is gone stay; the job has the total, and both are audited."""
    await fill(api)
    async with await api.client_of() as client:
        await client.post("/v1/tenants/acme/subscriptions", json=FIELDS)
        dry = (await client.get(f"{LIST}/dry-run")).json()
        to = (await client.get(f"{LIST}/dry-run", params={"to": "acme/shop"})).json()
        problem(await client.get(f"{LIST}/dry-run", params={"to": "acme/none"}), 422)
        made = await client.post(f"{LIST}/replay", json={"tenant": "acme", "rate_per_s": 20})
        one = await client.post(f"{LIST}/{named(4)[0]}/replay")
        refused = problem(await client.post(f"{LIST}/replay", json={"to": "x", "tenant": "acme"}), 422)
        problem(await client.post(f"{LIST}/replay", json={"rate_per_s": 0}), 422)
    lines = await api.context.store.records.audit.lines(AuditFilter(action="job"), 10)

    assert (dry["total"], sum(group["count"] for group in dry["sends"])) == (13, 9)
    assert dry["stays"] == {"the subscription no longer exists": 4}
    assert (to["total"], len(to["sends"]), len(to["stays"])) == (13, 1, 2)
    assert made.status_code == 202, made.text
    job = made.json()
    assert (job["state"], job["total"], job["rate_per_s"], job["filter"]) == (
        "running",
        8,
        20.0,
        {"tenant": "acme"},
    )
    assert made.headers["location"] == f"/v1/jobs/{job['id']}"
    assert (one.json()["total"], one.json()["filter"]["ids"]) == (1, named(4))
    assert refused["field"] == "to"
    assert [(line.change.action, line.change.tenant) for line in lines] == [("job.made", "acme")] * 2
    assert lines[1].change.after["total"] == 8


async def test_jobs_are_listed_steered_and_audited(api: Api) -> None:
    """Newest first; pause, resume and cancel follow the states; a bound token sees its own jobs alone."""
    await fill(api)
    async with await api.client_of() as client, await api.client_of(Scope.OPERATE, "beta") as beta:
        made = []
        for tenant in ("acme", "beta", None):
            made.append((await client.post(f"{LIST}/replay", json={"tenant": tenant})).json()["id"])
            api.clock.advance(1)
        first = (await client.get("/v1/jobs", params={"limit": 2})).json()
        rest = (await client.get("/v1/jobs", params={"limit": 2, "cursor": first["next"]})).json()
        assert [job["id"] for job in (*first["items"], *rest["items"])] == made[::-1]
        assert rest["next"] is None
        assert [job["id"] for job in (await beta.get("/v1/jobs")).json()["items"]] == [made[1]]
        for path in (f"/v1/jobs/{made[0]}", f"/v1/jobs/{made[2]}", "/v1/jobs/job_x"):
            problem(await beta.get(path), 404)
            problem(await beta.post(f"{path}/cancel"), 404)
        assert (await beta.post(f"/v1/jobs/{made[1]}/pause")).json()["state"] == "paused"
        assert "paused" in problem(await beta.post(f"/v1/jobs/{made[1]}/pause"), 409)["detail"]
        assert (await beta.post(f"/v1/jobs/{made[1]}/resume")).json()["state"] == "running"
        assert (await beta.post(f"/v1/jobs/{made[1]}/cancel")).json()["state"] == "cancelled"
        pending = (await client.get("/v1/jobs", params={"pending": True})).json()["items"]
        assert [job["id"] for job in pending] == [made[2], made[0]]
    lines = await api.context.store.records.audit.lines(AuditFilter(target=made[1]), 10)

    assert [line.change.action for line in lines] == [
        "job.cancelled",
        "job.resumed",
        "job.paused",
        "job.made",
    ]


async def test_a_job_and_its_audit_line_are_one_change(api: Api) -> None:
    """If the line cannot be written, there is no job, and its state stays as it was."""
    async with await api.client_of(Scope.OPERATE) as client:
        made = (await client.post(f"{LIST}/replay", json={"tenant": "acme"})).json()["id"]
        with closing(sqlite3.connect(api.context.settings.home / "leveret.db")) as store:
            store.execute(
                "CREATE TRIGGER full BEFORE INSERT ON leveret_audit BEGIN SELECT RAISE(ABORT, 'full'); END"
            )
        problem(await client.post(f"{LIST}/replay", json={"tenant": "acme"}), 503)
        problem(await client.post(f"/v1/jobs/{made}/cancel"), 503)
        listed = (await client.get("/v1/jobs")).json()["items"]

    assert [(one["id"], one["state"]) for one in listed] == [(made, "running")]


@pytest.mark.parametrize("since", ["9" * 20 + "d", "9" * 300 + "d"])
async def test_a_time_beyond_the_calendar_makes_no_job(api: Api, since: str) -> None:
    """It is refused before a job exists that nobody could list."""
    async with await api.client_of(Scope.OPERATE, tenant="acme") as client:
        refused = problem(await client.post(f"{LIST}/replay", json={"since": since}), 422)
        listed = await client.get("/v1/jobs")

    assert refused["field"] == "since"
    assert listed.json()["items"] == []


async def test_a_purge_needs_confirm(api: Api) -> None:
    """Without it nothing is purged, and the answer counts the entries."""
    await fill(api)
    async with await api.client_of() as client:
        body = problem(await client.post(f"{LIST}/purge", json={"tenant": "acme"}), 409)
    assert "8 entries" in body["detail"]
    assert body["field"] == "confirm"
    async with await api.client_of(Scope.READ) as reader:
        problem(await reader.post(f"{LIST}/purge", json={"confirm": True}), 403)
        problem(await reader.post(f"{LIST}/replay", json={}), 403)
