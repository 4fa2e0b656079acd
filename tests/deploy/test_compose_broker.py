"""A native RabbitMQ starts on the files that docker-compose.yml mounts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aio_pika
import aiormq
import pytest

from consumer.edges.private_broker import PrivateBroker, files
from consumer.settings import Settings
from deploy.compose_setup import broker_definitions
from tests.support.data import ROOT
from tests.support.processes import leveret
from tests.support.processes.children import python_env
from tests.support.processes.daemon import Daemon
from tests.support.processes.rabbitmqctl import rabbitmqctl
from tests.support.repository.compose import SERVICES

CONF = (ROOT / "deploy" / "rabbitmq" / "20-leveret.conf").read_text()


async def test_a_broker_starts_with_definitions_and_leveret_finds_all(
    tmp_path: Path, own_broker: PrivateBroker
) -> None:
    """Users, rights and queues are loaded at its start; the daemon adds the guard's binding.

    The user publisher may publish to the events exchange and to nothing else; the sample's publishers do.
    """
    layout, identity = own_broker.layout, files.new_identity()
    login = {identity.user: identity.password, "publisher": "p" * 24, "admin": "a" * 24}
    layout.home.mkdir(parents=True)
    files.save_identity(layout, identity)
    files.write_node_files(layout, identity)
    document = broker_definitions(Settings(), login)
    files.write_private(layout.outside / "definitions.json", json.dumps(document))
    conf = CONF.replace("/run/leveret/definitions.json", str(layout.inside / "definitions.json"))
    (layout.outside / "conf.d" / "20-leveret.conf").write_text(conf)

    endpoint = await asyncio.to_thread(own_broker.start, bound=True)

    assert await asyncio.to_thread(_users, own_broker) == {"leveret", "publisher", "admin"}
    daemon = Daemon(tmp_path, endpoint.amqp_url, {"LEVERET_AMQP__MANAGEMENT_URL": endpoint.management_url})
    await daemon.cli("topology", "apply")
    findings = await daemon.listing("topology", "check")
    assert [finding for finding in findings if finding["severity"] == "error"] == []
    publisher = endpoint.amqp_url.replace(
        f"{identity.user}:{identity.password}", f"publisher:{login['publisher']}"
    )
    async with await aio_pika.connect(publisher) as connection:
        channel = await connection.channel()
        events = await channel.get_exchange("leveret.events", ensure=False)
        await events.publish(aio_pika.Message(b"{}", headers={"tenant": "acme"}), "order.created")
        wait = await channel.get_exchange("leveret.wait", ensure=False)
        with pytest.raises(aiormq.exceptions.ChannelAccessRefused):
            await wait.publish(aio_pika.Message(b"{}"), "1000.leveret.due.00")
    samples = [name for name in SERVICES if name.startswith("publisher-")]
    runs = (asyncio.to_thread(published, name, publisher, tmp_path) for name in samples)
    assert await asyncio.gather(*runs) == [2, 2]


def published(name: str, amqp_url: str, folder: Path) -> int:
    """Run the command of a sample publisher for two events; stdin is empty, as that of a container is."""
    words = list(SERVICES[name]["command"])
    words[words.index("--count") + 1] = "2"
    done = leveret.run(*words, cwd=folder, env=python_env() | {"LEVERET_AMQP_URL": amqp_url})
    assert done.returncode == 0, done.stderr
    return len(done.stdout.splitlines())


def _users(broker: PrivateBroker) -> set[str]:
    rows: list[dict[str, str]] = json.loads(rabbitmqctl(broker, "list_users", "--formatter=json"))
    return {row["user"] for row in rows}
