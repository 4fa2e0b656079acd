"""Alerts during thirty minutes of ordinary life, in which nothing asks for an operator.

Two workers, a broker, and eleven endpoints of six tenants live through :data:`MOMENTS`: a deploy, rolling
restarts of workers and of the broker, an endpoint that flaps and one with occasional 503, a quiet tenant, a
subscription that comes and goes, a long pause, parked entries and their replay. In the same Prometheus is a
foreign RabbitMQ in real trouble. Prometheus scrapes every 5 s and has the rules of `leveret alerts` with
their default options; each alert that Alertmanager receives is false.

To show that the set-up sees alerts at all, real trouble follows: an endpoint stays dead, a worker stays away,
and our broker's memory is nearly full. Each must raise its alert, or the figure is not valid.

A scale below 1 shortens life and the windows of the rules by the same factor. A restart does not get shorter,
so only the whole proof says something about the rules.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from bench.broker import Broker
from bench.observe.quiet.diary import Diary
from bench.observe.quiet.endpoints import Endpoints
from bench.observe.quiet.foreign import FOREIGN_TROUBLES, foreign, troubles_of_foreign
from bench.observe.quiet.moments import (
    FLAPS,
    LIFE_S,
    MOMENTS,
    NODES,
    REFUSED_AT_NIGHT,
    REFUSED_BY_DAY,
    Moment,
)
from bench.observe.quiet.stage import ENDPOINTS, NEW, SETTINGS, Publisher, Stage
from bench.observe.quiet.troubles import TROUBLES, Trouble
from bench.observe.quiet.watch import Alert, AlertWatch, Labels, Tower, sent_labels
from bench.observe.quiet.workers import Workers
from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.tools.alerts.model import AlertOptions
from consumer.core.tools.alerts.rules import GROUPS
from consumer.core.tools.alerts.template import rules_text
from tests.support.processes.alertmanager import Alertmanager
from tests.support.processes.prometheus import Points
from tests.support.servers.alert_inbox import AlertInbox

TROUBLE_S: Final = 900.0  #: until each alert of a real trouble has come

GOALS = (Goal(name="false_alerts", text="0", unit="alerts", n=round(LIFE_S)),)


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of the proof."""

    moments: Sequence[Moment] = MOMENTS
    troubles: Sequence[Trouble] = TROUBLES


@asynccontextmanager
async def opened(bench: Bench) -> AsyncIterator[tuple[Stage, AlertWatch]]:
    """Run everything but the moments while the block runs."""
    rules = None if bench.scale >= 1 else rules_text(GROUPS, AlertOptions(time_factor=bench.scale))
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        broker = await enter(Broker(bench))
        alertmanager = await enter(Alertmanager(bench.folder, (await enter(AlertInbox())).address))
        tower = await enter(Tower(bench.folder, alertmanager.address, rules))
        if not bench.amqp_url:
            await enter(foreign(bench, tower))
            tower.aim("rabbitmq", [urlsplit(broker.endpoint.prometheus_url).netloc])
        endpoints = await enter(Endpoints((*ENDPOINTS, NEW)))
        workers = await enter(Workers(bench.folder, broker.url, tower, SETTINGS))
        stage = Stage(bench, broker, endpoints, tower, workers, Publisher(broker.url, bench.scale))
        await stage.begin()
        watch = AlertWatch(alertmanager)
        await enter(watch.running())
        await enter(stage.publisher.running())
        yield stage, watch


async def in_trouble(stage: Stage, watch: AlertWatch, troubles: Sequence[Trouble]) -> dict[str, float | None]:
    """Make every real trouble; return the seconds until each alert came; None: it did not come."""
    began = time.time()
    expected = {trouble.alert: await trouble.make(stage) for trouble in troubles}
    deadline = began + max(TROUBLE_S * stage.bench.scale, 30.0)
    seen: dict[str, float | None] = dict.fromkeys(expected)
    while None in seen.values() and time.time() < deadline:
        await asyncio.sleep(0.5)
        for name, labels in expected.items():
            alert = watch.find(name, labels, began)
            seen[name] = None if alert is None else round(alert.began - began, 1)
    return seen


@dataclass(frozen=True, slots=True)
class Lived:
    """The result of one life."""

    diary: Diary
    ended: float  #: Unix seconds
    received: Sequence[Alert]  #: by Alertmanager
    pending: Sequence[Points]
    firing: Sequence[Points]

    @property
    def unreceived(self) -> Sequence[Labels]:
        """Alerts that fired and did not reach Alertmanager."""
        received = [alert.labels for alert in self.received]
        return [labels for labels, _ in self.firing if sent_labels(labels) not in received]


async def live(stage: Stage, watch: AlertWatch, moments: Sequence[Moment]) -> Lived:
    """Live through *moments* to the end of life."""
    diary = Diary(time.time())
    await diary.live(stage, moments)
    await asyncio.sleep(max(0.0, diary.began + LIFE_S * stage.bench.scale - time.time()))
    ended = time.time()
    received = [alert for alert in watch.alerts if alert.began <= ended]
    pending = await asyncio.to_thread(stage.tower.recorded, "pending", (diary.began, ended))
    firing = await asyncio.to_thread(stage.tower.recorded, "firing", (diary.began, ended))
    return Lived(diary, ended, received, pending, firing)


def effects(stage: Stage, foreign_troubles: AbstractSet[str]) -> dict[str, bool]:
    """Return whether each moment had its effect, by a name of it."""
    facts, answers = stage.facts, {name: stage.endpoints[name].answers for name in ENDPOINTS}
    refused = REFUSED_AT_NIGHT + REFUSED_BY_DAY  # events of the usual load may be refused beside them
    silent = facts.get("requests_in_the_pause") == 0
    return {
        "flapped": min(answers["flapping"][200], answers["flapping"][503]) >= 2 * FLAPS,
        "failed sometimes": min(answers["sometimes"][200], answers["sometimes"][503]) > 0,
        "deployed and restarted": stage.workers.starts == 3 * len(stage.workers.running),
        "broker restarted": facts.get("broker_restarts") == NODES,
        "came and went": "came_and_went" in facts,
        "paused and resumed": silent and answers["paused"].total() > facts["requests_until_the_resume"],
        "parked and replayed": answers["refusing"][400] >= facts.get("replayed", 0) >= refused,
        "foreign trouble": foreign_troubles >= FOREIGN_TROUBLES,
    }


async def prove_with(bench: Bench, plan: Plan) -> Sequence[Measured]:
    """Live, then be in trouble; count the alerts of the life."""
    async with opened(bench) as (stage, watch):
        lived = await live(stage, watch, plan.moments)
        bench.note("false_alerts_list", [lived.diary.row(alert) for alert in lived.received])
        foreign_troubles = frozenset[str]() if bench.amqp_url else await troubles_of_foreign(stage.tower)
        had_effect = effects(stage, foreign_troubles)
        real = await in_trouble(stage, watch, plan.troubles)
    bench.note("false_alerts_moments", lived.diary.times())
    bench.note("false_alerts_pending", lived.diary.pending(lived.pending))
    bench.note("false_alerts_facts", {**stage.facts, "published": stage.publisher.published})
    bench.note("false_alerts_effects", had_effect)
    bench.note("false_alerts_unreceived", lived.unreceived)
    bench.note("false_alerts_foreign_troubles", sorted(foreign_troubles))
    bench.note("false_alerts_real_troubles_s", real)
    valid = all(had_effect.values()) and None not in real.values() and not lived.unreceived
    seconds = round(lived.ended - lived.diary.began)
    return [Measured(name="false_alerts", value=len(lived.received), n=seconds, valid=valid)]


async def prove(bench: Bench) -> Sequence[Measured]:
    """Live through all moments, and be in all troubles."""
    return await prove_with(bench, Plan())


PROOF = Proof("false_alerts", GOALS, prove)
