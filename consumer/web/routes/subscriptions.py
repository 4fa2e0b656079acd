"""``/v1/tenants/{tenant}/subscriptions``: create, list, read, change and remove subscriptions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from consumer.core.changes.view import Seen, details_of, row_of
from consumer.web.access.guard import Operator, Reader
from consumer.web.context import WebContext
from consumer.web.models.base import (
    CreatedSubscription,
    Subscription,
    SubscriptionFields,
    SubscriptionPatch,
    SubscriptionRow,
)
from consumer.web.parameters import IfMatch, IfNoneMatch, Paging, TenantName
from consumer.web.services import subscriptions as service
from consumer.web.services.subscriptions import Target
from consumer.web.shared.cursors import Page, page_of
from consumer.web.shared.etags import etag_of, matches

router = APIRouter(prefix="/v1/tenants/{tenant}/subscriptions", tags=["subscriptions"])


async def _target(
    tenant: TenantName,
    subscription: Annotated[str, Path(max_length=128, description="Id or name of a subscription.")],
    if_match: IfMatch = None,
) -> Target:
    return Target(tenant, subscription, if_match)


One = Annotated[Target, Depends(_target)]


@router.get("")
async def list_subscriptions(tenant: TenantName, caller: Reader, page: Paging) -> Page[SubscriptionRow]:
    """List the subscriptions of a tenant by name."""
    seen, after = page_of(await service.listed(caller.context, tenant), lambda one: one.entry.label, page)
    return Page(items=[SubscriptionRow.model_validate(row_of(one)) for one in seen], next=after)


@router.post("", status_code=201)
async def create_subscription(
    tenant: TenantName, fields: SubscriptionFields, caller: Operator, response: Response
) -> CreatedSubscription:
    """Create a subscription. A generated secret is in this answer, and in no later one."""
    created = await service.create(caller, tenant, fields.root)
    shown = _shown(caller.context, created.seen, response)
    response.headers["Location"] = f"/v1/tenants/{tenant}/subscriptions/{created.seen.entry.id}"
    return CreatedSubscription(**shown.model_dump(), secret=created.secret)


@router.get("/{subscription}", responses={304: {"description": "It is as the client has it."}})
async def show_subscription(
    target: One, caller: Reader, response: Response, if_none_match: IfNoneMatch = None
) -> Subscription:
    """Show one subscription with all its effective settings, without its secrets."""
    seen = await service.read(caller.context, target)
    etag = etag_of(seen.entry)
    if if_none_match is not None and matches(if_none_match, etag):
        return Response(status_code=304, headers={"ETag": etag})  # type: ignore[return-value]  # sent as it is
    return _shown(caller.context, seen, response)


@router.patch("/{subscription}")
async def patch_subscription(
    target: One, changes: SubscriptionPatch, caller: Operator, response: Response
) -> Subscription:
    """Change some fields: a JSON merge patch. `enabled: true` also lifts an earlier disabling."""
    return _shown(caller.context, await service.patch(caller, target, changes.root), response)


@router.delete("/{subscription}", status_code=204)
async def delete_subscription(
    target: One,
    caller: Operator,
    confirm: Annotated[
        bool, Query(description="Remove it even if deliveries wait, are parked, or cannot be counted.")
    ] = False,
) -> None:
    """Remove a subscription with its secrets; its waiting deliveries are archived and counted `cancelled`."""
    await service.delete(caller, target, confirm=confirm)


def _shown(context: WebContext, seen: Seen, response: Response) -> Subscription:
    response.headers["ETag"] = etag_of(seen.entry)
    return Subscription.model_validate(details_of(seen, context.clock.now()))
