"""Rights are tried on a real broker without any effect on queues and messages."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2
import pytest

from consumer.edges.doctor.rights import knows_hash_exchanges, missing_rights
from tests.support.broker.limited_user import LimitedUser, limited_user
from tests.support.broker.topology import SMALL, connected, standing
from topology.permissions import Permissions, permissions
from topology.plan import build_plan

NAMES = SMALL.names
PLAN = build_plan(SMALL)


@pytest.fixture
def user(management: httpx2.Client, vhost: str) -> Iterator[LimitedUser]:
    """A user without the tag that the management API asks for."""
    with limited_user(management, vhost) as made:
        yield made


@pytest.mark.parametrize("declares", [True, False])
async def test_the_printed_rights_are_enough(vhost: str, user: LimitedUser, declares: bool) -> None:
    """With the patterns of `topology permissions` nothing is missing, with and without declarations."""
    async with standing(vhost, SMALL):
        user.grant(permissions(SMALL, declare=declares))
        async with connected(user.url) as connection:
            missing, tried = await missing_rights(connection, PLAN, NAMES, declares=declares)
            assert await knows_hash_exchanges(connection)

    assert missing == []
    assert tried >= 17


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        (Permissions("^$", ".*", ".*"), ["configure leveret.*"]),
        (
            Permissions(".*", r"^leveret\.(?!wait$|ops$)", ".*"),
            ["write to leveret.wait", "write to leveret.ops"],
        ),
        (
            Permissions(".*", ".*", r"^leveret\.(?!parked$|due)"),
            ["read leveret.due.00", "read leveret.due", "read leveret.parked"],
        ),
        (
            Permissions(r"^leveret\.(?!suspect$|guard$)", ".*", ".*"),
            ["configure leveret.suspect", "configure leveret.guard"],
        ),
        (
            Permissions(".*", r"^leveret\.(?!lane|guard$)", ".*"),
            [
                "write to leveret.lane.00",
                "write to leveret.lane.died",
                "write to leveret.lanes",
                "write to leveret.guard",
            ],
        ),
        (
            Permissions(".*", ".*", r"^leveret\.(?!wait|lanes$)"),
            ["read leveret.wait.50", "read leveret.wait", "read leveret.lanes"],
        ),
        (Permissions(".*", "^$", ".*"), ["write to leveret.*"]),
        (Permissions(".*", ".*", "^$"), ["read leveret.*"]),
    ],
)
async def test_each_missing_right_is_named(
    vhost: str, user: LimitedUser, rights: Permissions, expected: list[str]
) -> None:
    """Configure, write and read are told apart, by name."""
    async with standing(vhost, SMALL):
        user.grant(rights)
        async with connected(user.url) as connection:
            missing, _ = await missing_rights(connection, PLAN, NAMES, declares=True)

    assert sorted(missing) == sorted(expected)


async def test_nothing_is_declared(vhost: str, management: httpx2.Client) -> None:
    """On a broker without any part of the plan every right is tried, and no queue or exchange is left."""
    async with connected(vhost) as connection:
        missing, _ = await missing_rights(connection, PLAN, NAMES, declares=True)
    name = urlsplit(vhost).path[1:]

    exchanges = {each["name"] for each in management.get(f"/api/exchanges/{name}").json()}
    assert missing == []
    assert management.get(f"/api/queues/{name}").json() == []
    assert {each for each in exchanges if each and not each.startswith("amq.")} == set()


async def test_nothing_is_published_and_nothing_is_taken(vhost: str) -> None:
    """A message that waits stays first in its queue and counts no return; no queue gets another."""
    async with standing(vhost, SMALL) as live:
        await live.publish(NAMES.due, NAMES.direct_key(NAMES.due_queue(0)), body=b"mine")
        async with connected(vhost) as connection:
            assert (await missing_rights(connection, PLAN, NAMES, declares=True))[0] == []
        counts = {}
        for queue in PLAN.queues:
            declared = await live.channel.declare_queue(queue.name, passive=True)
            counts[queue.name] = declared.declaration_result.message_count
        [(_, message)] = await live.take([NAMES.due_queue(0)], 1)

    assert {name for name, count in counts.items() if count} == {NAMES.due_queue(0)}
    assert message.body == b"mine"
    assert not message.redelivered
