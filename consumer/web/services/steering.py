"""Steer one subscription: enable, disable, pause, resume, rotate its secret, reset, open, kick.

Data flow: :class:`Target` -> a step in the store, or a message to all workers and the stored state ->
waiting deliveries are sent. Each deed has a line in the audit log, which is written before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pydantic import SecretStr

from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.changes.steps import Note, drop_old, full_name, limit_overlap, rotate
from consumer.core.changes.steps import disable as disable_step
from consumer.core.changes.steps import enable as enable_step
from consumer.core.changes.view import Seen, see
from consumer.core.errors import ConfigError
from consumer.core.message.records import EndpointState, short
from consumer.core.message.waiting import Wanted
from consumer.core.store.audit import Change
from consumer.core.subscription.pauses import Pause, Scope
from consumer.core.subscription.subscription import endpoint_id
from consumer.core.text.rfc3339 import from_datetime
from consumer.core.webhook.signing import Ed25519Key, format_public
from consumer.edges.operate.control import send_to_workers
from consumer.edges.operate.release import Released, release
from consumer.edges.process.fresh_secrets import fresh_like
from consumer.web.access.audited import audited
from consumer.web.access.guard import Caller
from consumer.web.context import WebContext
from consumer.web.services.subscriptions import Target, refuse_foreign_secret, unchanged_in, without_name
from consumer.web.shared.problems import Problem, faults_of

OVERLAP_S: Final = 86_400.0  #: default time in which the replaced secret still signs
OVERLAP_MAX_S: Final = 366 * 86_400.0
_EntryStep = Callable[[Sequence[StoredEntry], StoredEntry], Merge]
KNOWN_S: Final = 1.0  #: time within which workers load the store after a ``reload`` message


@dataclass(frozen=True, slots=True)
class Rotated:
    """A subscription with a new secret."""

    seen: Seen
    secret: str | None  #: a generated ``whsec_`` secret, to be shown this once; else None
    public_key: str | None  #: with which receivers verify; None for a symmetric secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """The secret to add."""

    secret: str | None = None  #: None generates one of the same kind
    expire_in_s: float = OVERLAP_S  #: seconds in which the replaced secret still signs
    lost_key: bool = False  #: give up the secrets that cannot be decrypted


@dataclass(frozen=True, slots=True)
class Freed:
    """Waiting deliveries that are sent now."""

    heard: bool  #: whether a worker listens; otherwise the change holds from its next start on
    released: Released


async def enable(caller: Caller, target: Target) -> Seen:
    """Send again to a subscription, for whatever reason it was disabled.

    Raises:
        Problem: 404, 412.
        StoreUnavailable: the store cannot be written.
    """
    return await _change(caller, target, lambda kept, entry: enable_step(kept, entry.id))


async def disable(caller: Caller, target: Target, reason: str) -> Seen:
    """Send nothing to a subscription until it is enabled; its waiting deliveries are parked.

    Raises:
        Problem: 404, 412.
        StoreUnavailable: the store cannot be written.
    """
    now = datetime.fromtimestamp(caller.context.clock.now(), UTC).replace(microsecond=0)
    note = Note(short(reason), from_datetime(now) or "")
    return await _change(caller, target, lambda kept, entry: disable_step(kept, entry.id, note))


async def rotate_secret(caller: Caller, target: Target, fresh: Fresh | None = None) -> Rotated:
    """Add a new secret in front; the one that it replaces still signs for a while.

    Args:
        caller: Author of the change.
        target: The subscription.
        fresh: The new secret; None generates one of the same kind, with the default overlap.

    Raises:
        Problem: 404, 412; 409: ten secrets sign already, or it is in use; 422: secret or time is unusable.
        StoreUnavailable: the store cannot be written.
    """
    chosen = fresh or Fresh()
    secret, expire_in_s = chosen.secret, chosen.expire_in_s
    if not 0 <= expire_in_s <= OVERLAP_MAX_S:
        raise Problem(422, "is not from 0 s to 366 days", field="expire_in", remedy="give a shorter time")
    now = caller.context.clock.now()

    def step(kept: Sequence[StoredEntry], entry: StoredEntry) -> Merge:
        given = fresh_like(entry.signing_keys()) if secret is None else secret
        refuse_foreign_secret(kept, entry.model_copy(update={"secrets": (SecretStr(given),)}))
        rotated = rotate(kept, entry.id, given, lost_key=chosen.lost_key, now=now)
        return limit_overlap(rotated, int(now + expire_in_s))

    return _rotated(await _change(caller, target, step), is_shown=secret is None)


async def drop_old_secrets(caller: Caller, target: Target) -> Rotated:
    """End the overlap: only the newest secret of a subscription signs.

    Raises:
        Problem: 404, 412; 409: the secrets cannot be decrypted.
        StoreUnavailable: the store cannot be written.
    """
    seen = await _change(caller, target, lambda kept, entry: drop_old(kept, entry.id))
    return _rotated(seen, is_shown=False)


def _rotated(seen: Seen, *, is_shown: bool) -> Rotated:
    newest = seen.entry.signing_keys()[0]
    if isinstance(newest, Ed25519Key):
        return Rotated(seen, None, format_public(newest))
    return Rotated(seen, seen.entry.secrets[0].get_secret_value() if is_shown else None, None)


async def pause(caller: Caller, target: Target) -> bool:
    """Send nothing to a subscription until it is resumed; return False if it was paused already.

    Raises:
        Problem: 404, 412.
        StoreUnavailable: the store cannot be written.
    """
    return await caller.context.store.pause(await _pause_of(caller, target), lift=False, who=caller.who)


async def resume(caller: Caller, target: Target) -> Freed:
    """Lift the pause of a subscription, and send its waiting deliveries.

    Raises:
        Problem: 404, 412; 409: it has no pause of its own.
        BrokerUnavailable: the pause is lifted; the deliveries are sent at their own times.
        StoreUnavailable: the store cannot be written.
    """
    lifted = await _pause_of(caller, target)
    if not await caller.context.store.pause(lifted, lift=True, who=caller.who):
        remedy = "a pause of its tenant or of everything is lifted separately"
        raise Problem(409, "the subscription has no pause of its own", field="subscription", remedy=remedy)
    heard = await _send(caller.context, {"kind": "reload"})
    if heard:
        await asyncio.sleep(KNOWN_S)
    return Freed(heard, await _release(caller.context, Wanted(subscription=lifted.name)))


async def reset(caller: Caller, target: Target) -> Freed:
    """Close the breaker in every worker, end a rest, and send the waiting deliveries.

    Raises:
        Problem: 404, 412.
        BrokerUnavailable: nothing was changed.
        StoreUnavailable: nothing was changed; or all workers were notified, and a restart forgets it.
    """
    entry = await _entry(caller.context, target)
    async with audited(caller, _deed("endpoint.reset", entry)) as outcome:
        heard = await _set_state(caller.context, entry, "reset", "closed")
        outcome["heard"] = heard
        released = await _release(caller.context, Wanted(subscription=entry.id))
        outcome["released"] = released.count
    return Freed(heard, released)


async def force_open(caller: Caller, target: Target) -> bool:
    """Open the breaker in every worker until a reset; return whether a worker listens.

    Raises:
        Problem: 404, 412.
        BrokerUnavailable: nothing was changed.
        StoreUnavailable: nothing was changed; or all workers were notified, and a restart forgets it.
    """
    entry = await _entry(caller.context, target)
    async with audited(caller, _deed("endpoint.opened", entry)) as outcome:
        heard = await _set_state(caller.context, entry, "open", "forced")
        outcome["heard"] = heard
    return heard


async def kick(caller: Caller, target: Target) -> Released:
    """Send the waiting deliveries of a subscription now, whatever time they wait for.

    Raises:
        Problem: 404, 412.
        BrokerUnavailable: the broker is away.
        StoreUnavailable: the audit log cannot be written, and nothing was sent.
    """
    entry = await _entry(caller.context, target)
    async with audited(caller, _deed("waiting.kicked", entry)) as outcome:
        released = await _release(caller.context, Wanted(subscription=entry.id))
        outcome["released"] = released.count
    return released


async def _change(caller: Caller, target: Target, step: _EntryStep) -> Seen:
    """Change one subscription, if it is still as the client read it."""

    def checked(kept: Sequence[StoredEntry]) -> Merge:
        entry = unchanged_in(kept, target)
        try:
            return step(kept, entry)
        except ConfigError as error:
            status = 409 if full_name(entry) in str(error) else 422
            raise Problem.of_faults(status, without_name(faults_of(error), entry)) from None

    merged = await caller.context.store.change(checked, who=caller.who)
    entry = (*merged.changed, *merged.unchanged)[0]
    pauses = [pause.key for pause in await caller.context.store.pauses()]
    return see(entry, caller.context.rules, pauses)


async def _entry(context: WebContext, target: Target) -> StoredEntry:
    """Return the subscription, if it is still as the client read it.

    Raises:
        Problem: 404, 412.
        StoreUnavailable: the store cannot be read.
    """
    return unchanged_in(await context.store.entries(target.tenant), target)


async def _pause_of(caller: Caller, target: Target) -> Pause:
    entry = await _entry(caller.context, target)
    return Pause(scope=Scope.SUBSCRIPTION, name=entry.id, since=caller.context.clock.now())


def _deed(action: str, entry: StoredEntry) -> Change:
    return Change(action=action, target=full_name(entry), tenant=entry.tenant)


async def _set_state(context: WebContext, entry: StoredEntry, kind: str, state: str) -> bool:
    """Send a change to all workers and store it for later ones; return whether a worker listens."""
    heard = await _send(context, {"kind": kind, "subscription": entry.id})
    decided = EndpointState(
        endpoint=endpoint_id(entry.tenant, entry.url),
        tenant=entry.tenant,
        subscription_id=entry.id,
        state=state,
        epoch=0,
        since=context.clock.now(),
        reason="by hand",
    )
    await context.store.records.decide(decided)
    return heard


async def _send(context: WebContext, message: dict[str, str | None]) -> bool:
    options = (await context.broker.find()).options
    return await send_to_workers(options, context.settings.topology_spec().names, message)


async def _release(context: WebContext, wanted: Wanted) -> Released:
    return await release(await context.broker.connection(), context.settings.topology_spec(), wanted)
