"""Publish one event, and answer only after the broker has confirmed it.

Data flow: values of a request -> Draft, checked -> idempotency key claimed -> broker, confirmed -> key
confirmed. A request that is repeated with its key gets the same answer, and no second event.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from typing import Final

from consumer.core.errors import (
    BadEvent,
    BrokerUnavailable,
    ConfigError,
    FrameTooLarge,
    Refused,
    StoreUnavailable,
)
from consumer.core.event import jsontext
from consumer.core.event.amqp_values import normalise_type
from consumer.core.event.compose import Composed, Draft, check_id
from consumer.core.text.ids import uuid7
from consumer.edges.operate.paced import Schedule, publish_paced
from consumer.edges.store.rows.publish_keys import PublishKey
from consumer.ports import Publication
from consumer.web.access.guard import Caller
from consumer.web.context import WebContext
from consumer.web.shared.problems import RETRY_S, Fault, Problem, faults_of

CONFIRM_S: Final = 10.0  #: longest wait for the broker's confirm
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
        StoreUnavailable: the key cannot be stored; nothing was published.
    """
    context = caller.context
    draft = _draft(context, tenant, event)
    if key is None:
        now = context.clock.now()
        chosen = uuid7(int(now * 1000), os.urandom(10)) if event.id is None else event.id
        return await _sent(context, draft, chosen, now)
    _check_key(key)
    async with context.publishing.of((tenant, key)):
        return await _sent_once(context, draft, event, key)


async def _sent_once(context: WebContext, draft: Draft, event: NewEvent, key: str) -> Published:
    """Publish an event unless an earlier request with its key has done so.

    Raises:
        Problem, StoreUnavailable: as :func:`publish`.
    """
    chosen = key if event.id is None else event.id
    wanted = PublishKey(tenant=draft.tenant, key=key, digest=_digest(event), event_id=chosen)
    used = await context.store.records.publish_keys.claim(wanted)
    if used.digest != wanted.digest:
        detail = "this key belongs to a request with another body"
        raise Problem(422, detail, field="Idempotency-Key", remedy="use a new key for a new event")
    if used.confirmed:
        return _published(draft, draft.compose(used.event_id, 1, used.at), repeated=True)
    done = await _sent(context, draft, used.event_id, used.at)
    try:
        await context.store.records.publish_keys.confirm(used)
    except StoreUnavailable as error:  # the broker has the event; a repetition has the same id
        context.log.warning("api.key_unconfirmed", error=str(error))
    return done


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


async def _sent(context: WebContext, draft: Draft, given_id: str, at: float) -> Published:
    event, names = draft.compose(given_id, 1, at), context.settings.topology_spec().names
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
        detail = "the broker did not confirm the event"
        remedy = "repeat the request with the same Idempotency-Key or id"
        raise Problem(503, detail, remedy=remedy, headers={"Retry-After": str(RETRY_S)}) from None
    return _published(draft, event, repeated=False)


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
