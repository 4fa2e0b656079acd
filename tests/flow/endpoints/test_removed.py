"""Subscriptions that come and go do not fill the memory of a worker."""

from __future__ import annotations

import orjson

from consumer.core.endpoint.agreement import News, NewsKind, NewsMessage, encode
from consumer.core.endpoint.breaker import Open
from consumer.core.message.records import EndpointState
from consumer.core.subscription.subscription import endpoint_id
from consumer.flow.endpoints.agreement import Agreement
from tests.support.fakes import START
from tests.support.worker import Worker


async def test_a_removed_subscription_is_forgotten(worker: Worker) -> None:
    """Nothing is kept by its id: what this worker announced, heard from others, or read from the store."""
    shops = await worker.subscribe_all(*(f"shop{number}" for number in range(20)))
    talk = Agreement(worker.context, worker.subscriptions, worker.endpoints, "w0")
    met, heard = shops[:10], shops[10:]
    for shop in met:
        worker.endpoints.of(shop).admission.adopt(Open(START + 60, epoch=1), START)
        worker.endpoints.announcements.changed(worker.endpoint(shop))
    for shop in heard:
        news = News(subscription=shop.id, endpoint=endpoint_id("acme", shop.url), state="closed", epoch=3)
        talk.receive(orjson.loads(encode(NewsMessage(NewsKind.STATE, "w1", [news]))))
    stored = [
        EndpointState(subscription_id=s.id, tenant=s.tenant, endpoint="x", state="open", epoch=2, since=START)
        for s in heard
    ]
    worker.endpoints.prior.remember(stored, {})

    worker.endpoints.keep({met[0].id, heard[0].id})

    announcements, prior = worker.endpoints.announcements, worker.endpoints.prior
    assert announcements.recent() == announcements.take_due() == announcements._last.keys() == {met[0].id}
    assert prior._news.keys() == prior._states.keys() == {heard[0].id}
