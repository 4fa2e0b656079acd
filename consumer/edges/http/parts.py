"""Build the parts that both senders share: look-up, guard, dialer, TLS contexts."""

from __future__ import annotations

from consumer.edges.http.connect.dial import Dialer
from consumer.edges.http.connect.guard import Guard
from consumer.edges.http.connect.resolver import Lookup, Resolve
from consumer.edges.http.connect.tls import TlsContexts
from consumer.edges.http.handles import Handles
from consumer.edges.http.options import SenderOptions


class Parts:
    """The shared parts, made once for all senders."""

    def __init__(self, options: SenderOptions, resolve: Resolve | None = None) -> None:
        """Prepare; nothing is opened.

        Args:
            options: Bounds and rules.
            resolve: Looks names up; None uses the system and the name servers.

        Raises:
            ConfigError: the CA file cannot be read.
        """
        self.options = options
        bounds = (
            options.resolve_timeout_s,
            options.resolve_ttl_min_s,
            options.resolve_ttl_max_s,
            options.name_servers,
        )
        self._lookup = Lookup(*bounds)
        self._lookup_of_ours = Lookup(*bounds, absolute=False)
        self.guard = Guard(
            options.egress,
            resolve or self._lookup,
            options.resolve_timeout_s,
            resolve or self._lookup_of_ours,
        )
        self.handles = Handles(options.handles)
        self.dialer = Dialer(options, self.guard, self.handles)
        self.tls = TlsContexts(options.ca_file)

    async def close(self) -> None:
        """End the look-ups."""
        await self._lookup.close()
        await self._lookup_of_ours.close()
