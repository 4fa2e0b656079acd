"""One endpoint that is slow, silent or saturated."""

from __future__ import annotations

import pytest

from consumer.core.endpoint.admission import Hold, Send, Wait
from tests.support.builders.endpoints import OK, admit, endpoint
from tests.support.fakes import START


def test_a_slow_endpoint_is_not_sent_from_the_event() -> None:
    """More than a tenth of the last 20 requests took a second: held, but not as a delivery message."""
    shop = endpoint()
    for duration_s in [0.1] * 17 + [1.0] * 3:
        shop.latency.learn(duration_s, START, taken=True)

    fresh, message = admit(shop, START, fresh=True), admit(shop, START)

    assert isinstance(fresh, Hold)
    assert (fresh.reason, fresh.defer.until) == ("slow", START)
    assert isinstance(message, Send)


def test_an_endpoint_that_has_not_answered_yet_is_as_slow_as_its_silence() -> None:
    """Fault 53: requests that hang count as latency before the first of them has ended."""
    silent = endpoint()
    assert [type(admit(silent, START, fresh=True)) for _ in range(4)] == [Send] * 4

    early = admit(silent, START + 0.1)
    late = admit(silent, START + 2.0)
    fresh = admit(silent, START + 2.0, fresh=True)

    assert isinstance(early, Wait), "a tenth of a second is nothing yet"
    assert isinstance(late, Hold)
    assert late.defer.until == pytest.approx(START + 2.0 + 2.0 / 4), "the next slot of four, at 2 s a request"
    assert isinstance(fresh, Hold)
    assert fresh.reason == "slow"

    silent.learn(OK, 0, START + 2.0, 0.5)

    assert silent.latency.is_slow is False
    silent.slots.release()
    assert isinstance(admit(silent, START + 2.1, fresh=True), Send), "an answer ends the silence"


def test_idleness_is_no_silence() -> None:
    """An endpoint that had nothing to do is not slow."""
    idle = endpoint()
    admit(idle, START)
    idle.learn(OK, 0, START + 0.05, 0.5)
    idle.slots.release()

    assert isinstance(admit(idle, START + 3600.0, fresh=True), Send)
    assert isinstance(admit(idle, START + 3600.1, fresh=True), Send)


def test_a_saturated_endpoint_gives_out_reservations_at_its_own_pace() -> None:
    """All slots taken and no slot soon: spaced by latency / concurrency, never at one time."""
    shop = endpoint(concurrency=2)
    for _ in range(50):
        shop.latency.learn(0.8, START, taken=True)
    assert isinstance(admit(shop, START), Send)
    assert isinstance(admit(shop, START), Send)

    holds = [admit(shop, START) for _ in range(5)]

    times = [hold.defer.until for hold in holds if isinstance(hold, Hold)]
    assert len(times) == 5
    assert times == pytest.approx([times[0] + n * 0.4 for n in range(5)], abs=0.01)
    assert times[0] >= START + 0.39
