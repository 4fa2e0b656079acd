"""``/v1/policies``: the retry policies that a subscription may name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from consumer.web.access.guard import Reader
from consumer.web.models.endpoints import Policy
from consumer.web.parameters import Paging
from consumer.web.services import policies
from consumer.web.shared.cursors import Page, page_of

router = APIRouter(prefix="/v1/policies", tags=["policies"])


@router.get("")
async def list_policies(caller: Reader, page: Paging) -> Page[Policy]:
    """List the policies by name, with the waits of each."""
    found = [Policy.model_validate(each) for each in policies.listed(caller.context)]
    items, after = page_of(found, lambda each: each.name, page)
    return Page(items=list(items), next=after)


@router.get("/{policy}")
async def show_policy(
    policy: Annotated[str, Path(max_length=128, description="Name of a policy.")], caller: Reader
) -> Policy:
    """Show one policy with the waits that follow from it."""
    return Policy.model_validate(policies.one(caller.context, policy))
