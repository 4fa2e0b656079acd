"""Events of one large size, spread over many tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.broker.load import EventSpec

TENANTS = 64  #: enough to use every lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Messages of one size, and the settings of their daemon."""

    name: str
    count: int
    size_bytes: int
    settings: Mapping[str, str] = field(default_factory=dict)


def events(load: Load, count: int, prefix: str) -> Sequence[EventSpec]:
    """Return *count* events of *load*, which share their body."""
    body = b'{"note":"' + b"x" * (load.size_bytes - 11) + b'"}'
    return [
        EventSpec(id=f"{prefix}_{n:05d}", tenant=f"t{n % TENANTS:02d}", type="order.created", body=body)
        for n in range(count)
    ]
