"""The health of store, broker and worker over HTTP, and how the worker is shared."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer

from consumer.core.store.tokens import Scope
from consumer.edges.store.rows.records import Batch
from tests.support.builders.rows import parked_line
from tests.support.web import SHOP, Api, opened_api, problem

PAGE = """
leveret_workers 2.0
leveret_fairness_index 0.97
leveret_fairness_tenants 2.0
leveret_loop_lag_seconds 0.004
leveret_requests_in_flight 3.0
leveret_queue_messages{queue="parked"} 5.0
leveret_parked_indexed_messages 4.0
leveret_tenant_waiting_messages{tenant="acme"} 7.0
leveret_tenant_waiting_messages{tenant="other"} 70.0
leveret_tenant_jobs_total{tenant="acme"} %d.0
leveret_tenant_in_flight_deliveries{tenant="acme"} 3.0
leveret_tenant_rerouted{tenant="acme"} 1.0
leveret_queue_messages{queue="lane"} 90.0
leveret_queue_messages{queue="spill"} 12.0
"""


def worker(state: dict[str, int]) -> web.Application:
    """A stand-in for a worker's own port; *state* counts the looks."""

    async def metrics(_request: web.Request) -> web.Response:
        state["looks"] += 1
        return web.Response(text=PAGE % (10 * state["looks"]))

    async def ready(_request: web.Request) -> web.Response:
        return web.Response(text="not ready: draining", status=503)

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/readyz", ready)])
    return app


async def test_health_shows_the_worker(tmp_path: Path) -> None:
    """The numbers of `leveret status`, from one look for all requests of a second."""
    state = {"looks": 0}
    async with (
        TestServer(worker(state)) as server,
        opened_api(tmp_path, LISTEN=f"127.0.0.1:{server.port}") as api,
        await api.client_of(Scope.READ) as client,
    ):
        body = (await client.get("/v1/status")).json()
        await client.get("/v1/status")

    assert body["status"] == "degraded"
    assert body["store"] == {"is_up": True, "detail": ""}
    assert (body["worker"]["ready"], body["worker"]["reasons"]) == (False, ["draining"])
    assert (body["worker"]["workers"], body["worker"]["loop_lag_s"]) == (2, 0.004)
    assert (body["worker"]["status"]["parked"], body["parked_gap"]) == (5, 1)
    assert state["looks"] == 2


async def test_health_without_a_worker_and_a_broker(api: Api) -> None:
    """Parts that are away are a result, not an error; a bound token is refused."""
    async with await api.client_of(Scope.READ) as client:
        answer = await client.get("/v1/status")
    async with await api.client_of(Scope.READ, "acme") as bound:
        problem(await bound.get("/v1/status"), 403)

    body = answer.json()
    assert answer.status_code == 200
    assert (body["broker"]["is_up"], body["worker"], body["status"]) == (False, None, "degraded")
    assert body["worker_detail"].startswith("No worker answers at 127.0.0.1:")
    assert "Start one with `leveret run`" in body["worker_detail"]


async def test_fairness_by_tenant(tmp_path: Path) -> None:
    """Jain's index, slots, and each tenant's waiting and parked; a bound token sees only its own line."""
    async with (
        TestServer(worker({"looks": 0})) as server,
        opened_api(tmp_path, LISTEN=f"127.0.0.1:{server.port}") as api,
    ):
        for number, tenant in enumerate(("acme", "beta")):
            line = parked_line(number, 1_000.0, tenant=tenant)
            await api.context.store.records.write(Batch(parked={line.id: line}))
        async with await api.client_of() as client:
            await client.post("/v1/tenants/acme/subscriptions", json=SHOP)
            body = (await client.get("/v1/fairness")).json()
            some = (await client.get("/v1/fairness", params={"q": "bet"})).json()
        async with await api.client_of(Scope.READ, "beta") as beta:
            own = (await beta.get("/v1/fairness")).json()

    assert (body["fairness"], body["slots"], body["slots_used"], body["tenants"]) == (0.97, 512, 3, 2)
    acme, beta_line = body["items"]
    assert (acme["tenant"], acme["waiting"], acme["parked"], acme["subscriptions"]) == ("acme", 7, 1, 1)
    assert acme["deliveries_per_s"] > 0
    assert (acme["share"], acme["in_flight"], acme["is_rerouted"]) == (1.0, 3, True)
    assert (body["in_lanes"], body["in_spill"]) == (90, 12)
    assert (beta_line["tenant"], beta_line["waiting"]) == ("beta", None)
    assert [line["tenant"] for line in some["items"]] == ["beta"]
    assert ([line["tenant"] for line in own["items"]], own["fairness"]) == (["beta"], None)
