"""One endpoint's breaker: which deliveries it holds, and which probe goes."""

from __future__ import annotations

from itertools import pairwise

from consumer.core.endpoint.admission import HELD_INTERVAL_S, Hold, Send
from consumer.core.endpoint.breaker import BreakerPolicy, Closed, Open
from tests.support.builders.endpoints import BLOCKED, FAILED, OK, admit, answered, endpoint, open_breaker
from tests.support.fakes import START


def test_five_failures_open_and_one_probe_closes() -> None:
    """CLOSED, OPEN for 30 s, one probe, CLOSED again after its success (S3-1)."""
    shop = endpoint()
    open_breaker(shop, START)

    held = admit(shop, START + 29.9)
    probe = admit(shop, START + 30)
    behind = admit(shop, START + 30.1)

    assert isinstance(held, Hold)
    assert isinstance(probe, Send)
    assert isinstance(behind, Hold)
    assert shop.state == "probing"
    answered(shop, OK, START + 31, probe.epoch)
    assert shop.state == "closed"


def test_a_failed_probe_opens_again() -> None:
    """The next probe goes after a longer cooldown (S3-1)."""
    shop = endpoint()
    open_breaker(shop, START)
    probe = admit(shop, START + 30)
    assert isinstance(probe, Send)

    answered(shop, FAILED, START + 30, probe.epoch)

    assert isinstance(shop.breaker, Open)
    assert isinstance(admit(shop, START + 89.9), Hold)
    assert isinstance(admit(shop, START + 90), Send)


def test_held_deliveries_come_back_spread_after_the_cooldown() -> None:
    """Deferred to the end of the cooldown and later, each to its own reservation: no stampede (fault 55)."""
    shop = endpoint()
    open_breaker(shop, START)

    holds = [admit(shop, START + 1) for _ in range(100)]

    times = [hold.defer.until for hold in holds if isinstance(hold, Hold)]
    assert len(times) == 100
    assert times[0] >= START + 30
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) >= HELD_INTERVAL_S * 0.99
    assert {hold.reason for hold in holds if isinstance(hold, Hold)} == {"breaker"}


def test_a_probe_waits_for_the_end_of_retry_after() -> None:
    """503 with ``Retry-After: 3600`` opens the breaker; no probe goes before (SW-40)."""
    shop = endpoint(concurrency=5)
    for _ in range(5):
        assert isinstance(admit(shop, START), Send)
    for _ in range(5):
        answered(shop, FAILED._replace(retry_after="3600"), START)
    assert isinstance(shop.breaker, Open)

    held = admit(shop, START + 31)

    assert isinstance(held, Hold)
    assert held.defer.until >= START + 3600
    assert isinstance(admit(shop, START + 3600), Send)


def test_a_probe_takes_a_slot_like_any_other() -> None:
    """While every slot hangs no further probe goes, however short its timeout: the bound holds."""
    shop = endpoint(concurrency=2, breaker=BreakerPolicy(failures=1, cooldown_s=0.01, probe_timeout_s=0.1))
    assert isinstance(admit(shop, START), Send)
    assert isinstance(admit(shop, START), Send)
    answered(shop, FAILED, START)

    probe, second = admit(shop, START + 1), admit(shop, START + 2)

    assert isinstance(probe, Send)
    assert isinstance(second, Hold)
    shop.slots.release()
    assert isinstance(admit(shop, START + 3), Send)


def test_failures_zero_switches_the_breaker_off() -> None:
    """However many failures, requests go (outside contract)."""
    shop = endpoint(breaker=BreakerPolicy(failures=0))

    for n in range(100):
        assert isinstance(admit(shop, START + n), Send)
        answered(shop, FAILED, START + n)


def test_our_own_faults_do_not_count_for_the_breaker() -> None:
    """A blocked address is no failure of the endpoint (S1-7)."""
    shop = endpoint()

    for _ in range(20):
        assert isinstance(admit(shop, START), Send)
        answered(shop, BLOCKED, START)

    assert shop.breaker == Closed()
