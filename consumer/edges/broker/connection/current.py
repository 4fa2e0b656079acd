"""Give the consuming connection, while there is one, to those who open a channel on it now and then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aio_pika.abc import AbstractConnection

from consumer.core.errors import BrokerUnavailable


class CurrentConnection:
    """The connection of now."""

    def __init__(self, connection: AbstractConnection | None = None) -> None:
        self._connection = connection

    def get(self) -> AbstractConnection:
        """Return it.

        Raises:
            BrokerUnavailable: there is none now.
        """
        if self._connection is None:
            raise BrokerUnavailable("no connection to the broker")
        return self._connection

    @contextmanager
    def serving(self, connection: AbstractConnection) -> Iterator[None]:
        """Give out *connection* until the block ends."""
        self._connection = connection
        try:
            yield
        finally:
            self._connection = None
