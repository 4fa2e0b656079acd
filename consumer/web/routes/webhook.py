"""``/webhook/subscriptions``: subscriptions in camelCase with milliseconds. Source: S0-4, S0-6."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel

from consumer.core.changes.steps import full_name
from consumer.core.changes.view import Seen
from consumer.core.event.decode import TENANT_PATTERN
from consumer.web.access.guard import Caller, Operator, Reader
from consumer.web.models.webhook import (
    CreatedWebhook,
    SenderStats,
    Webhook,
    WebhookFields,
    WebhookPatch,
)
from consumer.web.models.webhook_form import fields_of, form_of, translated
from consumer.web.parameters import IfMatch, Paging
from consumer.web.services import policies, subscriptions
from consumer.web.services.endpoints import tenant_of
from consumer.web.services.subscriptions import Target
from consumer.web.shared.cursors import Page, page_of
from consumer.web.shared.etags import etag_of
from consumer.web.shared.problems import Problem

router = APIRouter(prefix="/webhook/subscriptions", tags=["webhook subscriptions"])

SubscriptionId = Annotated[str, Path(max_length=128, description="Id of a subscription.")]
OfTenant = Annotated[
    str | None, Query(pattern=f"^{TENANT_PATTERN.pattern}$", description="Only those of this tenant.")
]


async def _read_target(subscription: SubscriptionId, caller: Reader) -> Target:
    return await _target(subscription, caller)


async def _change_target(subscription: SubscriptionId, caller: Operator, if_match: IfMatch = None) -> Target:
    return await _target(subscription, caller, if_match)


async def _target(subscription: str, caller: Caller, if_match: str | None = None) -> Target:
    tenant = await tenant_of(caller.context, subscription)
    if tenant is None or not caller.sees(tenant):
        raise Problem(404, "there is no such subscription", field="subscription", remedy="list them")
    return Target(tenant, subscription, if_match)


ReadTarget = Annotated[Target, Depends(_read_target)]
ChangeTarget = Annotated[Target, Depends(_change_target)]


@router.get("/sender/stats")
async def sender_stats(caller: Reader) -> SenderStats:
    """Show the time-out, the retry configuration and the waits that hold where a subscription names none."""
    return SenderStats.model_validate(policies.stats(caller.context))


@router.get("")
async def list_webhooks(caller: Reader, page: Paging, tenant: OfTenant = None) -> Page[Webhook]:
    """List subscriptions by tenant and name."""
    if not caller.sees(tenant) and tenant is not None:
        raise Problem(404, "there is no such tenant", field="tenant")
    found = await subscriptions.listed(caller.context, tenant or caller.tenant)
    found = sorted(found, key=lambda each: full_name(each.entry))
    seen, after = page_of(found, lambda each: full_name(each.entry), page)
    return Page(items=[Webhook.model_validate(form_of(each)) for each in seen], next=after)


@router.post("", status_code=201)
async def create_webhook(fields: WebhookFields, caller: Operator, response: Response) -> CreatedWebhook:
    """Create a subscription. A generated secret is in this answer, and in no later one."""
    given = _given(fields)
    tenant = given.pop("tenant", None) or caller.tenant or caller.context.settings.events.default_tenant
    if not caller.sees(tenant):
        raise Problem(403, "the token is bound to another tenant", field="tenant", remedy="leave it out")
    with _their_names():
        created = await subscriptions.create(caller, tenant, fields_of(given))
    response.headers["Location"] = f"/webhook/subscriptions/{created.seen.entry.id}"
    shown = _shown(created.seen, response)
    return CreatedWebhook.model_validate({**shown.model_dump(by_alias=True), "secret": created.secret})


@router.get("/{subscription}")
async def show_webhook(target: ReadTarget, caller: Reader, response: Response) -> Webhook:
    """Show one subscription with its effective retry configuration, without its secret."""
    return _shown(await subscriptions.read(caller.context, target), response)


@router.patch("/{subscription}")
async def patch_webhook(
    target: ChangeTarget, changes: WebhookPatch, caller: Operator, response: Response
) -> Webhook:
    """Change some fields. To replace the secret, see `/v1/tenants/{tenant}/subscriptions/{id}/rotate`."""
    with _their_names():
        seen = await subscriptions.patch(caller, target, fields_of(_given(changes)))
    return _shown(seen, response)


@router.delete("/{subscription}", status_code=204)
async def delete_webhook(
    target: ChangeTarget,
    caller: Operator,
    confirm: Annotated[
        bool, Query(description="Remove it even if deliveries wait, are parked, or cannot be counted.")
    ] = False,
) -> None:
    """Remove a subscription with its secret; its waiting deliveries are archived and counted `cancelled`."""
    await subscriptions.delete(caller, target, confirm=confirm)


@contextmanager
def _their_names() -> Iterator[None]:
    """Name the fields of a problem as this form does."""
    try:
        yield
    except Problem as problem:
        raise translated(problem) from None


def _given(fields: BaseModel) -> dict[str, Any]:
    return fields.model_dump(by_alias=True, exclude_unset=True)


def _shown(seen: Seen, response: Response) -> Webhook:
    response.headers["ETag"] = etag_of(seen.entry)
    return Webhook.model_validate(form_of(seen))
