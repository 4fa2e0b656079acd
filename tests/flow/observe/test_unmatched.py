"""Unmatched events are visible, and a flood of them fills neither the log nor the memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.repeats import AGAIN_S, FAULTS_MAX
from tests.support.flow.observer import ObserverDesk
from tests.support.worker import event

MOMENTS = st.lists(st.tuples(st.floats(0, 200), st.sampled_from("ab"), st.sampled_from("xy")), max_size=40)


def see(desk: ObserverDesk, tenant: str, kind: str, now: float) -> None:
    """Let an unmatched event pass at *now*."""
    desk.observe.unmatched.event(event(tenant=tenant, type=kind), now)


def warnings(desk: ObserverDesk) -> list[dict[str, Any]]:
    """Return the fields of each warning."""
    return desk.log.events("event.unmatched")


@given(MOMENTS)
def test_a_warning_per_tenant_and_type_each_minute(moments: list[tuple[float, str, str]]) -> None:
    """The first event of a tenant and type warns, the others within its minute do not; each is counted."""
    desk, due, left = ObserverDesk(), dict[tuple[str, str], float](), Counter[tuple[str, str]]()
    for number, (now, tenant, kind) in enumerate(sorted(moments), start=1):
        see(desk, tenant, kind, now)
        if now - due.get((tenant, kind), -AGAIN_S) >= AGAIN_S:
            due[tenant, kind] = now
            assert warnings(desk)[-1].get("suppressed", 0) == left.pop((tenant, kind), 0)
        else:
            left[tenant, kind] += 1
        assert desk.count("events_total", outcome="unmatched") == number


def test_the_last_events_get_a_warning_too() -> None:
    """A minute after them, which counts them; then no further one."""
    desk = ObserverDesk()
    for number in range(4):
        see(desk, "acme", "x", float(number))
    desk.observe.settle_faults(3.0 + AGAIN_S - 0.1)
    assert len(warnings(desk)) == 1

    for _ in range(2):
        desk.observe.settle_faults(3.0 + AGAIN_S)

    assert [line.get("suppressed", 0) for line in warnings(desk)] == [0, 3]


def test_a_flood_of_types_is_bounded() -> None:
    """A producer with a new type in each event causes a thousand warnings a minute at most."""
    desk = ObserverDesk()
    for number in range(3 * FAULTS_MAX):
        see(desk, "acme", f"t{number}", number * 0.001)
    assert len(warnings(desk)) == FAULTS_MAX
    assert desk.count("events_total", outcome="unmatched") == 3 * FAULTS_MAX
    see(desk, "acme", "late", AGAIN_S + 3)
    assert warnings(desk)[-1]["suppressed"] == 2 * FAULTS_MAX
