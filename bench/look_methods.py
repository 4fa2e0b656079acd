"""Show which methods of looking into a queue lose messages when the broker restarts, without Leveret's code.

Run ``python -m bench.look_methods``; ``LEVERET_RABBITMQ_CHROOT`` or ``_HOME`` choose another server.

Per queue: 400 messages are published and confirmed, taken unacked, and given back. Then 37 are taken and
acked, and the broker restarts. The queue's messages afterwards are compared with the expected 363.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from aiormq.abc import AbstractChannel, DeliveredMessage
from pamqp.commands import Basic, Queue

from consumer.edges.private_broker import PrivateBroker
from tests.support.broker.load import connect, quiet

MESSAGES, ACKED = 400, 37
WAITS = True  #: with the end of the channel, for the acks to be in the queue's log
TAKES = ("get", "consume")
GIVES = ("close", "kill", "nack", "nack-down", "nack-multiple")
"""By closing the channel; by a kill -9 of the process that took them; by one ``basic.nack`` for each, in the
order of their tags and from the last to the first; by a single ``basic.nack`` for all."""


async def take(channel: AbstractChannel, queue: str, how: str, count: int) -> Sequence[DeliveredMessage]:
    """Take *count* messages without an ack."""
    if how == "get":
        return [await channel.basic_get(queue) for _ in range(count)]
    inbox: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
    await channel.basic_qos(prefetch_count=count)
    consumer = await channel.basic_consume(queue, inbox.put)
    taken = [await asyncio.wait_for(inbox.get(), 30) for _ in range(count)]
    await channel.basic_cancel(consumer.consumer_tag or "")
    return taken


async def glance(url: str, queue: str, taking: str, giving: str) -> None:
    """Take all messages of a queue and give them back."""
    connection = await connect(url)
    channel = await connection.channel()
    tags = [message.delivery_tag or 0 for message in await take(channel, queue, taking, MESSAGES)]
    if giving == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif giving == "nack-multiple":
        await channel.basic_nack(0, multiple=True)
    elif giving != "close":
        for tag in tags if giving == "nack" else reversed(tags):
            await channel.basic_nack(tag)
    await channel.basic_qos(prefetch_count=1)  # its answer comes after the nacks were taken
    await channel.close()
    await connection.close()


async def counted(channel: AbstractChannel, queue: str, fits: Callable[[Queue.DeclareOk], bool]) -> None:
    """Ask for the counts of a queue until they fit."""
    async with asyncio.timeout(30):
        while not fits(await channel.queue_declare(queue, passive=True)):  # noqa: ASYNC110 (the broker counts)
            await asyncio.sleep(0.02)


async def look(url: str, queue: str, kind: str, taking: str, giving: str) -> set[bytes]:
    """Fill a queue, look into it, take some messages out of it; return which have to be in it."""
    filling = await connect(url)
    channel = await filling.channel(publisher_confirms=True)
    await channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    lasting = Basic.Properties(delivery_mode=2)
    for number in range(MESSAGES):
        await channel.basic_publish(b"%d" % number, routing_key=queue, properties=lasting)

    glancing = (sys.executable, "-m", "bench.look_methods", url, queue, taking, giving)
    await (await asyncio.create_subprocess_exec(*glancing)).wait()
    await counted(channel, queue, lambda found: found.message_count == MESSAGES)

    some = await take(channel, queue, taking, ACKED)
    for message in some:
        await channel.basic_ack(message.delivery_tag or 0)
    # A cancelled consumer counts until all that it took is settled. Closed at once, a channel forgets acks.
    await counted(channel, queue, lambda found: not (WAITS and found.consumer_count))
    await filling.close()
    return {b"%d" % number for number in range(MESSAGES)} - {message.body for message in some}


async def left(url: str, queue: str) -> Collection[bytes]:
    """Return the messages in a queue."""
    connection = await connect(url)
    channel = await connection.channel()
    await counted(channel, queue, lambda found: bool(found.message_count))  # 0 until the queue has a leader
    count = (await channel.queue_declare(queue, passive=True)).message_count or 0
    bodies = [message.body for message in await take(channel, queue, "consume", count)]
    await connection.close()
    return bodies


async def main() -> None:
    """Try every method on both kinds of queue, with a clean stop and with a kill -9 of the broker."""
    ways = list(itertools.product(("quorum", "classic"), TAKES, GIVES))
    with tempfile.TemporaryDirectory() as folder:
        broker = PrivateBroker(Path(folder) / "home")
        try:
            for end in (broker.stop, broker.kill):
                node = broker.start(bound=True)
                queues = {way: "-".join((end.__name__, *way)) for way in ways}
                owed = {way: await look(node.amqp_url, queue, *way) for way, queue in queues.items()}
                await asyncio.sleep(2)  # the node writes down which queues it has every 500 ms
                end()
                node = broker.start(bound=True)
                for way in ways:
                    found = await left(node.amqp_url, queues[way])
                    lost, back = len(owed[way] - set(found)), len(found) - len(owed[way] & set(found))
                    print(f"{node.version} {end.__name__:4} {', '.join(way):30} lost {lost:3} back {back:3}")
        finally:
            broker.kill()
            broker.stop()


if __name__ == "__main__":
    quiet()
    asyncio.run(glance(*sys.argv[1:]) if sys.argv[1:] else main())
