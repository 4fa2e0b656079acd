"""Send a message to every worker over the fanout exchange ``leveret.control``.

Data flow: command line -> JSON -> leveret.control -> each worker's own queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import orjson
from aio_pika.abc import AbstractConnection
from aiormq.exceptions import PublishError

from consumer.core.errors import BrokerUnavailable
from consumer.core.message.waiting import Wanted
from consumer.edges.broker.connection.connect import (
    CONNECTION_ERRORS,
    AmqpOptions,
    close_quietly,
    connect,
    open_channel,
)
from topology.names import Names


def freeing(wanted: Wanted) -> Mapping[str, str | None] | None:
    """Return the message that makes the workers cancel the reservations of the *wanted* deliveries.

    It is None for one event, which has only one reservation: nothing changes for the others.
    """
    if wanted.event is not None:
        return None
    return {"kind": "free", "tenant": wanted.tenant, "subscription": wanted.subscription}


async def send_to_workers(options: AmqpOptions, names: Names, message: Mapping[str, str | None]) -> bool:
    """Publish *message* to all running workers, confirmed; return whether at least one listens.

    Raises:
        BrokerUnavailable: the broker is away or did not confirm, or the exchange does not exist.
    """
    connection = await connect(options, "control")
    try:
        channel = await open_channel(connection, confirms=True)
        await channel.basic_publish(orjson.dumps(message), exchange=names.control, mandatory=True)
    except PublishError:  # the broker returned it, as no queue is bound
        return False
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"{names.control}: {error}; see `leveret topology check`") from None
    finally:
        await close_quietly(connection)
    return True


async def report_to_workers(
    connection: AbstractConnection, names: Names, message: Mapping[str, object]
) -> None:
    """Publish *message* to all running workers without a confirm; a broker that is away takes none."""
    with suppress(*CONNECTION_ERRORS):
        channel = await open_channel(connection, confirms=False)
        await channel.basic_publish(orjson.dumps(message), exchange=names.control)
        await channel.close()
