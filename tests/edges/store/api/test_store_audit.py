"""The audit log has a line for each change, in the same transaction, without secrets."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.core.changes.merge import Merge, merge
from consumer.core.changes.steps import remove
from consumer.core.errors import ConfigError
from consumer.core.store.audit import AuditFilter, AuditLine
from consumer.core.store.audit import Change as One
from consumer.core.subscription.pauses import Pause, Scope
from consumer.edges.store import SqlStore
from tests.support.stores import SHOP, Place, random_secret, shop, wanted


async def change(store: SqlStore, *entries: dict[str, object]) -> Merge:
    """Bring *entries* into the store as somebody."""
    of_file = wanted(*entries)
    return await store.change(lambda kept: merge(kept, of_file, random_secret), who="cli:me")


async def lines(store: SqlStore, **filters: Any) -> list[AuditLine]:
    """Return the lines, newest first."""
    return list(await store.records.audit.lines(AuditFilter(**filters), 100))


async def test_each_change_has_a_line_with_both_values(place: Place) -> None:
    """Added, changed, removed, paused; an unchanged entry has none."""
    store = place.open()
    await change(store, shop(headers={"X-Key": "hidden-1"}))
    await change(store, shop(headers={"X-Key": "hidden-2"}, timeout_s=9))
    await change(store, shop(headers={"X-Key": "hidden-2"}, timeout_s=9))
    await store.pause(Pause(scope=Scope.TENANT, name="acme", since=1.0), lift=False, who="cli:me")
    await store.change(lambda kept: remove(kept, {SHOP}), who="token:1")

    found = await lines(store)

    assert [line.change.action for line in found] == [
        "subscription.removed",
        "pause.set",
        "subscription.changed",
        "subscription.added",
    ]
    assert found[2].change.before == {"headers.X-Key": "***"}
    assert found[2].change.after == {"headers.X-Key": "***", "timeout_s": 9.0}
    assert "hidden" not in repr(found)
    assert "whsec" not in repr(found)
    assert [line.who for line in found] == ["token:1", "cli:me", "cli:me", "cli:me"]


async def test_a_failed_change_leaves_no_line(place: Place) -> None:
    """Nothing was changed, so nothing is recorded."""
    store = place.open()

    def fails(_kept: object) -> Merge:
        raise ConfigError("no")

    with pytest.raises(ConfigError):
        await store.change(fails, who="cli:me")

    assert await lines(store) == []


async def test_filters_choose_lines(place: Place) -> None:
    """By tenant, author, action or its object, target, time, and the line before which to go on."""
    store = place.open()
    audit = store.records.audit
    await audit.add("cli:me", One(action="job.paused", target="job_1"), One(action="jobs.x", target="job_2"))
    await audit.add("token:1", One(action="endpoint.reset", target="acme/shop", tenant="acme"))

    assert [line.change.target for line in await lines(store, tenant="acme")] == ["acme/shop"]
    assert [line.change.target for line in await lines(store, who="cli:me")] == ["job_2", "job_1"]
    assert [line.change.target for line in await lines(store, action="job")] == ["job_1"]
    assert [line.change.target for line in await lines(store, action="job.paused")] == ["job_1"]
    assert len(await lines(store, target="acme/shop")) == 1
    newest, *older = await lines(store)
    assert await lines(store, before_id=newest.id) == older
    assert list(await audit.lines(AuditFilter(since=newest.at + 60), 100)) == []
