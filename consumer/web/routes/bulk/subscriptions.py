"""``/v1/subscriptions``: the subscriptions of every tenant that the token sees; apply and remove several."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from consumer.core.changes.steps import full_name
from consumer.core.changes.view import details_of, row_of
from consumer.core.event.decode import TENANT_PATTERN
from consumer.web.access.guard import Caller, Operator, Reader
from consumer.web.models.base import Subscription, SubscriptionRow
from consumer.web.parameters import IfMatch, Paging
from consumer.web.routes.bulk.models import ApplyIn, ChangesOut, HowIn, RemoveIn, changes_out
from consumer.web.services import subscriptions
from consumer.web.services.bulk import subscriptions as service
from consumer.web.services.bulk.subscriptions import Changed, Files, How
from consumer.web.shared.cursors import Page, page_of
from consumer.web.shared.etags import etag_of
from consumer.web.shared.problems import Problem

router = APIRouter(prefix="/v1/subscriptions", tags=["subscriptions"])

OfTenant = Annotated[
    str | None, Query(pattern=f"^{TENANT_PATTERN.pattern}$", description="Only those of this tenant.")
]


@router.get("")
async def list_all_subscriptions(
    caller: Reader, page: Paging, tenant: OfTenant = None
) -> Page[SubscriptionRow]:
    """List the subscriptions of every tenant by tenant and name."""
    _demand_seen(caller, tenant)
    found = await subscriptions.listed(caller.context, tenant or caller.tenant)
    found = sorted(found, key=lambda each: full_name(each.entry))
    seen, after = page_of(found, lambda each: full_name(each.entry), page)
    return Page(items=[SubscriptionRow.model_validate(row_of(one)) for one in seen], next=after)


@router.get("/find")
async def find_subscription(
    caller: Reader,
    response: Response,
    name: Annotated[
        str, Query(min_length=1, max_length=512, description="tenant/name, an id, or a unique name.")
    ],
) -> Subscription:
    """Find one subscription by the name that people use; a 404 suggests similar names."""
    seen = await service.found(caller, name)
    response.headers["ETag"] = etag_of(seen.entry)
    return Subscription.model_validate(details_of(seen, caller.context.clock.now()))


@router.get("/export")
async def export_subscriptions(caller: Operator, tenant: OfTenant = None) -> dict[str, Any]:
    """Return a subscriptions file with whole URLs and header values; `***` is in place of each secret."""
    _demand_seen(caller, tenant)
    return dict(await service.exported(caller, tenant))


@router.post("/apply")
async def apply_subscriptions(
    what: ApplyIn, caller: Operator, response: Response, if_match: IfMatch = None
) -> ChangesOut:
    """Bring subscriptions files into the store as one change; a second time changes nothing.

    A dry run shows each change, and the deliveries that a prune would destroy. Its ETag covers all
    subscriptions: as If-Match it refuses the change if anything changed meanwhile.
    """
    files = Files(files=[(file.name, file.text) for file in what.files], prune=what.prune, enable=what.enable)
    return _answer(await service.apply(caller, files, _how(what, if_match)), what, response)


@router.post("/remove")
async def remove_subscriptions(
    what: RemoveIn, caller: Operator, response: Response, if_match: IfMatch = None
) -> ChangesOut:
    """Remove subscriptions with their secrets as one change, after a dry run has shown what it destroys."""
    changed = await service.remove_named(caller, what.subscriptions, _how(what, if_match))
    return _answer(changed, what, response)


def _how(what: HowIn, if_match: str | None) -> How:
    return How(dry_run=what.dry_run, may_remove=frozenset(what.may_remove), if_match=if_match)


def _answer(changed: Changed, what: HowIn, response: Response) -> ChangesOut:
    if what.dry_run:
        response.headers["ETag"] = changed.etag
    return changes_out(changed.report, dry_run=what.dry_run)


def _demand_seen(caller: Caller, tenant: str | None) -> None:
    if tenant is not None and not caller.sees(tenant):
        raise Problem(404, "there is no such tenant", field="tenant")
