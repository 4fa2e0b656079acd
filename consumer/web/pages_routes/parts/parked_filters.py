"""Read the filter of parked entries from an address or a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated

from fastapi import Depends, Request

from consumer.core.message.parked_filter import Filter
from consumer.web.access.visitors import Visitor
from consumer.web.pages.views.parked import ParkedFilter
from consumer.web.services.parked import ParkedAsk, chosen
from consumer.web.shared.moments import moment


def read_filter(values: Mapping[str, str]) -> ParkedFilter:
    """Return the filter as it was typed."""
    return ParkedFilter(**{each.name: values.get(each.name, "").strip() for each in fields(ParkedFilter)})


async def _of_query(request: Request) -> ParkedFilter:
    return read_filter(request.query_params)


Chosen = Annotated[ParkedFilter, Depends(_of_query)]
"""The type of a parameter through which a route gets the filter in the address."""


async def filter_of(visitor: Visitor, typed: ParkedFilter) -> Filter:
    """Return the filter that was typed, with names resolved.

    Raises:
        Problem: 404, 422: a field is not valid.
        StoreUnavailable: the names cannot be read.
    """
    now = visitor.context.clock.now()
    ask = ParkedAsk(
        tenant=typed.tenant,
        type=typed.type,
        reason=typed.reason,
        subscription=typed.subscription,
        since=moment(typed.since, "since", now),
        until=moment(typed.until, "until", now),
    )
    return await chosen(visitor.caller, ask)
