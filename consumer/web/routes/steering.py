"""``/v1/tenants/{tenant}/subscriptions/{subscription}/...``: enable, disable, pause, resume, rotate, test."""

from __future__ import annotations

from fastapi import APIRouter, Response

from consumer.core.changes.view import Seen, details_of
from consumer.core.errors import ConfigError
from consumer.core.text.durations import parse_duration
from consumer.web.access.guard import Operator
from consumer.web.context import WebContext
from consumer.web.models.base import Subscription
from consumer.web.models.endpoints import (
    DisableOptions,
    Paused,
    Released,
    RotatedSubscription,
    RotateOptions,
    Trial,
)
from consumer.web.routes.subscriptions import One
from consumer.web.services import steering, trials
from consumer.web.shared.etags import etag_of
from consumer.web.shared.problems import Problem

router = APIRouter(prefix="/v1/tenants/{tenant}/subscriptions/{subscription}", tags=["subscriptions"])


@router.post("/enable")
async def enable_subscription(target: One, caller: Operator, response: Response) -> Subscription:
    """Send again, for whatever reason the subscription was disabled."""
    return _shown(caller.context, await steering.enable(caller, target), response)


@router.post("/disable")
async def disable_subscription(
    target: One, caller: Operator, response: Response, options: DisableOptions | None = None
) -> Subscription:
    """Send nothing until it is enabled again; waiting deliveries are parked as `disabled`."""
    reason = (options or DisableOptions()).reason
    return _shown(caller.context, await steering.disable(caller, target, reason), response)


@router.post("/pause")
async def pause_subscription(target: One, caller: Operator) -> Paused:
    """Send nothing until it is resumed; deliveries wait and lose no attempt."""
    return Paused(paused=True, changed=await steering.pause(caller, target))


@router.post("/resume")
async def resume_subscription(target: One, caller: Operator) -> Released:
    """Lift its own pause, and send the waiting deliveries at once."""
    return released_of(await steering.resume(caller, target))


@router.post("/rotate")
async def rotate_secret(
    target: One, caller: Operator, response: Response, options: RotateOptions | None = None
) -> RotatedSubscription:
    """Add a new secret. The old one signs beside it for a while, so that receivers can change over."""
    given = options or RotateOptions()
    try:
        expire_in_s = parse_duration(given.expire_in)
    except ConfigError as error:
        raise Problem(422, str(error), field="expire_in") from None
    if given.drop_old and (given.secret is not None or given.lost_key):
        raise Problem(422, "drop_old adds no secret", field="drop_old", remedy="leave the other field out")
    if given.drop_old:
        rotated = await steering.drop_old_secrets(caller, target)
    else:
        fresh = steering.Fresh(secret=given.secret, expire_in_s=expire_in_s, lost_key=given.lost_key)
        rotated = await steering.rotate_secret(caller, target, fresh)
    shown = _shown(caller.context, rotated.seen, response)
    return RotatedSubscription(
        **shown.model_dump(),
        secret=rotated.secret,
        public_key=rotated.public_key,
        ends_at=list(rotated.seen.entry.ends_at),
    )


@router.post("/test")
async def send_test_event(target: One, caller: Operator) -> Trial:
    """Send one signed webhook `leveret.test` straight to the endpoint, and return its answer."""
    result = await trials.send(caller, target)
    return Trial(
        ok=result.ok,
        code=result.code,
        kind=result.kind,
        status=result.status,
        duration_s=result.duration_s,
        detail=result.detail,
        advice=result.advice,
        event_id=result.trial.event_id,
        timestamp=result.trial.timestamp,
        signature=result.trial.signature,
        body=result.trial.body.decode(),
        answer=result.answer.decode("utf-8", "replace"),
        answer_type=result.answer_type,
    )


def released_of(freed: steering.Freed) -> Released:
    """Return the answer for waiting deliveries that are sent now."""
    return Released(released=freed.released.count, heard=freed.heard, unread=list(freed.released.unread))


def _shown(context: WebContext, seen: Seen, response: Response) -> Subscription:
    response.headers["ETag"] = etag_of(seen.entry)
    return Subscription.model_validate(details_of(seen, context.clock.now()))
