"""Publish one event, and answer only after the broker has confirmed it.

Data flow: values of a request -> Draft, checked -> idempotency key claimed -> broker, confirmed -> key
confirmed. A request that is repeated with its key gets the same answer, and no second event.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from consumer.core.errors import (
    BadEvent,
    BrokerUnavailable,
    ConfigError,
    FrameTooLarge,
    LeveretError,
    Refused,
    StoreUnavailable,
)
from consumer.core.event import jsontext
from consumer.core.event.amqp_values import normalise_type
from consumer.core.event.compose import Composed, Draft, check_id
from consumer.core.store.audit import Change
from consumer.core.text.ids import uuid7
from consumer.edges.operate.paced import Schedule, publish_paced
from consumer.edges.store.rows.audit import PUBLISHED
from consumer.edges.store.rows.publish_keys import LEASE_S, Claim, PublishKey, PublishKeys
from consumer.ports import Publication
from consumer.web.access.audited import audited
from consumer.web.access.guard import Caller
from consumer.web.context import WebContext
from consumer.web.shared.problems import RETRY_S, Fault, Problem, faults_of

CONFIRM_S: Final = 10.0  #: longest wait for the broker's confirm
SPARE_S: Final = 10.0  #: seconds of a claim that are left at the end of a publish, for clocks that differ
WAIT_S: Final = 10.0  #: longest wait for another process that publishes the event of the same key
LOOK_S: Final = 0.2  #: seconds between two looks at the key of another process
KEY_MAX: Final = 200  #: characters of an idempotency key


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event that a client wants to publish."""

    type: str
    data: bytes  #: JSON, used unchanged
    id: str | None = None  #: None: the idempotency key, or else a new one


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """An event that the broker has."""

    id: str
    webhook_id: str  #: the id that receivers see
    tenant: str
    type: str  #: as receivers see it
    at: float  #: Unix seconds
    size_bytes: int
    repeated: bool  #: whether an earlier request with this key had published it


async def publish(caller: Caller, tenant: str, event: NewEvent, key: str | None = None) -> Published:
    """Publish *event* for *tenant*.

    Args:
        caller: Who publishes.
        tenant: Owner of the event.
        event: The event.
        key: Idempotency key of the request; a key is remembered for 24 hours.

    Raises:
        Problem: 413: the event is too long; 422: a fault, or the key belongs to another request; 503: the
            broker refused the event or is away; a repeated request is safe.
        StoreUnavailable: the key or the line of the audit log cannot be stored; nothing was published.
    """
    context = caller.context
    draft = _draft(context, tenant, event)
    if key is None:
        now = context.clock.now()
        chosen = uuid7(int(now * 1000), os.urandom(10)) if event.id is None else event.id
        return await _sent(caller, draft, chosen, now)
    _check_key(key)
    async with context.publishing.of((tenant, key)):
        return await _sent_once(caller, draft, event, key)


async def _sent_once(caller: Caller, draft: Draft, event: NewEvent, key: str) -> Published:
    """Publish an event unless an earlier request with its key has done so, here or in another process.

    Raises:
        Problem, StoreUnavailable: as :func:`publish`.
    """
    context, keys = caller.context, caller.context.store.records.publish_keys
    chosen = key if event.id is None else event.id
    wanted = PublishKey(tenant=draft.tenant, key=key, digest=_digest(event), event_id=chosen)
    used, is_ours = await _claimed(keys, wanted)
    if not is_ours:
        return _published(draft, draft.compose(used.event_id, 1, used.at), repeated=True)
    try:
        async with asyncio.timeout(LEASE_S - SPARE_S):
            done = await _sent(caller, draft, used.event_id, used.at)
    except (Problem, LeveretError, TimeoutError) as error:
        with suppress(StoreUnavailable):  # the claim ends by time
            await keys.release(used)
        if isinstance(error, TimeoutError):
            raise _unconfirmed() from None
        raise
    try:
        await keys.confirm(used)
    except StoreUnavailable as error:  # the broker has the event; a repetition has the same id
        context.log.warning("api.key_unconfirmed", error=str(error))
    return done


async def _claimed(keys: PublishKeys, wanted: PublishKey) -> Claim:
    """Claim a key; while another process publishes its event, wait for the result.

    Raises:
        Problem: 422: the key belongs to another request; 503: the other process is not ready yet.
        StoreUnavailable: the key cannot be stored.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + WAIT_S
    while True:
        claim = await keys.claim(wanted)
        if claim.use.digest != wanted.digest:
            detail = "this key belongs to a request with another body"
            raise Problem(422, detail, field="Idempotency-Key", remedy="use a new key for a new event")
        if claim.is_ours or claim.use.confirmed:
            return claim
        if loop.time() >= until:
            detail, remedy = "another request with this key is being published", "repeat the request"
            raise Problem(503, detail, remedy=remedy, headers={"Retry-After": str(RETRY_S)})
        await asyncio.sleep(LOOK_S)


def data_of(body: bytes) -> bytes:
    """Return the bytes of the member ``data`` of a request, unchanged.

    Raises:
        Problem: 422: there is none, or it is nested too deep.
    """
    try:
        jsontext.parse(body)
        span = jsontext.find(body, ["data"])
    except BadEvent as error:
        raise Problem(422, error.detail, field="data") from None
    if span is None:
        raise Problem(422, "is missing", field="data", remedy="send the data of the event, any JSON")
    return body[span[0] : span[1]]


def _draft(context: WebContext, tenant: str, event: NewEvent) -> Draft:
    events = context.settings.events
    if len(event.data) > events.max_event_bytes:
        detail = f"the event has {len(event.data)} bytes, at most {events.max_event_bytes} are accepted"
        raise Problem(413, detail, field="data", remedy="publish less, and link to the rest")
    draft = Draft(type=event.type, tenant=tenant, data=event.data, tenant_header=events.tenant_header)
    try:
        draft.check(events.max_event_bytes)
        if event.id is not None:
            check_id(event.id)
    except ConfigError as error:
        raise Problem.of_faults(422, list(map(_renamed, faults_of(error)))) from None
    return draft


def _renamed(fault: Fault) -> Fault:
    """Return a fault with the field of a request in place of the command line's."""
    if fault.field == "TYPE":
        return replace(fault, field="type")
    for name in ("tenant", "id"):
        if fault.detail.startswith(f"--{name}: "):
            return replace(fault, field=name, detail=fault.detail.removeprefix(f"--{name}: "))
    return fault if fault.field else replace(fault, field="data")


def _check_key(key: str) -> None:
    if not key.isprintable() or not 0 < len(key) <= KEY_MAX or not key.isascii():
        detail = f"is not 1 to {KEY_MAX} printable ASCII characters"
        raise Problem(422, detail, field="Idempotency-Key", remedy="send a UUID, for example")


def _digest(event: NewEvent) -> str:
    parts = (event.type.encode(), b"" if event.id is None else event.id.encode(), event.data)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


async def _sent(caller: Caller, draft: Draft, given_id: str, at: float) -> Published:
    """Publish an event, with a line in the audit log.

    Raises:
        Problem: 413: its headers are too long; 503.
        BrokerUnavailable: there is no broker.
        StoreUnavailable: the line cannot be written, and nothing was published.
    """
    event = draft.compose(given_id, 1, at)
    fields = {"type": normalise_type(draft.type), "size_bytes": len(event.body)}
    change = Change(action=PUBLISHED, target=event.id, tenant=draft.tenant, after=fields)
    async with audited(caller, change):
        await _confirmed(caller.context, event)
    return _published(draft, event, repeated=False)


async def _confirmed(context: WebContext, event: Composed) -> None:
    """Publish an event, and wait for the broker's confirm.

    Raises:
        Problem: 413: its headers are too long; 503.
        BrokerUnavailable: there is no broker.
    """
    names = context.settings.topology_spec().names
    publication = Publication(
        exchange=names.events,
        routing_key=event.routing_key,
        body=event.body,
        headers=event.headers,
        content_type=event.content_type,
        message_id=event.id,
        timestamp_s=event.timestamp_s,
    )
    schedule = Schedule(confirm_s=CONFIRM_S)
    connection = await context.broker.connection()
    try:
        await publish_paced(connection, names.events, lambda _: publication, schedule, lambda _: None)
    except Refused:
        detail, remedy = "the broker refused the event, as its queue is full", "repeat the request later"
        raise Problem(503, detail, remedy=remedy, headers={"Retry-After": str(RETRY_S)}) from None
    except FrameTooLarge as error:
        raise Problem(413, str(error), field="type", remedy="publish shorter texts") from None
    except BrokerUnavailable as error:
        context.log.warning("api.publish_failed", error=str(error))
        raise _unconfirmed() from None


def _unconfirmed() -> Problem:
    detail = "the broker did not confirm the event"
    remedy = "repeat the request with the same Idempotency-Key or id"
    return Problem(503, detail, remedy=remedy, headers={"Retry-After": str(RETRY_S)})


def _published(draft: Draft, event: Composed, *, repeated: bool) -> Published:
    return Published(
        id=event.id,
        webhook_id=event.webhook_id,
        tenant=draft.tenant,
        type=normalise_type(draft.type),
        at=event.timestamp_s,
        size_bytes=len(event.body),
        repeated=repeated,
    )
