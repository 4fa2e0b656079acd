"""A removal first counts and names the deliveries that it would lose; nothing is lost without consent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aio_pika
import pytest
import yaml
from aio_pika.abc import AbstractConnection

from consumer.core.changes.merge import Merge
from consumer.core.changes.steps import remove, require_only
from consumer.core.errors import ConfigError
from consumer.core.message.delivery import DeliveryMessage, headers_of
from consumer.core.message.parked import ParkNote, delivery_entry_headers
from consumer.core.message.records import EndpointState
from consumer.core.model import Event, ParkReason
from consumer.core.store.lineage import Generation
from consumer.core.subscription.subscription import endpoint_id, subscription_id
from consumer.edges.broker.connection.connect import AmqpOptions, open_channel
from consumer.edges.broker.store_record import recording
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.edges.store import opened_store
from consumer.edges.store.rows.records import Batch
from consumer.ports import Publication
from consumer.settings import load_settings
from tests.support.builders import subscriptions
from tests.support.command_line import Run, rows
from tests.support.processes import leveret
from tests.support.processes.children import python_env
from tests.support.processes.terminal import on_terminal
from topology.declare import declare
from topology.plan import TopologySpec, build_plan

SPEC = TopologySpec(lanes=1, due_queues=1, spill_queues=0, rungs_s=(2.0, 600.0))
SETTINGS = {
    "TOPOLOGY__LANES": "1",
    "TOPOLOGY__DUE_QUEUES": "1",
    "TOPOLOGY__SPILL_QUEUES": "0",
    "TOPOLOGY__RUNGS_S": "[2,600]",
}
SHOP = {"tenant": "acme", "name": "shop", "url": "https://shop.example/", "events": ["#"]}
TILL = {"tenant": "acme", "name": "till", "url": "https://till.example/", "events": ["#"]}
SHOP_ID, TILL_ID = subscription_id("acme", "shop"), subscription_id("acme", "till")
DEAD = "amqp://leveret:hush@127.0.0.1:1/"


def text(*entries: Mapping[str, object]) -> str:
    """Return a subscriptions file."""
    return yaml.safe_dump({"subscriptions": [dict(entry) for entry in entries]})


def delivery(event_id: str, *targets: str) -> DeliveryMessage:
    """Return a delivery message of an event, an hour before its next attempt."""
    now = time.time()
    event = Event(
        id=event_id, tenant="acme", type="t", timestamp="2026-01-01T00:00:00Z", arrived_at=now, body=b"{}"
    )
    return DeliveryMessage(event=event, targets=targets, not_before=now + 600, wait_s=600, attempts_made=1)


async def put(connection: AbstractConnection, exchange: str, key: str, headers: Mapping[str, Any]) -> None:
    """Publish one of our messages, confirmed."""
    channel = await open_channel(connection, confirms=True)
    publication = Publication(exchange=exchange, routing_key=key, body=b"{}", headers=headers)
    await Confirms(channel).publish(publication, "m")
    await channel.close()


async def fill(url: str, *, waiting: Sequence[str] = (), parked: Sequence[str] = (), due: int = 0) -> None:
    """Declare our queues, and put a delivery for each subscription id into them."""
    names = SPEC.names
    async with await aio_pika.connect(url) as connection:
        await declare(build_plan(SPEC), connection)
        for number, target in enumerate(waiting):
            message = delivery(f"w{number}", target)
            await put(connection, names.wait, names.wait_key(600.0, names.due_queue(0)), headers_of(message))
        for number, target in enumerate(parked):
            note = ParkNote(reason=ParkReason.EXHAUSTED, detail="HTTP 503", at=time.time(), ttl_s=600)
            headers = delivery_entry_headers(delivery(f"p{number}", target), note)
            await put(connection, names.dlx, names.parked_key("exhausted"), headers)
        for number in range(due):
            key = names.direct_key(names.due_queue(0))
            await put(connection, names.due, key, headers_of(delivery(f"d{number}", SHOP_ID)))


async def remember(url: str, generation: Generation) -> None:
    """Record *generation* on the broker."""
    async with recording(AmqpOptions(urls=(url,)), SPEC.names, ()) as record:
        assert await record.settle(lambda _recorded, _messages: generation) == generation


async def serve(home: Path, entry: Mapping[str, Any]) -> None:
    """Write the record of a served endpoint into the store of *home*, as a daemon does."""
    endpoint = endpoint_id(entry["tenant"], entry["url"])
    state = EndpointState(
        endpoint=endpoint,
        tenant=entry["tenant"],
        subscription_id=subscription_id(entry["tenant"], entry["name"]),
        state="open",
        epoch=1,
        since=time.time(),
    )
    async with opened_store(load_settings({"LEVERET_HOME": str(home)})) as store:
        await store.records.write(Batch(states={endpoint: state}, parked={}, gone=()))


@pytest.fixture
def two(run: Run, vhost: str) -> Run:
    """The command line, with two subscriptions in its store and a broker."""

    def invoke(*words: str, stdin: str | bytes | None = None, **settings: str) -> Any:
        return run(*words, stdin=stdin, **{"AMQP_URL": vhost, **SETTINGS, **settings})

    assert invoke("subscriptions", "apply", "-", stdin=text(SHOP, TILL)).exit_code == 0
    return invoke


def kept(run: Run) -> set[str]:
    """Return the names that the store holds."""
    return {f"{row['tenant']}/{row['name']}" for row in rows(run("subscriptions", "list", "--json"))}


def flat(shown: str) -> str:
    """Return the text of a box on stderr, as one line."""
    return " ".join(shown.replace("│", " ").split())


PRUNED = {
    "left out": text(TILL),
    "another tenant": text({**SHOP, "tenant": "globex"}, TILL),
    "another name": text({**SHOP, "name": "store"}, TILL),
}


@pytest.mark.parametrize("how", ["remove", *PRUNED])
def test_a_removal_counts_first_and_without_a_terminal_wants_a_yes(two: Run, vhost: str, how: str) -> None:
    """Fault 84: by name, by --prune, and for an entry that moves to another tenant or name."""
    asyncio.run(fill(vhost, waiting=[SHOP_ID] * 2, parked=[SHOP_ID] * 3))
    prune = ("subscriptions", "apply", "--prune", "-")
    words = ("subscriptions", "remove", "acme/shop") if how == "remove" else prune

    refused = two(*words, stdin=PRUNED.get(how))
    before = kept(two)
    done = two(*words, "--yes", "--json", stdin=PRUNED.get(how))

    assert refused.exit_code == 2
    assert "acme/shop" in refused.stderr
    assert "2 waiting deliveries would be cancelled, 3 parked deliveries" in flat(refused.stderr)
    assert "give --yes" in flat(refused.stderr)
    assert before == {"acme/shop", "acme/till"}
    [gone] = [row for row in rows(done) if row["change"] == "removed"]
    assert (done.exit_code, gone["waiting"], gone["parked"]) == (0, 2, 3)
    assert "acme/shop" not in kept(two)


def test_a_renamed_subscription_is_named_by_both_names(two: Run, vhost: str) -> None:
    """Fault 84: a new tenant for the same URL is another subscription, without the waiting deliveries."""
    asyncio.run(fill(vhost, waiting=[SHOP_ID]))

    shown = two("subscriptions", "apply", "--prune", "--dry-run", "-", stdin=PRUNED["another tenant"])

    assert shown.exit_code == 0
    assert "acme/shop, renamed to globex/shop: 1 waiting delivery would be cancelled" in flat(shown.stderr)
    assert kept(two) == {"acme/shop", "acme/till"}


def test_nothing_is_asked_where_nothing_would_be_lost(two: Run, vhost: str) -> None:
    """Fault 84: the broker lacks our queues, or holds only deliveries of other subscriptions."""
    assert two("subscriptions", "remove", "acme/till").exit_code == 0

    asyncio.run(fill(vhost, waiting=[TILL_ID], parked=[TILL_ID]))

    assert two("subscriptions", "remove", "acme/shop").exit_code == 0
    assert kept(two) == set()


def test_due_deliveries_cannot_be_assigned_and_are_asked_for(two: Run, vhost: str) -> None:
    """Fault 84: with the daemon stopped, deliveries whose wait is over are in the due queues."""
    asyncio.run(fill(vhost, due=2))

    refused = two("subscriptions", "remove", "acme/shop")

    assert refused.exit_code == 2
    assert "2 messages are due now" in flat(refused.stderr)
    assert kept(two) == {"acme/shop", "acme/till"}


def test_a_broker_whose_messages_were_made_with_another_store_is_asked_about(two: Run, vhost: str) -> None:
    """Fault 84: LEVERET_AMQP_URL is not the daemon's, so the right broker was not counted."""
    asyncio.run(fill(vhost))
    asyncio.run(remember(vhost, Generation("another", 3, "m")))

    refused = two("subscriptions", "remove", "acme/shop")

    assert refused.exit_code == 2
    assert "were made with another store" in flat(refused.stderr)
    assert kept(two) == {"acme/shop", "acme/till"}


@pytest.mark.parametrize("declared", [True, False])
def test_an_empty_broker_is_not_believed_once_a_daemon_served(
    two: Run, vhost: str, tmp_path: Path, declared: bool
) -> None:
    """Fault 84: a virtual host other than the daemon's is empty, with our queues and without."""
    asyncio.run(serve(tmp_path / ".leveret", SHOP))
    if declared:
        asyncio.run(fill(vhost))

    refused = two("subscriptions", "remove", "acme/shop")

    assert refused.exit_code == 2
    assert "has no record of this store; set LEVERET_AMQP_URL" in flat(refused.stderr)
    assert kept(two) == {"acme/shop", "acme/till"}
    assert two("subscriptions", "remove", "acme/till").exit_code == 0


@pytest.mark.parametrize("words", [("remove", "acme/shop"), ("apply", "--prune", "-")])
def test_a_missing_broker_is_reported_and_hinders_nothing(two: Run, words: tuple[str, ...]) -> None:
    """Fault 84: the broker could not be counted, so the removal needs --yes, and then succeeds."""
    refused = two("subscriptions", *words, stdin=text(TILL), AMQP_URL=DEAD)
    before = kept(two)
    done = two("subscriptions", *words, "--yes", stdin=text(TILL), AMQP_URL=DEAD)

    assert refused.exit_code == 2
    assert "not counted: the broker is away" in flat(refused.stderr)
    assert "hush" not in refused.stderr
    assert before == {"acme/shop", "acme/till"}
    assert (done.exit_code, kept(two)) == (0, {"acme/till"})


async def test_on_a_terminal_it_asks(tmp_path: Any, vhost: str) -> None:
    """Fault 84: "no" leaves everything unchanged, "yes" removes."""
    env = python_env() | {"LEVERET_HOME": str(tmp_path), "LEVERET_AMQP_URL": vhost}
    env |= {f"LEVERET_{name}": value for name, value in SETTINGS.items()}
    file = tmp_path / "subs.yaml"
    file.write_text(text(SHOP))
    words = ["subscriptions", "remove", "acme/shop"]
    assert leveret.run("subscriptions", "apply", str(file), env=env).returncode == 0
    await fill(vhost, waiting=[SHOP_ID])

    no = await on_terminal(words, env, {"Remove 1 subscription?": "n\n"})
    yes = await on_terminal(words, env, {"Remove 1 subscription?": "y\n"})

    assert (no.code, yes.code) == (1, 0)
    assert "1 waiting delivery would be cancelled" in no.text
    assert "nothing was removed" in no.text
    assert "removed acme/shop" in yes.text


def test_only_what_was_counted_goes() -> None:
    """Fault 84: a subscription that another person added while the question was open is not removed."""
    shop, till = subscriptions.kept(SHOP, TILL)
    merged = remove([shop, till], {shop.id, till.id})

    assert require_only(merged, [shop, till]) is merged
    with pytest.raises(ConfigError, match="acme/till would be removed too"):
        require_only(merged, [shop])
    assert require_only(Merge(entries=()), []).removed == ()


def test_the_counts_are_in_json(two: Run, vhost: str) -> None:
    """Interfaces: programs read the lost deliveries under stable names."""
    asyncio.run(fill(vhost, parked=[SHOP_ID]))

    [row] = rows(two("subscriptions", "remove", SHOP_ID, "--yes", "--json"))

    assert {"change": "removed", "waiting": 0, "parked": 1}.items() <= row.items()


@pytest.mark.parametrize(
    "words", [("parked", "list"), ("parked", "replay", "--all"), ("waiting", "list"), ("store", "show")]
)
def test_a_broker_without_our_queues_is_reported_with_a_remedy(two: Run, words: tuple[str, ...]) -> None:
    """Interfaces: the remedy follows the broker's own words."""
    shown = two(*words)

    assert shown.exit_code == 1
    assert "check LEVERET_AMQP_URL and its virtual host, or run `leveret topology apply`" in flat(
        shown.stderr
    )
