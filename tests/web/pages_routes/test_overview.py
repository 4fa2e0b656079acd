"""The overview finds every trouble in the health of the parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.core.store.tokens import Scope
from consumer.core.tools.daemon_status import MetricsPage, status
from consumer.web.pages.troubles import Unreached, troubles
from consumer.web.pages.views.overview import ParkedCounts
from consumer.web.pages.views.parts import Tone
from consumer.web.pages_routes.overview import facts
from consumer.web.services.daemon import DaemonHealth, PartHealth, WorkerHealth
from tests.support.visitor import Visitor
from tests.support.web import Api

WELL = WorkerHealth(
    at="127.0.0.1:8080",
    ready=True,
    reasons=(),
    status=status(MetricsPage(0.0, ()), MetricsPage(1.0, ())),
    workers=2,
    loop_lag_s=0.0,
    oldest_delivery_s=None,
    is_pressed=False,
    rerouted_tenants=0,
    history_dropped=0,
)
UP = PartHealth(is_up=True)


def headlines(worker: WorkerHealth, broker: PartHealth = UP) -> list[str]:
    """Return the sentences of the overview."""
    health = DaemonHealth(
        store=UP,
        broker=broker,
        worker=worker,
        worker_detail="",
        unreached=None,
        parked_gap=0,
    )
    return [each.headline for each in troubles(facts(0.0, [], ParkedCounts(), health))]


def test_each_fault_of_a_part_has_a_sentence() -> None:
    """A worker that is away, not ready, late or held back; a broker that is away; rerouted tenants."""
    assert headlines(WELL) == []
    assert headlines(WELL, PartHealth(is_up=False, detail="away")) == [
        "The broker cannot be reached from here."
    ]
    assert headlines(replace(WELL, ready=False)) == ["A worker is not ready."]
    pressed = replace(WELL, ready=False, is_pressed=True, reasons=("the broker blocks publishers",))
    assert headlines(pressed) == ["The broker holds back: workers have started nothing new."]
    assert headlines(replace(WELL, rerouted_tenants=2)) == ["2 tenants are rerouted."]
    assert headlines(replace(WELL, oldest_delivery_s=90.0)) == [
        "The oldest delivery in a worker's hands is 2 min old."
    ]


@pytest.mark.parametrize(
    ("consuming", "ever", "headline"),
    [
        (0, False, "No worker has run with this broker yet: nothing is delivered."),
        (0, True, "No worker is running: nothing is delivered, and events wait in the broker."),
        (2, True, "2 workers take deliveries, and this page cannot read the numbers of any."),
        (
            None,
            True,
            "Neither a worker nor the broker answers: it is not known whether anything is delivered.",
        ),
    ],
)
def test_a_worker_that_cannot_be_asked(*, consuming: int | None, ever: bool, headline: str) -> None:
    """The broker's consumers decide between an alarm and a note; each has a remedy."""
    gone = Unreached(why="It is away.", remedy="Start it.", consuming=consuming, has_ever_run=ever)
    health = DaemonHealth(store=UP, broker=UP, worker=None, worker_detail="", unreached=gone, parked_gap=None)

    (trouble,) = troubles(facts(0.0, [], ParkedCounts(), health))

    assert trouble.headline == headline
    assert trouble.detail.endswith("It is away. Start it.")
    assert (trouble.tone is Tone.WARN) == bool(consuming)


async def test_the_pages_of_an_empty_installation(api: Api) -> None:
    """Each page is there before the first event, and says what is missing."""
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.READ))
        pages = {
            "/": "Neither a worker nor the broker answers",
            "/endpoints": "No endpoint fits",
            "/parked": "Nothing is parked.",
            "/parked/resend": "No entry can be sent.",
            "/jobs": "No job was made so far.",
            "/tenants": "Neither a worker nor the broker answers",
            "/search?q=nothing": "Nothing has this id or name.",
        }
        for path, text in pages.items():
            assert text in await visitor.see(path), path
        for path in ("/parked/prk_0", "/jobs/job_0", "/events/evt_0", "/events/a%2Fb"):
            assert "404" in await visitor.see(path, 404)
        assert "since" in await visitor.see("/parked?since=soon", 422)
        assert "reason" in await visitor.see("/parked?reason=none", 422)
