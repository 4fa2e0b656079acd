"""``leveret breaker list`` on its own store; tests with the daemon cover the commands that need a broker."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from consumer.core.endpoint.health import Failing, Health
from consumer.core.message.records import EndpointState
from consumer.core.subscription.subscription import endpoint_id, subscription_id
from consumer.edges.store import open_store
from consumer.edges.store.rows.records import Batch
from consumer.settings import load_settings
from tests.support.command_line import Run, rows

NOW = 1_767_225_600.0


def state(name: str, state: str) -> EndpointState:
    """Write the record of a worker."""
    return EndpointState(
        endpoint=endpoint_id("acme", f"https://{name}.example/"),
        tenant="acme",
        subscription_id=subscription_id("acme", name),
        state=state,
        epoch=3,
        since=NOW,
        reason="by hand" if state == "forced" else "",
    )


def test_held_deliveries_are_listed(run: Run, tmp_path: Path) -> None:
    """S3-3: an operator sees each endpoint on hold, since when and why; healthy ones are left out."""
    names = ("busy", "down", "fine", "hand", "well")
    for name in names:
        url = f"https://{name}.example/"
        done = run("subscriptions", "add", url, "--tenant", "acme", "--name", name, "--event", "#")
        assert done.exit_code == 0, done.stderr
    assert run("breaker", "list").stdout == "every breaker is closed\n"
    until = time.time() + 3600
    states = [state("down", "open"), state("hand", "forced"), state("well", "closed")]
    busy, down, fine = (endpoint_id("acme", f"https://{name}.example/") for name in ("busy", "down", "fine"))
    batch = Batch(
        states={each.endpoint: each for each in states},
        holds={busy: until, fine: NOW},
        healths={down: Health(Failing(NOW - 60.0)), fine: Health(None, NOW)},
    )
    store = open_store(load_settings(environ={"LEVERET_HOME": str(tmp_path / ".leveret")}))
    asyncio.run(store.records.write(batch))

    found = {row["name"]: row for row in rows(run("breaker", "list", "--json"))}

    assert list(found) == ["busy", "down", "hand"]
    assert (found["busy"]["state"], found["busy"]["since"]) == ("closed", None)
    assert str(found["busy"]["held_until"]) > "2026-01-01"
    assert found["down"]["failing_since"] == "2025-12-31T23:59:00.000Z"
    assert (found["down"]["state"], found["down"]["since"]) == ("open", "2026-01-01T00:00:00.000Z")
    assert (found["hand"]["state"], found["hand"]["reason"]) == ("forced", "by hand")
    assert "forced" in run("breaker", "list").stdout
