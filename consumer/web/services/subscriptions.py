"""Create, read, change and remove subscriptions: the steps of the core in one transaction of the store each.

Data flow: values of a request -> parse_entry -> add, merge or remove -> :meth:`SqlStore.change`, with the
author for the audit log -> the stored entry as :class:`Seen`, and a generated secret, once.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from consumer.core.changes.export import export_document
from consumer.core.changes.file import parse_entry
from consumer.core.changes.merge import Merge, StoredEntry, date_secrets, merge
from consumer.core.changes.moved import kept_elsewhere
from consumer.core.changes.owed import Owed, removal_lines
from consumer.core.changes.steps import add, remove, require_only
from consumer.core.changes.view import Seen, see
from consumer.core.errors import ConfigError
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.edges.operate.removal import owed_by
from consumer.edges.process.fresh_secrets import fresh_secret
from consumer.edges.store import Step
from consumer.web.access.guard import Caller
from consumer.web.context import WebContext
from consumer.web.shared.etags import etag_of, require_match
from consumer.web.shared.problems import Fault, Problem, faults_of

_FIXED = ("tenant", "name")
"""Fields that make the id of a subscription, so that nobody can change them."""


@dataclass(frozen=True, slots=True)
class Target:
    """The subscription that a request names."""

    tenant: str
    which: str  #: its id or its name
    if_match: str | None = None  #: precondition of a change


@dataclass(frozen=True, slots=True)
class Created:
    """A new subscription."""

    seen: Seen
    secret: str | None  #: its generated secret, to be shown this once; None if the client gave one


async def listed(context: WebContext, tenant: str | None) -> Sequence[Seen]:
    """Return the subscriptions of a tenant by name; None: of every tenant.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    entries, pauses = await context.store.entries_and_pauses(tenant)
    held = [pause.key for pause in pauses]
    found = [see(entry, context.rules, held) for entry in entries]
    return sorted(found, key=lambda seen: seen.entry.label)


async def read(context: WebContext, target: Target) -> Seen:
    """Return one subscription.

    Raises:
        Problem: 404: the tenant has no such subscription.
        StoreUnavailable: the store cannot be read.
    """
    entries, pauses = await context.store.entries_and_pauses(target.tenant)
    return see(find_in(entries, target), context.rules, [pause.key for pause in pauses])


def find_in(stored: Sequence[StoredEntry], target: Target) -> StoredEntry:
    """Return the entry that *target* names.

    Raises:
        Problem: 404: there is none.
    """
    mine = [entry for entry in stored if entry.tenant == target.tenant]
    for entry in mine:
        if entry.id == target.which:
            return entry
    for entry in mine:
        if entry.label == target.which:
            return entry
    raise Problem(404, "the tenant has no such subscription", field="subscription", remedy="list them")


def unchanged_in(stored: Sequence[StoredEntry], target: Target) -> StoredEntry:
    """Return the entry that *target* names, if it is still as the client read it.

    Raises:
        Problem: 404: there is none; 412: it was changed.
    """
    entry = find_in(stored, target)
    require_match(target.if_match, etag_of(entry))
    return entry


async def create(caller: Caller, tenant: str, values: Mapping[str, object]) -> Created:
    """Add a subscription; one without secrets gets a generated one.

    Args:
        caller: Author of the change.
        tenant: Its owner.
        values: Its fields, as in a subscriptions file.

    Raises:
        Problem: 409: the tenant has that name or URL already, or the secret is in use; 422: a fault.
        StoreUnavailable: the store cannot be written.
    """
    entry = _parsed(caller.context, tenant, values)

    def step(kept: Sequence[StoredEntry]) -> Merge:
        refuse_foreign_secret(kept, entry)
        try:
            return add(kept, entry, fresh_secret)
        except ConfigError as error:
            raise Problem.of_faults(409, without_name(faults_of(error), entry)) from None

    merged = await caller.context.store.change(step, who=caller.who)
    added = merged.added[0]
    secret = added.secrets[0].get_secret_value() if merged.generated else None
    return Created(await _seen(caller.context, added), secret)


async def patch(caller: Caller, target: Target, changes: Mapping[str, object]) -> Seen:
    """Change some fields of a subscription, and return it as it is then.

    Args:
        caller: Author of the change.
        target: The subscription.
        changes: A merge patch on its fields as in a subscriptions file; null removes a field, and ``***``
            keeps a stored password, token or key. ``enabled: true`` also enables one that was disabled by
            hand or by the daemon. Source: RFC 7396.

    Raises:
        Problem: 404, 412; 409: it conflicts with another subscription; 422: a fault, or a URL of another
            origin without the headers and credentials that are sent to it.
        StoreUnavailable: the store cannot be written.
    """
    fixed = [name for name in _FIXED if name in changes]
    if fixed:
        remedy = "create another subscription, and remove this one"
        raise Problem(422, f"{fixed[0]} cannot be changed", field=fixed[0], remedy=remedy)

    def step(kept: Sequence[StoredEntry]) -> Merge:
        old = unchanged_in(kept, target)
        document = export_document([old], secrets=False)["subscriptions"]
        assert isinstance(document, list)  # noqa: S101 - one row for one entry
        entry = _parsed(caller.context, target.tenant, merge_patch(document[0], changes))
        refuse_foreign_secret(kept, entry)
        refuse_kept_elsewhere(old, entry, _headers_in(changes))
        try:
            enable = changes.get("enabled") is True
            return date_secrets(merge(kept, [entry], fresh_secret, enable=enable), caller.context.clock.now())
        except ConfigError as error:
            raise Problem.of_faults(409, without_name(faults_of(error), entry)) from None

    merged = await caller.context.store.change(step, who=caller.who)
    return await _seen(caller.context, (*merged.changed, *merged.unchanged)[0])


async def delete(caller: Caller, target: Target, *, confirm: bool) -> None:
    """Remove a subscription with its secrets; its waiting deliveries are cancelled.

    Args:
        caller: Author of the change.
        target: The subscription.
        confirm: Remove it even if deliveries wait or are parked, or cannot be counted.

    Raises:
        Problem: 404, 412; 409: deliveries would be lost, and *confirm* is missing.
        StoreUnavailable: the store cannot be written.
    """
    context = caller.context
    meant = find_in(await context.store.entries(target.tenant), target)
    if not confirm:
        _demand_confirm(await owed_by(context.settings, context.store, [meant]), meant)

    def step(kept: Sequence[StoredEntry]) -> Merge:
        return require_only(remove(kept, {unchanged_in(kept, target).id}), [meant])

    await context.store.change(step, by=f"API, {caller.who}", who=caller.who)


def merge_patch(document: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Return *document* with a merge patch applied. Source: RFC 7396."""
    result = dict(document)
    for name, value in changes.items():
        inner = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            result[name] = merge_patch(inner if isinstance(inner, Mapping) else {}, value)
        else:
            result[name] = value
    return result


async def _seen(context: WebContext, entry: StoredEntry) -> Seen:
    return see(entry, context.rules, [pause.key for pause in await context.store.pauses()])


def _parsed(context: WebContext, tenant: str, values: Mapping[str, object]) -> SubscriptionEntry:
    """Check the fields of a subscription.

    Raises:
        Problem: 422.
    """
    if values.get("tenant", tenant) != tenant:
        raise Problem(422, "the path names another tenant", field="tenant", remedy="leave it out")
    fields: dict[Hashable, object] = {name: each for name, each in values.items() if each is not None}
    try:
        return parse_entry({**fields, "tenant": tenant}, context.rules)
    except ConfigError as error:
        raise Problem.of_faults(422, faults_of(error)) from None


def refuse_foreign_secret(kept: Sequence[StoredEntry], entry: SubscriptionEntry) -> None:
    """Refuse a secret of another tenant, without the name of that tenant.

    Raises:
        Problem: 409.
    """
    keys = set(entry.signing_keys())
    if keys and any(keys & set(other.signing_keys()) for other in kept if other.tenant != entry.tenant):
        raise Problem(409, "another endpoint has the same secret", field="secrets", remedy="give it its own")


def refuse_kept_elsewhere(
    old: StoredEntry, entry: SubscriptionEntry, sent: Collection[str], prefix: str = ""
) -> None:
    """Refuse a URL of another origin for headers and credentials that the client has not sent again.

    Args:
        old: The stored subscription.
        entry: Its next state, with a mask in place of each credential that is kept.
        sent: Names of the headers that the client sent.
        prefix: Put before each field.

    Raises:
        Problem: 422.
    """
    detail = "the stored value belongs to another scheme, host or port than the new URL"
    remedy = "send the value again together with the URL, or null to remove it"
    places = kept_elsewhere(old, entry, sent)
    if places:
        raise Problem.of_faults(422, [Fault(detail, f"{prefix}{place}", remedy) for place in places])


def _headers_in(changes: Mapping[str, object]) -> Collection[str]:
    headers = changes.get("headers")
    return headers.keys() if isinstance(headers, Mapping) else ()


def without_name(faults: Sequence[Fault], entry: SubscriptionEntry) -> Sequence[Fault]:
    """Return *faults* without the name of the subscription before the field: the request names it."""
    prefix = f"{entry.tenant}/{entry.label}: "
    return [
        faults_of(ConfigError("; ".join(filter(None, (one.detail.removeprefix(prefix), one.remedy)))))[0]
        for one in faults
    ]


def _demand_confirm(owed: Owed, meant: StoredEntry) -> None:
    if owed:
        lines = removal_lines(owed, [meant])
        remedy = "repeat the request with ?confirm=true"
        raise Problem.of_faults(409, [Fault(line, "confirm", remedy) for line in lines])


__all__ = [
    "Created",
    "Step",
    "Target",
    "create",
    "delete",
    "find_in",
    "listed",
    "merge_patch",
    "patch",
    "read",
    "refuse_foreign_secret",
    "refuse_kept_elsewhere",
    "unchanged_in",
    "without_name",
]
