"""The night over HTTP: an endpoint fails, its answers are read, its parked entries are replayed."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.support.servers.receiver import Receiver
from tests.support.system.api import serving
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import all_delivered, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import shown

TENANT = "night"


async def items(client: httpx2.AsyncClient, path: str, **query: Any) -> list[dict[str, Any]]:
    """Return the first page of a list."""
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def test_a_failed_endpoint_is_found_and_its_entries_are_replayed(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Trace, payload, dry run, job with progress, and an empty list at the end; each change is audited."""
    good = to(receiver, "/ok/night", TENANT, events=["never"])
    await shared.apply(to(receiver, "/status/400/night", TENANT), good)
    async with serving(shared) as api:
        token = await api.token("--scope", "operate", "--tenant", TENANT)
        async with api.client(token) as client:
            events = [await publisher.publish(TENANT) for _ in range(3)]

            async def sizes() -> list[int]:
                return [len(await items(client, "/v1/parked"))]

            await shown(sizes, lambda size: size == len(events))
            [trace] = await items(client, f"/v1/events/{events[0]}")
            assert trace["deliveries"][0]["status"] == "parked"

            async def failed() -> list[set[str]]:
                attempts = await items(client, "/v1/attempts", failed=True, code="400")
                return [{one["event_id"] for one in attempts}]

            await shown(failed, lambda ids: ids == set(events))
            [one] = [each for each in await items(client, "/v1/parked") if each["event_id"] == events[1]]
            entry = (await client.get(f"/v1/parked/{one['id']}")).json()
            assert entry["data"] is not None
            how = {"to": f"{TENANT}//ok/night"}
            dry = (await client.get("/v1/parked/dry-run", params=how)).json()
            assert (dry["total"], dry["stays"]) == (3, {})
            job = (await client.post("/v1/parked/replay", json={**how, "rate_per_s": 50})).json()

            async def jobs() -> list[dict[str, Any]]:
                return [(await client.get(f"/v1/jobs/{job['id']}")).json()]

            [done] = await shown(jobs, lambda job: job["state"] == "done")
            await all_delivered(receiver, "/ok/night", events)
            assert (done["total"], done["replayed"], done["refused"]) == (3, 3, 0)
            assert await items(client, "/v1/parked") == []
        admin = await api.token("--scope", "read")
        async with api.client(admin) as client:
            status = (await client.get("/v1/status")).json()
            assert status["store"]["is_up"]
            assert status["broker"]["is_up"]
    lines = await shared.listing("audit", "--tenant", TENANT)

    assert "job.made" in {line["action"] for line in lines}
