"""The simulation of many workers: a small run, its difference from one shared queue, and its picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from bench.fairness_sim.__main__ import simulate
from bench.fairness_sim.cluster import Cluster, Shape
from bench.fairness_sim.load import CLASSES, Arrival, TenantClass, arrivals
from bench.fairness_sim.picture import seconds, svg, table, waits_of

SMALL = (
    TenantClass(name="quiet", count=30, events_per_s=0.5, latency_s=0.1),
    TenantClass(name="flood", count=1, events_per_s=150.0, latency_s=0.1, since_s=2.0),
)
SHAPE = Shape(workers=2, slots=5, lanes=4)  # 100 a second; the load is 165


def test_a_thousand_tenants_are_simulated() -> None:
    """As many as it says, and the same events on every run."""
    assert sum(kind.count for kind in CLASSES) == 1_000
    first = list(arrivals(SMALL, 3.0, 1))

    assert first == list(arrivals(SMALL, 3.0, 1))
    assert first == sorted(first)
    assert {a.tenant for a in arrivals(SMALL, 60.0, 1)} == {
        *(f"quiet-{n:03d}" for n in range(30)),
        "flood-000",
    }


def test_every_event_is_started_once_or_left() -> None:
    """Nothing is lost or doubled, moved ones included, and nothing starts before it was published."""
    events = list(arrivals(SMALL, 30.0, 2))
    cluster = Cluster(SHAPE, fair=True)

    cluster.run(events)
    left = cluster.unstarted(30.0)

    seen = sorted((at, tenant) for at, tenant, _ in (*cluster.waits, *left))
    assert seen == sorted((event.at, event.tenant) for event in events)
    assert min(wait_s for *_, wait_s in cluster.waits) >= 0
    assert cluster.spills >= 1


def test_no_worker_starts_more_than_it_has_slots() -> None:
    """Ten slots in all: of twenty events at once ten start, and ten when those end."""
    cluster = Cluster(SHAPE, fair=True)

    cluster.run([*(Arrival(0.0, f"t-{n}", 1.0) for n in range(20)), Arrival(1.5, "late-1", 1.0)])

    waits = [round(wait_s, 6) for at, _, wait_s in cluster.waits if at == 0.0]
    assert waits.count(0.0) == 10
    assert 5 <= waits.count(1.0) <= 10  # lanes are dealt out one by one, so a worker may have more in hand


def test_quiet_tenants_wait_for_a_flood_in_one_queue_and_not_here() -> None:
    """A quiet tenant never notices a noisy one."""
    found = simulate(SMALL, SHAPE, 40.0, 20.0)["quiet"]

    assert found["one shared queue"].quantiles_s[1] > 5
    assert found["Leveret"].quantiles_s[1] < 0.2


def test_the_picture_and_the_table_show_every_class() -> None:
    """Waits per class of tenants, in both ways."""
    waits = {"one shared queue": waits_of([1.0, 2.0]), "Leveret": waits_of([0.004])}

    drawn = svg({"quiet": waits}, "a <title>")

    texts = ["".join(node.itertext()) for node in ET.fromstring(drawn).iter()]  # noqa: S314 - it was drawn a line above
    assert {"quiet", "one shared queue", "Leveret", "p95 2.0 s", "p95 4 ms", "a <title>"} <= set(texts)
    assert "| quiet | Leveret | 1 | 4 ms | 4 ms | 4 ms |" in table({"quiet": waits})


def test_a_wait_is_written_as_one_reads_it() -> None:
    """Milliseconds below a second; nothing to draw is an error."""
    assert [seconds(0.0254), seconds(1.26)] == ["25 ms", "1.3 s"]
    with pytest.raises(ValueError, match="no event"):
        waits_of([])
