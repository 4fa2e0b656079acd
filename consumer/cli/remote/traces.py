"""Traces of an API, rebuilt from its JSON."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.cli.remote.client import Client, ServerProblem, segment
from consumer.cli.values.traces import Filters
from consumer.core.errors import ConfigError
from consumer.core.history.trace import EventTrace
from consumer.core.operate.trace_from_dict import event_from_dict
from consumer.core.text.rfc3339 import from_ms


class RemoteTraces:
    """The traces of the events that the token may see."""

    def __init__(self, client: Client) -> None:
        """Bind to an API."""
        self._client = client

    def look(self, event_id: str | None, filters: Filters) -> None:
        """Refuse: an API does not look into the rungs.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("--live: the API does not look into the rungs; see `leveret waiting list`")

    def event(self, event_id: str, filters: Filters) -> Sequence[EventTrace]:
        """Return the traces of an event; several if tenants share the id."""
        path = f"/v1/events/{segment(event_id)}"
        params = {"tenant": filters.tenant or None, "subscription": filters.named or None}
        try:
            found = self._client.get(path, params).body["items"]
        except ServerProblem as problem:
            if problem.status != 404:
                raise
            fault = str(problem).removeprefix("event_id: ")
            raise ConfigError(fault.replace("this event", event_id, 1)) from None
        return [event_from_dict(each) for each in found]

    def newest(self, filters: Filters, limit: int) -> Sequence[EventTrace]:
        """Return traces of the newest matching deliveries, each with this one delivery, in order of time."""
        params = {
            "delivery_id": filters.delivery_id or None,
            "subscription": filters.named or None,
            "tenant": filters.tenant or None,
            "failed": filters.failed,
            "since": from_ms(round(filters.since * 1000)) if filters.since else None,
            "limit": limit,
        }
        return [event_from_dict(each) for each in self._client.get("/v1/traces", params).body["items"]]
