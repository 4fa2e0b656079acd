"""check, export, permissions and the command line against a real broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from aio_pika.abc import AbstractIncomingMessage
from aiormq.exceptions import ChannelAccessRefused
from typer.testing import CliRunner

from consumer.cli.topology import app
from consumer.core.errors import BrokerUnavailable
from consumer.edges.management.snapshot import ManagementLogin, fetch_snapshot
from consumer.edges.private_broker import BrokerEndpoint
from tests.support.broker.limited_user import LimitedUser, limited_user
from tests.support.broker.topology import SMALL, connected, standing
from topology import message_size
from topology.check import Finding, Severity, check_snapshot
from topology.declare import NotPermitted, declare
from topology.export import definitions, inexpressible
from topology.message_size import size_findings
from topology.permissions import permissions
from topology.plan import SourceSpec, TopologySpec, build_plan
from topology.probe import missing_parts, probe

NAMES = SMALL.names
PLAN = build_plan(SMALL)


@pytest.fixture
def login(broker: BrokerEndpoint, vhost: str) -> ManagementLogin:
    """The management API of the test's vhost."""
    return ManagementLogin(
        url=broker.management_url, user=broker.user, password=broker.password, vhost=vhost.rpartition("/")[2]
    )


def without_notes(findings: Iterable[Finding]) -> list[Finding]:
    """Leave out the notes: a node reports its file limit only some seconds after its start."""
    return [finding for finding in findings if finding.severity is not Severity.NOTE]


@pytest.fixture
def restricted(management: httpx2.Client, vhost: str) -> Iterator[LimitedUser]:
    """A user of its own on the test's vhost, gone after the test."""
    with limited_user(management, vhost) as made:
        yield made


async def test_a_declared_topology_checks_clean(vhost: str, login: ManagementLogin) -> None:
    """Over AMQP and over the management API: nothing differs after apply, with the full ladder."""
    plan = build_plan(TopologySpec())
    async with connected(vhost) as connection:
        await declare(plan, connection)
        assert await probe(plan, connection) == ()
        assert await missing_parts(plan, connection) == ()

    snapshot = await fetch_snapshot(login)

    assert without_notes(check_snapshot(plan, snapshot)) == []
    assert snapshot.gaps == ()
    assert snapshot.quorum_queues >= len(plan.queues)


async def test_the_nodes_file_limit_is_read(login: ManagementLogin) -> None:
    """The check knows the limit some seconds after the node's start; until then it reports a note."""
    async with asyncio.timeout(30):
        while "fd_total" not in (snapshot := await fetch_snapshot(login)).nodes[0]:
            notes = [finding.subject for finding in check_snapshot(PLAN, snapshot)]
            assert any(subject.startswith("open-file limit of node") for subject in notes)

    assert snapshot.nodes[0]["fd_total"] > 0


async def test_exported_definitions_import_and_check_clean(
    vhost: str, login: ManagementLogin, management: httpx2.Client
) -> None:
    """`topology export`, imported into an empty vhost, is what `apply` would have made, but for the guards.

    A headers binding that asks for presence alone has no form in JSON; the check names it, and apply adds it.
    """
    document = json.loads(json.dumps(definitions(PLAN)))
    management.post(f"/api/definitions/{login.vhost}", json=document).raise_for_status()

    lacking = without_notes(check_snapshot(PLAN, await fetch_snapshot(login)))
    assert [finding.subject for finding in lacking] == [str(binding) for binding in inexpressible(PLAN)]
    async with standing(vhost, SMALL) as live:
        assert await probe(PLAN, live.connection) == ()
        assert without_notes(check_snapshot(PLAN, await fetch_snapshot(login))) == []


async def test_an_empty_vhost_lacks_everything(vhost: str, login: ManagementLogin) -> None:
    """Both methods of checking name each queue and exchange, and create nothing."""
    async with connected(vhost) as connection:
        over_amqp = await probe(PLAN, connection)
        assert await missing_parts(PLAN, connection) == over_amqp
    over_http = check_snapshot(PLAN, await fetch_snapshot(login))

    parts = {f"queue {queue.name}" for queue in PLAN.queues} | {f"exchange {e.name}" for e in PLAN.exchanges}
    assert {finding.subject for finding in over_amqp} == parts
    assert set(over_amqp) <= set(over_http)


async def test_differences_are_found_both_ways(
    vhost: str, login: ManagementLogin, management: httpx2.Client
) -> None:
    """A changed limit is a warning, a stolen binding and a biting policy are errors."""
    async with standing(vhost, replace(SMALL, parked_max_length=5)) as live:
        tap = await live.channel.declare_queue("tap", durable=True)
        await tap.bind(NAMES.lanes, "1")
        lane = await live.channel.get_queue(NAMES.lane(0), ensure=False)
        await lane.unbind(NAMES.lanes, "1")
        policy = {"pattern": "overflow$", "definition": {"max-length": 10}, "apply-to": "queues"}
        management.put(f"/api/policies/{login.vhost}/tidy", json=policy).raise_for_status()

        over_amqp = await probe(PLAN, live.connection)
        over_http = check_snapshot(PLAN, await fetch_snapshot(login))

    [limit] = over_amqp
    assert limit.severity is Severity.WARNING
    assert limit in over_http
    errors = {finding.subject: finding for finding in over_http if finding.severity is Severity.ERROR}
    assert set(errors) == {
        "queue leveret.overflow",
        "binding leveret.lanes -[1]-> queue tap",
        "binding leveret.lanes -[1]-> queue leveret.lane.00",
    }
    assert "policy tidy sets max-length 10" in errors["queue leveret.overflow"].text


async def test_a_management_api_that_is_away_is_a_clear_error(login: ManagementLogin) -> None:
    """No traceback: the URL, the fault, and the remedy."""
    with pytest.raises(BrokerUnavailable, match="management_url"):
        await fetch_snapshot(replace(login, url="http://127.0.0.1:1"))
    with pytest.raises(BrokerUnavailable, match="401"):
        await fetch_snapshot(replace(login, password="wrong"))


async def test_the_declaring_rights_suffice(vhost: str, restricted: LimitedUser) -> None:
    """docs: with the printed patterns `run` declares everything, sources too; without, the error says so."""
    spec = replace(SMALL, sources=(SourceSpec(name="a", exchange="shop"),))
    async with connected(vhost) as admin:
        await (await admin.channel()).declare_exchange("shop", "topic", durable=True)
    restricted.grant(permissions(replace(spec, prefix="other"), declare=True))
    async with connected(restricted.url) as connection:
        with pytest.raises(NotPermitted, match=r"exchange leveret\.expired.*topology permissions"):
            await declare(build_plan(spec), connection)

    restricted.grant(permissions(spec, declare=True))

    async with standing(restricted.url, spec) as live:
        assert await probe(live.plan, live.connection) == ()
        await live.publish(NAMES.wait, NAMES.wait_key(0.05, NAMES.due_queue(0)))
        await live.take([NAMES.due_queue(0)], 1)


async def test_no_declare_needs_only_reading_and_writing(vhost: str, restricted: LimitedUser) -> None:
    """`run --no-declare`: every publish and every consumer works without the configure right."""
    async with standing(vhost, SMALL):
        restricted.grant(permissions(SMALL, declare=False))
        async with connected(restricted.url) as connection:
            assert await missing_parts(PLAN, connection) == ()
            with pytest.raises(NotPermitted):
                await declare(PLAN, connection)
            await _use_everything(restricted.url)
            wire = await (await connection.channel()).get_underlay_channel()
            with pytest.raises(ChannelAccessRefused):
                await wire.basic_publish(b"", exchange=NAMES.lanes)


async def give_back(message: AbstractIncomingMessage) -> None:
    """Settle nothing for good."""
    await message.nack(requeue=True)


async def _use_everything(url: str) -> None:
    """Publish to each exchange that the daemon publishes to, consume each queue that it reads."""
    async with connected(url) as connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        wire = await channel.get_underlay_channel()
        for exchange in (NAMES.events, NAMES.wait, NAMES.due, NAMES.dlx, NAMES.control, NAMES.ops):
            await wire.basic_publish(b"", exchange=exchange, routing_key="0.unbound")
        for queue in PLAN.queues:
            if not queue.name.startswith(f"{NAMES.wait}."):
                handle = await channel.get_queue(queue.name, ensure=False)
                await handle.cancel(await handle.consume(give_back))


async def test_a_check_without_configure_right_names_the_skipped_parts(
    vhost: str, restricted: LimitedUser
) -> None:
    """Arguments cannot be compared over AMQP without that right: a note, not silence."""
    async with standing(vhost, SMALL):
        restricted.grant(permissions(SMALL, declare=False))
        async with connected(restricted.url) as connection:
            [note] = await probe(PLAN, connection)

    assert note.severity is Severity.NOTE
    assert "were not compared" in note.text


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vhost: str, broker: BrokerEndpoint) -> CliRunner:
    """Run the command line with settings for the test's vhost and a small topology."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEVERET_AMQP_URL", vhost)
    monkeypatch.setenv("LEVERET_AMQP__MANAGEMENT_URL", broker.management_url)
    monkeypatch.setenv("LEVERET_TOPOLOGY__LANES", "2")
    monkeypatch.setenv("LEVERET_TOPOLOGY__RUNGS_S", "[0.1, 0.2]")
    return CliRunner()


def test_the_commands_work_together(command: CliRunner) -> None:
    """`check` fails on an empty vhost, `apply` mends it, twice; `check` is content then."""
    before = command.invoke(app, ["check", "--json"])
    assert before.exit_code == 1
    lines = [json.loads(line) for line in before.stdout.splitlines()]
    assert {"severity", "subject", "text", "remedy"} == set(lines[0])
    assert any(line["subject"] == "queue leveret.wait.200" for line in lines)

    for _ in range(2):
        applied = command.invoke(app, ["apply", "--json"])
        assert (applied.exit_code, json.loads(applied.stdout)["queues"]) == (0, 2 + 1 + 2 + 4 + 4 + 1 + 6)

    after = command.invoke(app, ["check"])
    assert (after.exit_code, "error" in after.stdout) == (0, False)
    assert after.stdout.splitlines()[-1] in ("the broker matches the plan", "1 note")


def test_a_conflict_is_one_line_on_stderr(command: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 61: exit 1, no traceback, queue and argument named; a changed limit is a warning and exit 0."""
    assert command.invoke(app, ["apply"]).exit_code == 0
    monkeypatch.setenv("LEVERET_TOPOLOGY__PARKED_MAX_LENGTH", "7")
    warned = command.invoke(app, ["apply"])
    monkeypatch.setenv("LEVERET_TOPOLOGY__QUEUE_TYPE", "classic")
    refused = command.invoke(app, ["apply"])

    assert warned.exit_code == 0
    assert "x-max-length is 10000 on the broker, 7 in the plan" in warned.stderr
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (1, 1)
    assert refused.stderr.startswith("leveret: queue leveret.overflow: x-")


def test_show_export_and_permissions_ask_no_broker(
    command: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They print the settings, even where no broker answers; the number of queues last."""
    monkeypatch.setenv("LEVERET_AMQP_URL", "amqp://127.0.0.1:1/")
    shown = command.invoke(app, ["show"])
    objects = [json.loads(line) for line in command.invoke(app, ["show", "--json"]).stdout.splitlines()]
    exported = json.loads(command.invoke(app, ["export", "--vhost", "/"]).stdout)
    rights = command.invoke(app, ["permissions", "--no-declare"])

    assert shown.stdout.splitlines()[-1] == "20 queues"
    assert objects[-1] == {"kind": "sum", "queues": 20}
    assert sum(item["kind"] == "queue" for item in objects) == len(exported["queues"]) == 20
    assert command.invoke(app, ["show", "--mermaid"]).stdout.startswith("flowchart LR")
    assert command.invoke(app, ["show", "--mermaid", "--json"]).exit_code == 2
    assert "configure: ^$" in rights.stdout
    assert command.invoke(app, ["check"]).exit_code == 1


async def test_how_large_a_message_the_broker_takes(vhost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 88: the private broker takes 16 MiB and no byte more; a broker that takes more is warned of."""
    async with connected(vhost) as connection:
        assert await size_findings(PLAN, connection) == ()
        monkeypatch.setattr(message_size, "MAX_MESSAGE_BYTES", 1_000_000)
        [found] = await size_findings(PLAN, connection)

    assert (found.severity, found.subject) == (Severity.WARNING, "max_message_size")
    assert "max_message_size = 1000000" in found.remedy
