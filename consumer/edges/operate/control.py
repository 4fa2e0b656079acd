"""Tell every worker something by hand: ``leveret.control`` is a fanout exchange.

Data flow: command line -> JSON -> leveret.control -> each worker's own queue.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from aiormq.exceptions import PublishError

from consumer.core.errors import BrokerUnavailable
from consumer.edges.broker.connection.connect import (
    CONNECTION_ERRORS,
    AmqpOptions,
    close_quietly,
    connect,
    open_channel,
)
from topology.names import Names


async def tell_workers(options: AmqpOptions, names: Names, message: Mapping[str, str | None]) -> bool:
    """Publish *message* to all workers that live now, confirmed; return whether there is any that listens.

    Raises:
        BrokerUnavailable: no broker took it, or it has no such exchange.
    """
    connection = await connect(options, "control")
    try:
        channel = await open_channel(connection, confirms=True)
        await channel.basic_publish(orjson.dumps(message), exchange=names.control, mandatory=True)
    except PublishError:  # it came back: no queue is bound
        return False
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"{names.control}: {error}; see `leveret topology check`") from None
    finally:
        await close_quietly(connection)
    return True
