"""The moments of ordinary life: none of them asks for an operator.

The order: a night with few events, in which a deploy takes place; then a day with restarts of workers and of
the broker. Each moment ends so early that an alert which waits for five minutes comes within the life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.observe.quiet.stage import DAY_PER_S, NEW, Stage

LIFE_S: Final = 1800.0

BUILD: Final = {"LEVERET_SENDING__CONCURRENCY": "64", "LEVERET_LOG__LEVEL": "warning"}
DISCOVERY_S: Final = 20.0  #: until the service discovery knows that a worker moved
BETWEEN_S: Final = 15.0  #: two workers
PAUSE_S: Final = 1140.0
IN_FLIGHT_S: Final = 30.0  #: until no request is in flight that began before a pause
FLAPS: Final = 6
FLAP_S: Final = 60.0
NODES: Final = 3  #: of a cluster that is restarted node by node, as a worker sees it at worst
DOWNS_S: Final = (20.0, 60.0, 20.0)  #: between stop and start of a node; one is upgraded
NODE_EVERY_S: Final = 120.0
IMPORTED: Final = 3_000
REFUSED_AT_NIGHT: Final = 2
REFUSED_BY_DAY: Final = 8
REFUSED_S: Final = 60.0  #: longest time until they are refused, on a busy machine


@dataclass(frozen=True, slots=True)
class Moment:
    """A part of ordinary life."""

    name: str
    at_s: float  #: since the begin of life
    act: Callable[[Stage], Awaitable[None]]


async def deploy(stage: Stage) -> None:
    """Replace each worker by one with other settings, which answers at another address."""
    for number in range(len(stage.workers.running)):
        await stage.workers.replace(number, BUILD)
        await stage.wait(DISCOVERY_S)
        stage.workers.aim()
        await stage.wait(BETWEEN_S)


async def refuse_at_night(stage: Stage) -> None:
    """Refuse a few events for good, while hardly anything else is delivered."""
    await _refuse(stage, REFUSED_AT_NIGHT)


async def _refuse(stage: Stage, many: int) -> None:
    endpoint = stage.endpoints["refusing"]
    endpoint.status, before = 400, endpoint.answers[400]
    await stage.publisher.send("t02", many)
    async with asyncio.timeout(REFUSED_S):
        while endpoint.answers[400] < before + many:  # noqa: ASYNC110 (the endpoint sets no event)
            await asyncio.sleep(0.1)
    endpoint.status = 200


async def hiccup(stage: Stage) -> None:
    """Let the endpoint of the quiet tenant fail once, and be slow once."""
    endpoint = stage.endpoints["rare"]
    endpoint.status = 503
    await stage.wait(62.0)
    endpoint.status, endpoint.delay_s = 200, 4.0
    await stage.wait(62.0)
    endpoint.delay_s = 0.02


async def come_and_go(stage: Stage) -> None:
    """Add a subscription, pause it, resume it, and remove it."""
    command, name, url = stage.command, f"t01/{NEW}", stage.endpoints.url(NEW)
    await command("subscriptions", "add", url, "--tenant", "t01", "--name", NEW, "--event", "order.*")
    await stage.wait(60.0)
    await command("pause", "--subscription", name)
    await stage.wait(120.0)
    await command("resume", "--subscription", name)
    await stage.wait(60.0)
    await command("subscriptions", "remove", "--yes", name)
    stage.facts["came_and_went"] = True


async def long_pause(stage: Stage) -> None:
    """Pause a subscription for long: its customer moves to other servers."""
    answers = stage.endpoints["paused"].answers
    await stage.command("pause", "--subscription", "t04/paused")
    await stage.wait(IN_FLIGHT_S)
    before = answers.total()
    await stage.wait(PAUSE_S - IN_FLIGHT_S)
    stage.facts["requests_until_the_resume"] = answers.total()
    stage.facts["requests_in_the_pause"] = answers.total() - before
    await stage.command("resume", "--subscription", "t04/paused")


async def flap(stage: Stage) -> None:
    """Let an endpoint fail for a minute and be well for a minute, in turn."""
    endpoint = stage.endpoints["flapping"]
    for _ in range(FLAPS):
        endpoint.status = 503
        await stage.wait(FLAP_S)
        endpoint.status = 200
        await stage.wait(FLAP_S)
    stage.facts["flapping_answers"] = dict(endpoint.answers)


async def wake_up(stage: Stage) -> None:
    """Begin the day: many more events."""
    stage.publisher.per_s = DAY_PER_S
    stage.facts["events_at_night"] = stage.publisher.published


async def restart_workers(stage: Stage) -> None:
    """Restart one worker after the other."""
    for number in range(len(stage.workers.running)):
        await stage.workers.restart(number)
        await stage.wait(BETWEEN_S)


async def import_many(stage: Stage) -> None:
    """Publish many events of one tenant at once."""
    await stage.publisher.send("t04", IMPORTED)


async def refuse_and_replay(stage: Stage) -> None:
    """Refuse some events for good, then replay all that is parked."""
    await _refuse(stage, REFUSED_BY_DAY)
    await stage.wait(20.0)
    done = await stage.command("parked", "replay", "--all", "--tenant", "t02", "--wait", "--json")
    stage.facts["replayed"] = len(done.splitlines())


async def restart_broker(stage: Stage) -> None:
    """Restart the broker three times, as a worker sees the worst rolling restart of a cluster."""
    for number, down_s in zip(range(NODES), DOWNS_S, strict=True):
        await stage.broker.stop()
        await stage.wait(down_s)
        await stage.broker.start()
        stage.facts["broker_restarts"] = number + 1
        await stage.wait(NODE_EVERY_S - down_s)


MOMENTS: Final[Sequence[Moment]] = (
    Moment("refused events at night", 30.0, refuse_at_night),
    Moment("deploy", 90.0, deploy),
    Moment("long pause", 200.0, long_pause),
    Moment("hiccup of a quiet endpoint", 200.0, hiccup),
    Moment("subscription comes and goes", 220.0, come_and_go),
    Moment("flapping endpoint", 330.0, flap),
    Moment("begin of the day", 660.0, wake_up),
    Moment("rolling restart of workers", 720.0, restart_workers),
    Moment("import", 840.0, import_many),
    Moment("parked entries and their replay", 870.0, refuse_and_replay),
    Moment("rolling restart of the broker", 1020.0, restart_broker),
)
"""Each of them by the time at which it begins."""
