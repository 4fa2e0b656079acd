"""The ten troubles."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import aio_pika
from aio_pika.abc import AbstractConnection

from bench.observe.troubles.customers import Behaviour, Customer, always, hangs, limited, well
from bench.observe.troubles.stage import Stage
from bench.observe.troubles.trouble import REPAIR, Act, Step, Take, Trouble
from consumer.core.subscription.subscription import subscription_id
from tests.support.servers.name_server import Answer

DOWN = "LeveretEndpointTrouble"
DOWN_STEPS: Sequence[Step] = (
    Take("block 1", may_fail=True),
    REPAIR,
    Take("block 2"),
)
FLOOD = 75  #: events in a round
RUNG = "leveret.wait.2000"
FOREIGN = "reports.nightly"
FULL_SHARE = 0.55  #: of the memory limit, before the trouble
FOREIGN_BYTES = 20_000  #: of one message


def _behaves(customer: Customer, behave: Behaviour) -> Act:
    """Return an act that changes how the endpoint of *customer* behaves."""

    async def act(stage: Stage) -> None:
        customer.behave = behave

    return act


def _down(name: str, cause: str, customer: Customer, begin: Act, repair: Act | None = None) -> Trouble:
    """Return a trouble of one endpoint that takes nothing."""
    return Trouble(
        name=name,
        customers=[customer],
        culprit=lambda _: customer.subscription,
        alert=DOWN,
        label="subscription",
        cause=cause,
        alert_cause=True,
        begin=begin,
        repair=repair or _behaves(customer, well()),
        steps=DOWN_STEPS,
    )


def _answers_500() -> Trouble:
    customer = Customer("cause500")
    return _down(
        "answers_500", "http_5xx", customer, _behaves(customer, always(b"500 Internal Server Error"))
    )


def _hangs() -> Trouble:
    customer = Customer("hanging")
    return _down("hangs", "timeout_total", customer, _behaves(customer, hangs))


def _is_slow() -> Trouble:
    customer = Customer("slow")
    return Trouble(
        name="is_slow",
        customers=[customer],
        culprit=lambda _: customer.subscription,
        alert="LeveretEndpointSlow",
        label="subscription",
        cause="slow",
        begin=_behaves(customer, well(3.0)),
        repair=_behaves(customer, well()),
        steps=(Take("1."), Take("4.", "leveret pause"), REPAIR, Take("4.", "leveret resume")),
    )


def _expired_certificate() -> Trouble:
    customer = Customer("expired", is_tls=True)

    async def begin(stage: Stage) -> None:
        stage.certify(customer, days=-1)

    async def repair(stage: Stage) -> None:
        stage.certify(customer)

    return _down("expired_certificate", "tls", customer, begin, repair)


def _loses_dns() -> Trouble:
    customer = Customer("nameless")

    async def begin(stage: Stage) -> None:
        stage.resolve(customer, Answer(code="NXDOMAIN"))
        stage.cut()

    async def repair(stage: Stage) -> None:
        stage.resolve(customer)

    return _down("loses_dns", "dns", customer, begin, repair)


def _answers_429() -> Trouble:
    customer = Customer("limited", burst=20, rounds=20)
    steps = (Take("block 1", may_fail=True), Take("block 3"), Take("block 2"))
    begin = _behaves(customer, limited(per_s=14, penalty_s=30))
    return replace(_down("answers_429", "rate_limited", customer, begin), steps=steps)


def _noisy_tenant() -> Trouble:
    customer = Customer("noisy")

    async def begin(stage: Stage) -> None:
        customer.burst = FLOOD

    async def repair(stage: Stage) -> None:
        customer.burst = 1

    return Trouble(
        name="noisy_tenant",
        customers=[customer],
        culprit=lambda _: customer.tenant,
        alert="LeveretTenantFloods",
        label="tenant",
        begin=begin,
        repair=repair,
        steps=(Take("1."), REPAIR, Take("2.")),
    )


def _growing_parked() -> Trouble:
    customer = Customer("parking", burst=3)
    return Trouble(
        name="growing_parked",
        customers=[customer],
        culprit=lambda _: customer.subscription,
        alert="LeveretTenantParked",
        label="tenant",
        cause="http_4xx",
        begin=_behaves(customer, always(b"400 Bad Request")),
        repair=_behaves(customer, well()),
        steps=(Take("block 1"), REPAIR, Take("block 2")),
        found=subscription_id(customer.tenant, customer.name),
    )


def _broker_memory() -> Trouble:
    """Another application fills a queue of its own until the node's memory is at its limit."""

    async def prepare(stage: Stage) -> None:
        used = int(await stage.broker.evaluate("vm_memory_monitor:get_process_memory()."))
        limit = int(used / FULL_SHARE)
        await stage.broker.evaluate(f"vm_memory_monitor:set_vm_memory_high_watermark({{absolute, {limit}}}).")

    async def begin(stage: Stage) -> None:
        stage.prepared[FOREIGN] = asyncio.create_task(_fill(stage.broker.url))

    async def repair(stage: Stage) -> None:
        filling = stage.prepared.pop(FOREIGN, None)
        if filling is not None:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)
            await stage.broker.evaluate(
                f'{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{FOREIGN}">>)), '
                "rabbit_amqqueue:purge(Q)."
            )

    return Trouble(
        name="broker_memory",
        culprit=lambda stage: stage.broker.endpoint.node,
        alert="LeveretBrokerMemory90",
        label="instance",
        prepare=prepare,
        begin=begin,
        repair=repair,
        steps=(Take("2."), REPAIR, Take("4.")),
        found=FOREIGN,
        own_broker=True,
    )


async def _fill(url: str) -> None:
    """Publish to a foreign queue until cancelled, as fast as the broker takes it."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue(FOREIGN, durable=True)
        while True:
            made = [aio_pika.Message(b"x" * FOREIGN_BYTES) for _ in range(100)]
            await asyncio.gather(*(channel.default_exchange.publish(each, FOREIGN) for each in made))


def _rung_keeps() -> Trouble:
    """A program of somebody else consumes a rung and acks nothing."""

    async def begin(stage: Stage) -> None:
        connection = await aio_pika.connect(stage.broker.url)
        stage.prepared[RUNG] = connection
        channel = await connection.channel()
        queue = await channel.get_queue(RUNG, ensure=False)
        await queue.consume(_keep, no_ack=False)

    async def repair(stage: Stage) -> None:
        connection: AbstractConnection | None = stage.prepared.pop(RUNG, None)
        if connection is not None:
            await connection.close()

    return Trouble(
        name="rung_keeps",
        culprit=lambda _: RUNG,
        alert="LeveretQueueOverdue",
        label="queue",
        begin=begin,
        repair=repair,
        steps=(Take("1."), Take("block 1")),
    )


async def _keep(_: object) -> None:
    """Do nothing with a message."""


def troubles() -> Sequence[Trouble]:
    """Return the ten, each with customers of its own."""
    return (
        *(_answers_500(), _is_slow(), _hangs(), _expired_certificate(), _loses_dns(), _answers_429()),
        *(_noisy_tenant(), _growing_parked(), _broker_memory(), _rung_keeps()),
    )
