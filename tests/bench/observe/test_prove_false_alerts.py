"""The proof of false alerts: it counts each alert once, names its moment, and runs in small."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.broker import Broker
from bench.observe import false_alerts
from bench.observe.false_alerts import Lived, Plan, effects
from bench.observe.quiet.diary import Diary, Entry
from bench.observe.quiet.endpoints import Endpoints
from bench.observe.quiet.moments import LIFE_S, MOMENTS, Moment, flap, refuse_and_replay
from bench.observe.quiet.stage import ENDPOINTS, Publisher, Stage
from bench.observe.quiet.troubles import WORKER_AWAY
from bench.observe.quiet.watch import Alert, AlertWatch, Tower
from bench.observe.quiet.workers import Workers
from bench.prove import Bench, Proof, run_proof
from consumer.edges.private_broker import BrokerEndpoint
from tests.support.processes.alertmanager import Alertmanager

SMALL = 1 / 300  #: life lasts 6 s, and five minutes of a rule a second
HOLD_S = 300.0  #: of most rules
SLOW = {"alertname": "LeveretSlow", "job": "leveret", "severity": "warning"}


def received(began: str, **labels: str) -> dict[str, Any]:
    """Return an alert as Alertmanager's API answers it."""
    return {"labels": SLOW | labels, "startsAt": began, "annotations": {"description": "It takes long."}}


def watch(folder: Path) -> AlertWatch:
    """Return a watch on an Alertmanager that does not run."""
    return AlertWatch(Alertmanager(folder, "127.0.0.1:9"))


def test_an_alert_is_counted_once_for_each_time_that_it_begins(tmp_path: Path) -> None:
    """Looks at the same alert add nothing; other labels or a new begin add one."""
    seen = watch(tmp_path)

    for _ in range(3):
        seen.take([received("2026-01-01T00:00:10.000Z")])
    seen.take([received("2026-01-01T00:00:10.000Z", job="other")])
    seen.take([received("2026-01-01T00:09:10.000Z")])

    assert [alert.labels["job"] for alert in seen.alerts] == ["leveret", "other", "leveret"]
    assert seen.alerts[2].began - seen.alerts[0].began == 540


def test_an_alert_of_a_trouble_began_after_it(tmp_path: Path) -> None:
    """The alert of an earlier trouble does not count for a later one, and another name is another alert."""
    seen = watch(tmp_path)
    seen.take([received("1970-01-01T00:01:00.000Z")])

    assert seen.find("LeveretSlow", {"job": "leveret"}, 59.0)
    assert seen.find("LeveretSlow", {"job": "leveret"}, 61.0) is None
    assert seen.find("LeveretSlow", {"job": "other"}, 59.0) is None
    assert seen.find("LeveretAway", {}, 59.0) is None


def test_an_alert_is_put_down_to_its_moment() -> None:
    """The moments that took place then, or the one that ended last before."""
    diary = Diary(
        100.0, [Entry("deploy", 110.0, 120.0), Entry("flapping", 115.0), Entry("import", 130.0, 131.0)]
    )

    row = diary.row(Alert("LeveretSlow", SLOW | {"subscription": "a/b"}, 132.5, "It takes long."))

    assert [diary.at(when) for when in (105.0, 112.0, 118.0)] == [
        "before any moment",
        "deploy",
        "deploy, flapping",
    ]
    assert diary.at(131.0) == "flapping"
    assert Diary(100.0, diary.entries[:1]).at(125.0) == "after deploy"
    assert (row["labels"], row["at_s"]) == ({"subscription": "a/b"}, 32.5)


def test_the_longest_time_of_a_pending_alert_is_noted() -> None:
    """Three points in a row are longer than two; the gap between them begins a new time."""
    times = (100.0, 105.0, 130.0, 135.0, 140.0)
    diary = Diary(100.0, [Entry("deploy", 100.0)])

    [row] = diary.pending([(SLOW, [(at, 1.0) for at in times])])

    assert (row["times"], row["longest_s"], row["at_s"], row["moment"]) == (2, 15.0, 30.0, "deploy")


def test_an_alert_that_did_not_reach_alertmanager_is_missed() -> None:
    """Prometheus recorded that it fired."""
    fired = SLOW | {"__name__": "ALERTS", "alertstate": "firing"}
    lived = partial(Lived, Diary(0.0), 9.0, pending=(), firing=[(fired, [(5.0, 1.0)])])

    assert lived(received=[Alert("LeveretSlow", SLOW, 5.0)]).unreceived == []
    assert lived(received=[Alert("LeveretSlow", SLOW | {"job": "other"}, 5.0)]).unreceived == [fired]


def test_each_moment_begins_early_enough_to_be_seen() -> None:
    """An alert that waits for five minutes still comes within the life."""
    assert all(moment.at_s + HOLD_S < LIFE_S for moment in MOMENTS)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A stage on which nothing runs."""
    bench, tower = Bench(folder=tmp_path), Tower(tmp_path, "", None)
    workers = Workers(tmp_path, "", tower, {})
    return Stage(bench, Broker(bench), Endpoints(ENDPOINTS), tower, workers, Publisher("", 1.0))


def test_a_pause_needs_silence_and_requests_after_it(stage: Stage) -> None:
    """A pause that was never made, or that did not hold, has no effect; neither has one that never ended."""
    answers = stage.endpoints["paused"].answers
    effect = "paused and resumed"

    answers[200] = 7
    assert not effects(stage, frozenset())[effect]
    stage.facts |= {"requests_in_the_pause": 0, "requests_until_the_resume": 7}
    assert not effects(stage, frozenset())[effect]
    answers[200] = 8
    assert effects(stage, frozenset())[effect]
    stage.facts["requests_in_the_pause"] = 1
    assert not effects(stage, frozenset())[effect]


@pytest.mark.parametrize(("replayed", "expected"), [(9, False), (10, True), (11, True), (12, False)])
def test_every_refused_event_is_replayed(stage: Stage, replayed: int, expected: bool) -> None:
    """Ten events, and those of the usual load that were refused beside them: here one."""
    stage.endpoints["refusing"].answers[400] = 11
    stage.facts["replayed"] = replayed

    assert effects(stage, frozenset())["parked and replayed"] is expected


@pytest.mark.timeout(180)  # two workers start, beside other tests
async def test_false_alerts_in_small(tmp_path: Path, vhost: str, broker: BrokerEndpoint) -> None:
    """A short life on a shared broker: notes describe it; a worker that stays away raises its alert."""
    scheme, rest = broker.management_url.split("://")
    url = f"{scheme}://{broker.user}:{broker.password}@{rest}"
    bench = Bench(folder=tmp_path / "run", scale=SMALL, amqp_url=vhost, management_url=url)
    moments = (Moment("flapping", 0.0, flap), Moment("replay", 30.0, refuse_and_replay))
    plan = Plan(moments, (WORKER_AWAY,))
    proof = Proof("false_alerts", false_alerts.GOALS, partial(false_alerts.prove_with, plan=plan))

    [figure] = await run_proof(proof, bench)

    notes: dict[str, Any] = bench.notes
    assert "false_alerts_error" not in notes, notes["false_alerts_error"]
    assert figure.value == len(notes["false_alerts_list"])
    assert set(notes["false_alerts_moments"]) == {"flapping", "replay"}
    assert notes["false_alerts_real_troubles_s"]["LeveretWorkerAway"] is not None
    assert not figure.ok, "most moments were left out"
    assert notes["false_alerts_effects"]["foreign trouble"] is False
