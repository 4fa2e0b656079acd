"""Find, export, apply and remove subscriptions of every tenant that the caller may see, each as one change.

Data flow: files or names -> pure step of the core -> plan, or one transaction of the store -> Report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from consumer.core.changes.export import export_document
from consumer.core.changes.file import Parsed, parse_files
from consumer.core.changes.merge import Merge, StoredEntry, date_secrets, merge
from consumer.core.changes.owed import Owed
from consumer.core.changes.report import Report, report_of
from consumer.core.changes.steps import Address, find, full_name, remove, require_only
from consumer.core.changes.view import Seen, see
from consumer.core.errors import ConfigError
from consumer.edges.operate.removal import owed_by
from consumer.edges.process.fresh_secrets import fresh_secret
from consumer.web.access.guard import Caller
from consumer.web.services.subscriptions import refuse_foreign_secret, refuse_kept_elsewhere
from consumer.web.shared.etags import etag_of_all, require_match
from consumer.web.shared.problems import Problem, faults_of

_Step = Callable[[Sequence[StoredEntry]], Merge]


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How a change of several subscriptions is made."""

    dry_run: bool = False
    may_remove: frozenset[str] = frozenset()  #: ids that the caller agreed to remove, after a dry run
    if_match: str | None = None  #: entity tag of all subscriptions, from a dry run


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files to apply."""

    files: Sequence[tuple[str, str]]  #: name, for errors, and text of each
    prune: bool = False  #: remove the subscriptions that they do not name
    enable: bool = False  #: enable those that were disabled by hand or by the daemon


@dataclass(frozen=True, slots=True)
class Changed:
    """The changes, and the entity tag of all subscriptions that the caller sees before them."""

    report: Report
    etag: str


async def found(caller: Caller, name: str) -> Seen:
    """Return the subscription that *name* names: ``tenant/name``, an id, or a name that only one tenant uses.

    Raises:
        Problem: 404: none, or several have it; the text suggests similar names.
        StoreUnavailable: the store cannot be read.
    """
    context = caller.context
    entries = await context.store.entries(caller.tenant)
    try:
        entry = find(entries, Address(text=name))
    except ConfigError as error:
        raise Problem.of_faults(404, faults_of(error)) from None
    return see(entry, context.rules, [pause.key for pause in await context.store.pauses()])


async def exported(caller: Caller, tenant: str | None) -> Mapping[str, object]:
    """Return the subscriptions as the values of a subscriptions file, without secrets.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    entries = await caller.context.store.entries(caller.tenant or tenant)
    return export_document(sorted(entries, key=full_name), secrets=False)


async def apply(caller: Caller, files: Files, how: How) -> Changed:
    """Bring subscriptions files into the store, all or nothing.

    Raises:
        Problem: 403: a file names another tenant; 409: a conflict, or a removal that was not agreed to; 412;
            422: a line for each fault of the files.
        StoreUnavailable: the store cannot be written.
    """
    parsed = await asyncio.to_thread(parse_files, files.files, caller.context.rules)
    if not all(caller.sees(entry.tenant) for entry in parsed.entries):
        raise Problem(403, "the token is bound to another tenant", field="tenant", remedy="leave it out")

    def step(mine: Sequence[StoredEntry]) -> Merge:
        stored = {entry.id: entry for entry in mine}
        for entry in parsed.entries:
            if entry.id in stored:  # a file contains the headers themselves
                name = f"{full_name(entry)}: " if len(parsed.entries) > 1 else ""
                refuse_kept_elsewhere(stored[entry.id], entry, entry.headers, name)
        merged = merge(mine, parsed.entries, fresh_secret, prune=files.prune, enable=files.enable)
        return date_secrets(merged, caller.context.clock.now())

    changed = await _change(caller, _refusing_foreign_secrets(caller, parsed, step), how)
    report = replace(
        changed.report,
        warnings=[*parsed.warnings, *changed.report.warnings],
        named=len(parsed.entries),
    )
    return replace(changed, report=report)


async def remove_named(caller: Caller, names: Sequence[str], how: How) -> Changed:
    """Remove subscriptions with their secrets, all or nothing; their waiting deliveries are cancelled.

    Raises:
        Problem: 404: no subscription has one of *names*; 409: a removal was not agreed to; 412.
        StoreUnavailable: the store cannot be written.
    """

    def step(kept: Sequence[StoredEntry]) -> Merge:
        mine = [entry for entry in kept if caller.sees(entry.tenant)]
        try:
            ids = {find(mine, Address(text=name)).id for name in names}
        except ConfigError as error:
            raise Problem.of_faults(404, faults_of(error)) from None
        return remove(mine, ids)

    return await _change(caller, step, how)


async def _change(caller: Caller, step: _Step, how: How) -> Changed:
    """Plan or make a change of the entries that the caller sees."""
    context, tags = caller.context, [""]

    def checked(kept: Sequence[StoredEntry]) -> Merge:
        mine = [entry for entry in kept if caller.sees(entry.tenant)]
        tags[0] = etag_of_all(mine)
        require_match(how.if_match, tags[0])
        merged = _agreed(step(kept), how)
        others = [entry for entry in kept if not caller.sees(entry.tenant)]
        return replace(merged, entries=(*others, *merged.entries))

    if how.dry_run:
        meant = await context.store.change(checked, write=False)
        owed = await owed_by(context.settings, context.store, meant.removed) if meant.removed else Owed()
        return Changed(report_of(meant, owed, secrets=False), tags[0])
    merged = await context.store.change(checked, by=f"API, {caller.who}", who=caller.who)
    return Changed(report_of(merged), tags[0])


def _agreed(merged: Merge, how: How) -> Merge:
    """Return *merged* if the caller agreed to each of its removals.

    Raises:
        Problem: 409.
    """
    if how.dry_run:
        return merged
    try:
        return require_only(merged, [entry for entry in merged.removed if entry.id in how.may_remove])
    except ConfigError as error:
        raise Problem.of_faults(409, faults_of(error)) from None


def _refusing_foreign_secrets(caller: Caller, parsed: Parsed, step: _Step) -> _Step:
    """Return *step* for the entries that the caller sees, which refuses what conflicts with any other.

    Raises:
        Problem: 409, from the step.
    """

    def checked(kept: Sequence[StoredEntry]) -> Merge:
        for entry in parsed.entries if caller.tenant is not None else ():
            refuse_foreign_secret(kept, entry)
        try:
            return step([entry for entry in kept if caller.sees(entry.tenant)])
        except ConfigError as error:
            raise Problem.of_faults(409, faults_of(error)) from None

    return checked
