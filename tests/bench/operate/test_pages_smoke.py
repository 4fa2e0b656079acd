"""The proofs of the pages in small, in one browser; and the race of deliveries under API requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.operate import accessible, delivery_cost, night, scripts
from bench.operate.browser import browser
from bench.operate.ground import UNLIMITED, laid_out
from bench.operate.hostile_words import hostile_words
from bench.prove import Bench, run_proof
from consumer.edges.private_broker import BrokerEndpoint
from tests.support.processes.daemon import Daemon
from tests.support.servers.raw_server import RawServer
from tests.support.system.api import serving
from tests.support.system.publisher import EventPublisher

WORDS = 1


async def test_a_night_in_small(tmp_path: Path, vhost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of an operator who uses only the keyboard succeeds."""
    monkeypatch.setattr(night, "ACTION_S", 0.1)
    async with Daemon(tmp_path, vhost, UNLIMITED) as daemon:
        await daemon.start()
        async with serving(daemon) as api, browser() as started, EventPublisher(vhost) as publisher:
            lived = await night.one_night(started, api, publisher, "keyboard", parked=4)

    assert (lived.failed, lived.steps) == ([], 9)
    assert lived.cause_s < 1e6


async def test_pages_are_accessible_and_escape_in_small(tmp_path: Path, vhost: str) -> None:
    """Axe on the last pages of each view, and a hostile string on every page that shows it."""
    bench = Bench(folder=tmp_path / "run", scale=0.1, amqp_url=vhost)

    async with laid_out(bench) as ground, browser() as started, EventPublisher(vhost) as publisher:
        (axe,) = await accessible.measure(bench, ground, started)
        async with RawServer(scripts.answer_hostile) as endpoint:
            planted = await scripts.plant(ground.api, publisher, endpoint.port, hostile_words(WORDS))
            found = await scripts.look_around(bench, ground.api, planted, started)

    assert (axe.value, axe.valid) == (0, True), bench.notes["accessibility_found"]
    assert axe.n >= 4
    assert found == []


async def test_deliveries_race_with_and_without_requests(
    tmp_path: Path, vhost: str, broker: BrokerEndpoint
) -> None:
    """Both ways to run the API are measured; so few deliveries show nothing of its cost."""
    scheme, rest = broker.management_url.split("://")
    url = f"{scheme}://{broker.user}:{broker.password}@{rest}"
    bench = Bench(folder=tmp_path / "run", scale=0.002, amqp_url=vhost, management_url=url)

    figures = {figure.name: figure for figure in await run_proof(delivery_cost.PROOF, bench)}

    assert "operate_delivery_cost_error" not in bench.notes
    assert set(figures) == {"delivery_cost_serve", "delivery_cost_run"}
    assert all((figure.value or 0) > 0 and figure.n == 40 for figure in figures.values())
