"""Notice that a broker came back, long before the next try of a connection that backs off.

A connection to AMQP costs both sides much, so tries are rare during an outage. A TCP connection costs next
to nothing: it is tried several times a second. RabbitMQ opens its port at the end of its start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from yarl import URL

KNOCK_S: Final = 0.5  #: longest pause between two tries of a port; half of it on average
DIAL_S: Final = 2.0  #: time in which a port must take a connection
PORTS: Final = {"amqp": 5672, "amqps": 5671}  #: of URLs without a port


async def until_back(urls: Sequence[str], sample: Callable[[], float]) -> None:
    """Return once a port takes a connection that did not before.

    A port that takes connections at the first try, as that of a load balancer, proves nothing, and is not
    tried again.

    Args:
        urls: AMQP URLs of the brokers; where each port is open, this never returns.
        sample: Returns a number that is uniform in [0, 1), so that workers do not come together.
    """
    away = {url for url in urls if not await is_open(URL(url))}
    while away:
        await asyncio.sleep(KNOCK_S * sample())
        for url in away:
            if await is_open(URL(url)):
                return
    await asyncio.Event().wait()


async def is_open(url: URL) -> bool:
    """Return whether the port of *url* takes a connection."""
    try:
        async with asyncio.timeout(DIAL_S):
            _, writer = await asyncio.open_connection(url.host, url.port or PORTS[url.scheme])
    except OSError:  # also a time-out: of the network, or with a full backlog
        return False
    writer.close()
    return True
