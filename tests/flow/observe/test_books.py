"""The series of the books are brought up to date at each scrape, all from one moment."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from consumer.core.books import Books, Origin, Step
from consumer.flow.observe.observer import Observer
from metrics.series import Series
from tests.support.fakes import RecordingLog
from tests.support.flow.books import rest

SHOWN = """
leveret_targets_owed_total 9.0
leveret_targets_ended_total{verdict="delivered"} 2.0
leveret_targets_ended_total{verdict="parked"} 1.0
leveret_targets_ended_total{verdict="cancelled"} 0.0
leveret_targets_waiting 3.0
leveret_targets_in_flight 2.0
leveret_targets_interrupted_total{source="lane"} 1.0
leveret_targets_interrupted_total{source="waiting"} 0.0
leveret_waiting_messages 3.0
"""


def test_a_scrape_shows_the_books_as_they_are() -> None:
    """Also what an earlier process counted."""
    books = Books()
    books.add(Origin.OWED, Step.OPENED, 4)
    registry = CollectorRegistry()
    Observer(Series(registry), RecordingLog()).books.follow(books)
    generate_latest(registry)

    books.add(Origin.OWED, Step.OPENED, 5)
    for step, count in ((Step.DELIVERED, 2), (Step.PARKED, 1), (Step.STORED, 3), (Step.RETURNED, 1)):
        books.add(Origin.OWED, step, count)
    for _ in range(3):
        books.message_stored()

    lines = generate_latest(registry).decode().splitlines()
    assert set(SHOWN.split("\n")[1:-1]) <= set(lines)
    assert rest(books.balance()) == 0
