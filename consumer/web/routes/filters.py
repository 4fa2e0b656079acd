"""Query parameters that choose deliveries and parked entries."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

Tenant = Annotated[str | None, Query(max_length=256, description="Only of this tenant.")]
Subscription = Annotated[
    str | None, Query(max_length=512, description="Only of this subscription: tenant/name, or its id.")
]
Type = Annotated[
    str | None, Query(max_length=256, description="Only matching event types: an AMQP topic pattern.")
]
Since = Annotated[
    str | None, Query(max_length=64, description="Only since then: RFC 3339, or a duration such as 2h.")
]
Until = Annotated[
    str | None, Query(max_length=64, description="Only before then: RFC 3339, or a duration such as 2h.")
]
