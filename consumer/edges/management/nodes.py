"""Read the state of a broker's nodes from its management API: alarms, handles, memory, disk.

Data flow: GET /api/nodes -> :class:`NodesLook`. It only reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consumer.core.tools.doctor.broker import NodeState
from consumer.edges.management.reach import ManagementLogin
from consumer.edges.management.snapshot import Dated, Reader, asked

_COLUMNS = (
    "name,running,mem_alarm,disk_free_alarm,fd_used,fd_total,mem_used,mem_limit,disk_free,disk_free_limit,"
    "partitions"
)


@dataclass(frozen=True, slots=True)
class NodesLook:
    """The nodes, as far as the user may see them."""

    nodes: Sequence[NodeState]  #: empty if the user may not see them
    dated: Dated  #: the clock of the node that answered


async def fetch_nodes(login: ManagementLogin) -> NodesLook:
    """Return the state of each node.

    Raises:
        BrokerUnavailable: the API cannot be reached, or refuses the user.
    """
    return await asked(login, _read)


async def _read(reader: Reader) -> NodesLook:
    records = await reader.optional(f"/api/nodes?columns={_COLUMNS}")
    return NodesLook([_state(record) for record in records], reader.dated)


def _state(record: Mapping[str, Any]) -> NodeState:
    return NodeState(
        name=str(record["name"]),
        running=bool(record.get("running", True)),
        memory_alarm=record.get("mem_alarm") is True,
        disk_alarm=record.get("disk_free_alarm") is True,
        files_used=_number(record, "fd_used"),
        files_limit=_number(record, "fd_total"),
        memory_bytes=_number(record, "mem_used"),
        memory_limit_bytes=_number(record, "mem_limit"),
        disk_free_bytes=_number(record, "disk_free"),
        disk_limit_bytes=_number(record, "disk_free_limit"),
        partitions=tuple(str(name) for name in record.get("partitions") or ()),
    )


def _number(record: Mapping[str, Any], name: str) -> int | None:
    """Return a number; None where the node reports none yet, as some seconds after its start."""
    value = record.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
