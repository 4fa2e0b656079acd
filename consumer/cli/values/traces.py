"""The filters of ``leveret trace`` and ``leveret tail``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filters:
    """The checked filters; an empty text sets no condition."""

    delivery_id: str = ""
    subscription_id: str = ""
    tenant: str = ""
    failed: bool = False
    since: float = 0.0  #: Unix seconds
    named: str = ""  #: the subscription as the operator named it

    def __bool__(self) -> bool:
        """Return whether there is any condition."""
        return bool(self.delivery_id or self.subscription_id or self.tenant or self.failed or self.since)
