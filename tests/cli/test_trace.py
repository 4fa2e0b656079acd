"""``leveret trace`` and ``leveret tail`` as an operator meets them, on a history in a folder."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow
from consumer.core.message.parked import delivery_id
from consumer.core.subscription.subscription import subscription_id
from consumer.core.text.ids import event_id
from consumer.edges.history.build import open_history
from consumer.settings import load_settings
from tests.support.command_line import SHOP, TILL, Run, error, rows, text

NOW = time.time()
SHOP_ID = subscription_id("acme", "shop")
DELIVERY = delivery_id("ord-1", SHOP_ID)
HOSTILE = b"\x1b[2Jbusy\r\n\x00\xff"

Record = Callable[..., None]


def row(step: str = "attempt", at: float = -10.0, **more: Any) -> HistoryRow:
    """A step of ord-1, at seconds from now."""
    fields: dict[str, Any] = {"event_id": "ord-1", "tenant": "acme", "type": "order.created"}
    if step not in ("received", "unmatched"):
        fields |= {"subscription_id": SHOP_ID, "delivery_id": DELIVERY}
    return HistoryRow(at=NOW + at, step=step, **fields | more)


STORY = (
    row("received", -20.0, number=1),
    row(at=-19.0, number=1, status=503, latency_ms=12.0, reason="retry", wait_ms=1e7, answer=HOSTILE),
)


@pytest.fixture
def record(run: Run, tmp_path: Path) -> Record:
    """Store two subscriptions, and rows of the history."""
    others = {**TILL, "name": "bills", "url": "https://bills.example/", "events": ["invoice.*"]}
    off = {**TILL, "name": "off", "url": "https://off.example/", "enabled": False}
    assert run("subscriptions", "apply", "-", stdin=text(SHOP, others, off)).exit_code == 0

    def write(*steps: HistoryRow) -> None:
        async def run_it() -> None:
            history = open_history(load_settings({"LEVERET_HOME": str(tmp_path / ".leveret")}))
            await history.write(1, HistoryBatch(steps))
            await history.close()

        asyncio.run(run_it())

    return write


def test_the_timeline_of_an_event(run: Run, record: Record) -> None:
    """One command shows whether the customer got it, the server's answer, and why others did not get it."""
    record(*STORY)
    shown = run("trace", "ord-1").stdout
    lines = [" ".join(line.split()[2:]) for line in shown.splitlines()]
    assert "event ord-1 order.created tenant acme (times in UTC)" in " ".join(shown.split())
    assert "received 1 subscription matched" in lines
    assert f"acme/shop {SHOP_ID} waiting until" in " ".join(shown.split())
    assert "attempt 1  503 in 12 ms, retry, waits 2 h 46 min 40 s" in shown
    assert r"answer  \x1b[2Jbusy \x00\xff" in shown
    assert "judged as they are configured now" in shown
    assert "acme/bills  pattern: invoice.* does not match order.created" in shown
    assert "acme/off  disabled" in shown
    assert shown.replace("\n", "").isprintable()


def test_the_json_of_an_event(run: Run, record: Record) -> None:
    """S2-7: programs get the status of each delivery, its steps, and the answers."""
    record(*STORY)
    shown: dict[str, Any] = json.loads(run("trace", "ord-1", "--json").stdout)
    [delivery] = shown["deliveries"]
    assert (delivery["delivery_id"], delivery["status"], delivery["attempts"]) == (DELIVERY, "waiting", 1)
    assert delivery["until"] > delivery["since"]
    assert delivery["steps"][0]["answer_base64"]
    assert {each["match_now"] for each in shown["without_delivery"]} == {"pattern", "disabled"}


def test_deliveries_are_chosen(run: Run, record: Record) -> None:
    """By tenant, subscription (name or id), delivery, failure and time; the newest ones."""
    record(
        *STORY,
        row(event_id="ord-2", at=-5.0, number=1, status=200, reason="delivered", delivery_id=""),
        row("unmatched", -4.0, event_id="ord-3", type="other"),
    )

    def found(*words: str) -> list[object]:
        return [each["event_id"] for each in rows(run("trace", *words, "--json"))]

    assert found("--tenant", "acme") == ["ord-1", "ord-2", "ord-3"]
    assert found("--subscription", "acme/shop") == found("--subscription", SHOP_ID) == ["ord-1", "ord-2"]
    assert found("--failed", "--since", "1h") == found("--delivery", DELIVERY) == ["ord-1"]
    assert found("--since", "1h", "--limit", "1") == ["ord-3"]
    assert found("ord-2", "--failed") == ["ord-2"]
    assert found("--tenant", "beta") == []
    table = run("trace", "--tenant", "acme").stdout
    assert "acme/shop" in table
    assert "unmatched" in table


def test_a_producers_id_is_found(run: Run, record: Record) -> None:
    """An id that is not valid as a webhook-id is sent as its hash; both find the event."""
    record(row("unmatched", event_id=event_id("order/17")))
    for given in ("order/17", event_id("order/17")):
        [shown] = rows(run("trace", given, "--json"))
        assert shown["event_id"] == event_id("order/17")


def test_unknown_keys_are_errors(run: Run, record: Record) -> None:
    """An unknown event, subscription, id or time ends with exit code 1; no choice at all is wrong usage."""
    record(*STORY)
    assert "nothing is known of ord-9" in error(run("trace", "ord-9"))
    for command in ("trace", "tail"):
        assert "no subscription 'acme/shoo'" in error(run(command, "--subscription", "acme/shoo"))
        assert "is not a subscription" in error(run(command, "--subscription", "shop"))
        assert "is neither a time nor a duration" in error(run(command, "--since", "soon"))
        assert "is not the id of a delivery" in error(run(command, "--delivery", "ord-1"))
    assert "found by its event id" in error(run("trace", "--delivery", "dlv_0123456789abcdef"))
    assert run("trace").exit_code == 2
    assert run("trace", "--failed", "--live").exit_code == 2


def test_a_history_that_is_off_is_named(run: Run, record: Record) -> None:
    """For an empty history the command explains why it is empty."""
    record()
    shown = run("trace", "--tenant", "acme", HISTORY__KEEP="off")
    assert "[history] keep is off" in shown.stderr
    assert "no delivery found" in shown.stdout


def test_tail_shows_steps(run: Run, record: Record) -> None:
    """From a time on: one line per step, filtered, or JSON; hostile text is escaped."""
    record(
        *STORY,
        row(event_id="ord-2", at=-5.0, number=1, status=200, reason="delivered", answer=b"thanks"),
        row("parked", -4.0, event_id="ord-4", reason="exhausted", number=5),
    )
    everything = run("tail", "--since", "1h", "--limit", "3").stdout
    assert len(everything.splitlines()) == 3
    assert r"acme/shop  attempt 1  503 in 12 ms" in everything
    assert everything.replace("\n", "").isprintable()
    assert "thanks" not in everything
    failed = rows(run("tail", "--since", "1h", "--limit", "2", "--failed", "--json"))
    assert [each["event_id"] for each in failed] == ["ord-1", "ord-4"]
    [one] = rows(run("tail", "--since", "1h", "--limit", "1", "--event", "ord-2", "--json"))
    assert one["answer"] == "thanks"
