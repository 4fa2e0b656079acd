"""Objects that are built early report to those that are built later."""

from __future__ import annotations

from consumer.core.listeners import Listeners


def test_each_listener_hears_each_event_in_the_order_of_their_joining() -> None:
    """Without a listener nothing happens; one that joins later hears later events only."""
    heard: list[tuple[str, int]] = []
    numbers: Listeners[[int]] = Listeners()
    numbers.notify(1)
    numbers.add(lambda number: heard.append(("first", number)))
    numbers.notify(2)
    numbers.add(lambda number: heard.append(("second", number)))

    numbers.notify(3)

    assert heard == [("first", 2), ("first", 3), ("second", 3)]
