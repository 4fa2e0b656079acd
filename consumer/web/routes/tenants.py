"""``/v1/tenants``: the tenants that have subscriptions."""

from __future__ import annotations

from fastapi import APIRouter

from consumer.web.access.guard import Reader
from consumer.web.models.base import Tenant
from consumer.web.parameters import Paging, TenantName
from consumer.web.shared.cursors import Page, page_of
from consumer.web.shared.problems import Problem

router = APIRouter(prefix="/v1/tenants", tags=["tenants"])


@router.get("")
async def list_tenants(caller: Reader, page: Paging) -> Page[Tenant]:
    """List the tenants by name; a token that is bound to a tenant sees only that one."""
    counts = await caller.context.lookup.tenants()
    seen = sorted(name for name in counts if caller.sees(name))
    names, after = page_of(seen, str, page)
    return Page(items=[Tenant(name=name, subscriptions=counts[name]) for name in names], next=after)


@router.get("/{tenant}")
async def show_tenant(tenant: TenantName, caller: Reader) -> Tenant:
    """Show one tenant. A tenant exists while it has a subscription."""
    counts = await caller.context.lookup.tenants()
    if tenant not in counts:
        raise Problem(404, "there is no such tenant", field="tenant", remedy="add a subscription to make it")
    return Tenant(name=tenant, subscriptions=counts[tenant])
