"""Which tenants are noisy, from when on, and which spill queue they get."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.fairness.noisy_tenants import (
    Came,
    LoadSample,
    NoisyTenantMeter,
    NoisyTenantRule,
    Rates,
    TenantLimit,
    over_limit,
    spill_index,
)

RULE = NoisyTenantRule(held=25.6, most=4)


def look(held: Mapping[str, int] | None = None, *, others: bool = True) -> LoadSample:
    """A moment in which tenants hold so many deliveries in flight, and no fresh one waits."""
    return LoadSample(held=held or {}, others_wait=others)


def named(
    meter: NoisyTenantMeter, seen: LoadSample, passed_s: float, spilled: list[str] | None = None
) -> list[str]:
    """Return the tenants to reroute."""
    return [noisy.tenant for noisy in meter.look(seen, passed_s, spilled or [])]


def test_ten_seconds_over_a_tenth_make_a_tenant_noisy() -> None:
    """Fault 71: not before, and only the one that holds more."""
    meter = NoisyTenantMeter(RULE)

    found = [named(meter, look({"a": 26, "b": 25}), 0.5) for _ in range(20)]

    assert found == [[]] * 19 + [["a"]]


def test_nobody_is_noisy_while_nobody_else_waits() -> None:
    """Idle capacity may be used."""
    meter = NoisyTenantMeter(RULE)

    assert [named(meter, look({"a": 200}, others=False), 1.0) for _ in range(30)] == [[]] * 30


def test_a_backlog_that_fills_a_lane_hides_the_tenants_behind_it() -> None:
    """Fault 71: a quiet tenant in the same lane is not in hand yet, however idle the worker is."""
    meter = NoisyTenantMeter(RULE)
    behind = LoadSample(held={"a": 3, "b": 200}, backlogged={"a"})

    assert [named(meter, behind, 5.0) for _ in range(2)] == [[], ["a"]]
    assert meter.look(behind, 5.0, ()) == [("a", "its backlog fills its lane")]


def test_a_moment_of_quiet_takes_off_what_a_moment_of_noise_adds() -> None:
    """A burst of nine seconds is not noise; nor is noise for half of the time."""
    meter = NoisyTenantMeter(RULE)
    for _ in range(9):
        assert named(meter, look({"a": 100}), 1.0) == []
    for _ in range(40):
        assert named(meter, look({"a": 1}), 1.0) == []
        assert named(meter, look({"a": 100}), 1.0) == []
    for _ in range(9):
        named(meter, look(), 1.0)
    for _ in range(9):
        assert named(meter, look({"a": 100}), 1.0) == []
    assert named(meter, look({"a": 100}), 1.0) == ["a"]


def test_at_most_four_are_rerouted_the_noisiest_first() -> None:
    """A fifth waits until one came back."""
    meter = NoisyTenantMeter(RULE)
    held = {f"t{n}": 30 + n for n in range(6)}

    assert named(meter, look(held), 10.0) == ["t5", "t4", "t3", "t2"]
    spilled = ["t5", "t4", "t3", "t2"]
    assert named(meter, look(held), 1.0, spilled) == []
    assert named(meter, look(held), 1.0, spilled[1:]) == ["t1"]


def test_a_tenant_that_is_never_rerouted_takes_no_place() -> None:
    """Events without a tenant, and tenants with a lane of their own, cannot be led by a binding."""
    meter = NoisyTenantMeter(RULE)
    held = {f"t{n}": 30 + n for n in range(6)} | {"": 500, "own": 400}

    found = meter.look(look(held), 10.0, (), {"", "own"})

    assert [noisy.tenant for noisy in found] == ["t5", "t4", "t3", "t2"]


def test_a_tenant_over_a_limit_is_rerouted_for_it() -> None:
    """After ten seconds, with the reason, however many slots it has."""
    meter = NoisyTenantMeter(RULE)
    seen = LoadSample(held={}, over_limit={"a": "brings more than its 5 events/s"})

    assert meter.look(seen, 9.0, ()) == []
    assert meter.look(seen, 1.0, ()) == [("a", "brings more than its 5 events/s")]


def test_the_reason_describes_the_tenants_load() -> None:
    """The reason names numbers for an administrator."""
    meter = NoisyTenantMeter(RULE)

    [noisy] = meter.look(look({"a": 99}), 10.0, ())

    assert noisy.reason == "holds 99 requests in flight while others wait"


@pytest.mark.parametrize(
    ("limit", "per_s", "backlog", "fault"),
    [
        (TenantLimit(), 1e9, 1e9, None),
        (TenantLimit(events_per_s=5), 5.0, None, None),
        (TenantLimit(events_per_s=5), 5.1, None, "brings more than its 5 events/s"),
        (TenantLimit(backlog=100), 0.0, 100.0, None),
        (TenantLimit(backlog=100), 0.0, 101.0, "has a backlog of more than 100 events"),
        (TenantLimit(backlog=100), 0.0, None, None),
    ],
)
def test_a_limit_is_passed_by_more_than_it_says(
    limit: TenantLimit, per_s: float, backlog: float | None, fault: str | None
) -> None:
    """A value at the limit is within it; an unknown backlog is not over it."""
    assert over_limit(limit, per_s, backlog) == fault


def test_a_tenant_fills_its_lane_with_more_than_a_third_of_new_events() -> None:
    """Two floods in one lane, or one under two names, are both seen; a handful of events shows nothing."""
    lanes = {"a": "one", "b": "one", "c": "two", "d": "two", "e": "three"}
    came = Came({"a": 60, "b": 40, "c": 50, "d": 50, "e": 5, "unknown": 90}, lambda t: lanes.get(t, ""))

    assert came.leaders(20) == {"a": "one", "b": "one", "c": "two", "d": "two"}
    three = Came({"a": 34, "b": 33, "c": 33}, lambda _: "one")
    assert three.leaders(20) == {"a": "one"}
    assert came.share("b") == pytest.approx(0.4)
    assert came.share("nobody") == 0.0


@given(st.text(), st.integers(1, 16))
def test_every_worker_names_the_same_spill_queue(tenant: str, queues: int) -> None:
    """Two bindings of a tenant would make two copies of each event: the queue follows from the name."""
    assert 0 <= spill_index(tenant, queues) < queues
    assert spill_index(tenant, queues) == spill_index(str(tenant), queues)
    assert spill_index("acme", 4) == 2


def test_a_rate_is_the_mean_of_some_seconds() -> None:
    """A momentary burst is not a rate; a steady stream is one, even in lumps; an ended one is forgotten."""
    rates = Rates()

    assert rates.look({"a": 50}, 0.5)["a"] == pytest.approx(10)
    steady = [rates.look({"a": 12 * (n % 2)}, 0.5) for n in range(200)]
    assert steady[-1]["a"] == pytest.approx(12, abs=1)
    assert [rates.look({}, 1.0) for _ in range(60)][-1] == {}
