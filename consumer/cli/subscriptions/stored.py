"""The subscriptions in the store: each change is a pure step of the core in one transaction."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version

from consumer.cli.subscriptions.shared import build, change, read_entries, read_with_pauses
from consumer.cli.values.subscriptions import Exported, Files, How, Rotated, Rotation, Tried
from consumer.core.changes.export import export_document
from consumer.core.changes.file import Parsed, parse_entry, parse_files
from consumer.core.changes.merge import Merge, StoredEntry, date_secrets, merge
from consumer.core.changes.owed import Owed
from consumer.core.changes.report import Report, report_of
from consumer.core.changes.steps import (
    Address,
    Note,
    add,
    disable,
    drop_old,
    enable,
    find,
    full_name,
    limit_overlap,
    locked_text,
    remove,
    require_only,
    rotate,
)
from consumer.core.changes.view import details_of, identity, row_of, see
from consumer.core.errors import ConfigError
from consumer.core.message.records import short
from consumer.core.model import Outcome
from consumer.core.subscription.pauses import paused
from consumer.core.subscription.trial import Trial, advice, make_trial
from consumer.core.text.durations import parse_duration
from consumer.core.text.rfc3339 import from_datetime
from consumer.core.webhook.signing import Ed25519Key, format_public
from consumer.edges.operate.removal import owed_by
from consumer.edges.operate.sender import make_sender
from consumer.edges.process.fresh_secrets import fresh_like, fresh_secret
from consumer.edges.store import Step, opened_store
from consumer.settings import Settings


class StoredSubscriptions:
    """The subscriptions of the store that the settings name."""

    def __init__(self, settings: Settings) -> None:
        """Bind to the settings; the store is opened for each call."""
        self._settings = settings
        self._parsed: tuple[Files, Parsed] | None = None  # a plan and its change parse the files once

    def listed(self, tenant: str | None) -> Sequence[Mapping[str, object]]:
        """Return a row for each subscription, by tenant and name; None: of every tenant."""
        entries, pauses = read_with_pauses(self._settings)
        rules = self._settings.subscription_rules()
        return [row_of(see(each, rules, pauses)) for each in entries if tenant in (None, each.tenant)]

    def details(self, wanted: Address) -> Mapping[str, object]:
        """Return every effective setting of one subscription."""
        entries, pauses = read_with_pauses(self._settings)
        seen = see(find(entries, wanted), self._settings.subscription_rules(), pauses)
        return details_of(seen, time.time())

    def exported(self, tenant: str | None, *, secrets: bool) -> Exported:
        """Return a subscriptions file."""
        entries = [each for each in read_entries(self._settings) if tenant in (None, each.tenant)]
        locked = [each for each in entries if each.locked is not None] if secrets else []
        return Exported(
            document=export_document(entries, secrets=secrets, now=time.time()),
            faults=[f"{full_name(one)}: its secrets are left out: {locked_text(one)}" for one in locked],
        )

    def add(self, values: Mapping[str, object]) -> Report:
        """Add one subscription, with the fields of a subscriptions file."""
        fields: dict[Hashable, object] = dict(values.items())
        entry = parse_entry(fields, self._settings.subscription_rules())
        return report_of(change(self._settings, lambda kept: add(kept, entry, fresh_secret)))

    def remove(self, wanted: Sequence[Address], how: How) -> Report:
        """Remove subscriptions, all or nothing, or plan it."""
        return self._change(lambda kept: remove(kept, {find(kept, one).id for one in wanted}), how)

    def apply(self, files: Files, how: How) -> Report:
        """Bring files into the store, all or nothing, or plan it."""
        if self._parsed is None or self._parsed[0] is not files:
            self._parsed = files, parse_files(files.files, self._settings.subscription_rules())
        parsed = self._parsed[1]

        def step(kept: Sequence[StoredEntry]) -> Merge:
            merged = merge(kept, parsed.entries, fresh_secret, prune=files.prune, enable=files.enable)
            return date_secrets(merged, time.time())

        report = self._change(step, how)
        warnings = [*parsed.warnings, *report.warnings]
        return replace(report, warnings=warnings, named=len(parsed.entries))

    def enable(self, wanted: Address) -> Report:
        """Send again to a subscription."""
        return report_of(change(self._settings, lambda kept: enable(kept, find(kept, wanted).id)))

    def disable(self, wanted: Address, reason: str) -> Report:
        """Send nothing to a subscription until it is enabled again."""
        note = Note(short(reason), from_datetime(datetime.now(UTC).replace(microsecond=0)) or "")
        return report_of(change(self._settings, lambda kept: disable(kept, find(kept, wanted).id, note)))

    def rotate(self, wanted: Address, rotation: Rotation) -> Rotated:
        """Change the signing secrets of a subscription."""
        overlap_s = parse_duration(rotation.overlap)

        def step(kept: Sequence[StoredEntry]) -> Merge:
            entry = find(kept, wanted)
            if rotation.drop_old:
                return drop_old(kept, entry.id)
            secret, now = rotation.secret, time.time()
            fresh = fresh_like(entry.signing_keys()) if secret is None else secret
            rotated = rotate(kept, entry.id, fresh, lost_key=rotation.lost_key, now=now)
            return limit_overlap(rotated, int(now + overlap_s))

        merged = change(self._settings, step)
        entry = (*merged.changed, *merged.unchanged)[0]
        return _rotated(entry, is_shown=rotation.secret is None and bool(merged.generated))

    def test(self, wanted: Address) -> Tried:
        """Send one test event, with the daemon's own sender."""
        entries, pauses = read_with_pauses(self._settings)
        entry = find(entries, wanted)
        if entry.locked is not None:
            raise ConfigError(f"{full_name(entry)}: {locked_text(entry)}")
        built = build(entry, self._settings.subscription_rules())
        trial = make_trial(built, f"leveret/{version('leveret')}", time.time(), os.urandom(10))
        outcome = asyncio.run(_send(self._settings, trial))
        return Tried(
            identity=identity(entry),
            enabled=entry.enabled,
            paused=paused(pauses, entry.tenant, entry.id),
            result=_result(trial, outcome),
            advice=advice(outcome, built.on_status),
        )

    def _change(self, step: Step, how: How) -> Report:
        """Plan a change, with the deliveries that its removals would destroy, or make it."""
        if how.dry_run:
            meant = change(self._settings, step, write=False)
            return report_of(meant, _owed_by(self._settings, meant.removed), secrets=False)

        def checked(kept: Sequence[StoredEntry]) -> Merge:
            merged = step(kept)
            return require_only(merged, [one for one in merged.removed if one.id in how.may_remove])

        return report_of(change(self._settings, checked, by=how.by or None))


def _owed_by(settings: Settings, removed: Sequence[StoredEntry]) -> Owed:
    """Count the deliveries that would be lost with *removed*; without the broker they stay uncounted."""

    async def count() -> Owed:
        async with opened_store(settings) as store:
            return await owed_by(settings, store, removed)

    return asyncio.run(count()) if removed else Owed()


def _rotated(entry: StoredEntry, *, is_shown: bool) -> Rotated:
    keys = entry.signing_keys()
    public = format_public(keys[0]) if keys and isinstance(keys[0], Ed25519Key) else None
    return Rotated(
        identity=identity(entry),
        secrets=len(entry.secrets),
        ends_at=list(entry.ends_at),
        secret=entry.secrets[0].get_secret_value() if is_shown and public is None else None,
        public_key=public,
    )


async def _send(settings: Settings, trial: Trial) -> Outcome:
    sender = make_sender(settings)
    try:
        return await sender.send(trial.request)
    finally:
        await sender.close()


def _result(trial: Trial, outcome: Outcome) -> Mapping[str, object]:
    return {
        "ok": outcome.status is not None and 200 <= outcome.status < 300,
        "kind": outcome.kind.value,
        "status": outcome.status,
        "duration_s": round(outcome.duration_s, 6),
        "detail": outcome.detail,
        "event_id": trial.event_id,
        "timestamp": trial.timestamp,
        "signature": trial.signature,
        "body": trial.body.decode(),
        "response": outcome.body.decode("utf-8", "replace"),
    }
