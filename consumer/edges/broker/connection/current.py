"""Give the present consuming connection to parts that open a channel only now and then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aio_pika.abc import AbstractConnection

from consumer.core.errors import BrokerUnavailable


class CurrentConnection:
    """The connection that is open now, if there is one."""

    def __init__(self, connection: AbstractConnection | None = None) -> None:
        self._connection = connection

    def get(self) -> AbstractConnection:
        """Return the connection.

        Raises:
            BrokerUnavailable: no connection is open.
        """
        if self._connection is None:
            raise BrokerUnavailable("no connection to the broker")
        return self._connection

    @contextmanager
    def serving(self, connection: AbstractConnection) -> Iterator[None]:
        """Provide *connection* until the block ends."""
        self._connection = connection
        try:
            yield
        finally:
            self._connection = None
