"""Read a broker's management API into a Snapshot, which topology.check compares with the plan.

Data flow: GET /api/... -> plain records -> Snapshot. It only reads.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import httpx2

from consumer.core.errors import BrokerUnavailable
from consumer.edges.management.reach import ManagementLogin
from topology.check import Severity, Snapshot, handle_findings

__all__ = ["ManagementLogin", "Reader", "asked", "fetch_snapshot", "file_limit"]

_T = TypeVar("_T")

TIMEOUT_S = 10.0
"""Longest wait for one answer; a broker with thousands of queues needs seconds."""


async def file_limit(login: ManagementLogin) -> str | None:
    """Name the node that has too few file handles for its quorum queues; None if there is no such node.

    It explains why a broker accepts no connection: the management API still answers then.
    """
    try:
        return await asked(login, _short_of_handles)
    except BrokerUnavailable:
        return None


async def fetch_snapshot(login: ManagementLogin) -> Snapshot:
    """Read everything that the check compares.

    Parts that the user may not read (nodes and feature flags need the tag ``monitoring``) are named in the
    snapshot's gaps.

    Raises:
        BrokerUnavailable: the API cannot be reached, or refuses the user.
    """
    return await asked(login, lambda reader: _read(reader, quote(login.vhost, safe="")))


async def asked(login: ManagementLogin, ask: Callable[[Reader], Awaitable[_T]]) -> _T:
    """Pass a reader of the API to *ask*, and return its result.

    Raises:
        BrokerUnavailable: the API cannot be reached, refuses the user, or answers something unexpected.
    """
    auth = (login.user, login.password)
    async with httpx2.AsyncClient(
        base_url=login.url, auth=auth, timeout=TIMEOUT_S, trust_env=False
    ) as client:
        try:
            return await ask(Reader(client))
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            raise BrokerUnavailable(
                f"management API {login.url}: {_reason(error)}; check [amqp] management_url and the user"
            ) from error


async def _short_of_handles(reader: Reader) -> str | None:
    """Read only the data for the check of the file limit."""
    overview = await reader.get("/api/overview")
    quorum = await _quorum_queues(reader)
    snapshot = Snapshot(
        version=_version(overview),
        exchange_types=frozenset(),
        quorum_queues=quorum,
        nodes=await reader.optional("/api/nodes?columns=name,fd_total"),
    )
    found = [each for each in handle_findings(snapshot, quorum) if each.severity is Severity.ERROR]
    return f"{found[0].subject} {found[0].text}; {found[0].remedy}" if found else None


async def _quorum_queues(reader: Reader) -> int:
    everywhere = await reader.get("/api/queues?columns=type&disable_stats=true")
    return sum(queue.get("type") == "quorum" for queue in everywhere)


def _version(overview: Mapping[str, Any]) -> str:
    return str(overview.get("rabbitmq_version") or overview["management_version"])


async def _read(reader: Reader, vhost: str) -> Snapshot:
    overview = await reader.get("/api/overview")
    queues = await reader.get(f"/api/queues/{vhost}?disable_stats=true&enable_queue_totals=true")
    flags = await reader.optional("/api/feature-flags")
    return Snapshot(
        version=_version(overview),
        exchange_types=frozenset(kind["name"] for kind in overview["exchange_types"]),
        quorum_queues=await _quorum_queues(reader),
        exchanges=await reader.get(f"/api/exchanges/{vhost}"),
        queues=queues,
        bindings=await reader.get(f"/api/bindings/{vhost}"),
        policies=await reader.optional(f"/api/policies/{vhost}"),
        operator_policies=await reader.optional(f"/api/operator-policies/{vhost}"),
        flags={str(flag["name"]): str(flag["state"]) for flag in flags},
        nodes=await reader.optional("/api/nodes?columns=name,fd_total"),
        gaps=tuple(reader.gaps),
    )


class Dated(NamedTuple):
    """The time that an answer names, and when it was asked for and received."""

    date: str  #: the header Date; empty if there was none
    asked_at: float  #: Unix seconds
    received_at: float  #: Unix seconds


class Reader:
    """Reads JSON with GET, and records the parts that the user may not read."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self.gaps: list[str] = []
        self.dated = Dated("", 0.0, 0.0)  #: of the last answer

    async def get(self, path: str) -> Any:
        """Return the JSON of *path*, which must be readable."""
        answer = await self._answer(path)
        answer.raise_for_status()
        return answer.json()

    async def _answer(self, path: str) -> httpx2.Response:
        asked_at = time.time()
        answer = await self._client.get(path)
        self.dated = Dated(answer.headers.get("date", ""), asked_at, time.time())
        return answer

    async def optional(self, path: str) -> list[dict[str, Any]]:
        """Return the list at *path*; an empty one, and a gap, if the user may not read it."""
        answer = await self._answer(path)
        if answer.status_code in (401, 403, 404, 405):
            self.gaps.append(f"{path.partition('?')[0]} ({answer.status_code})")
            return []
        answer.raise_for_status()
        return list(answer.json())


def _reason(error: Exception) -> str:
    if isinstance(error, httpx2.HTTPStatusError):
        return f"answers {error.response.status_code} to {re.sub('[?].*', '', str(error.request.url))}"
    return f"{type(error).__name__} {error}"
