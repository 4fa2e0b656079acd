"""The series of tenants: bounded in number, and never mixed up with one another or with the rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.fairness.queue import Standing
from consumer.core.model import (
    ParkReason,
)
from metrics.series import OTHER, own_label, tenant_of
from tests.support.fakes import START
from tests.support.flow.observer import ObserverDesk
from tests.support.worker import event


def test_a_tenant_with_a_subscription_begins_at_zero() -> None:
    """S1-6: a counter that appears with 60 hides its first sixty from increase()."""
    desk = ObserverDesk()

    desk.observe.tenants_known(["acme", "beta"])

    for name in ("tenant_jobs_total", "tenant_parked_total", "tenant_replayed_total"):
        assert desk.count(name, tenant="beta") == 0
    assert desk.count("tenants", series="own") == 2


def test_entries_that_are_parked_now_are_shown_by_tenant() -> None:
    """S1-6: purged, expired and replayed entries count no more, and ``other`` is the largest, no sum."""
    desk = ObserverDesk()
    desk.observe.tenants_known(["acme"])

    desk.observe.tenants_parked({"acme": 60, "x": 30, "y": 40})
    assert desk.count("tenant_parked_entries", tenant="acme") == 60
    assert desk.count("tenant_parked_entries", tenant="other") == 40

    desk.observe.tenants_parked({"x": 1})
    assert desk.count("tenant_parked_entries", tenant="acme") == 0
    assert desk.count("tenant_parked_entries", tenant="other") == 1


def test_deliveries_in_flight_and_reroutes_are_shown_by_tenant() -> None:
    """A tenant without a series of its own counts in ``other``; a number that is no more becomes 0."""
    desk = ObserverDesk()
    desk.observe.tenants_known(["acme"])
    desk.observe.tenants_wait({"x": Standing(1, 0, 0)}, START)
    fairness = desk.observe.fairness
    fairness.rerouted("acme", "leveret.spill.00", "it is noisy", bound=True)
    fairness.adopted("x", "leveret.spill.01")

    def shown(name: str) -> list[float | None]:
        return [desk.count(f"tenant_{name}", tenant=tenant) for tenant in ("acme", "other")]

    desk.observe.tenants_hold({"acme": 5, "x": 1, "y": 2}, fairness.around)
    assert (shown("in_flight_deliveries"), shown("rerouted")) == ([5, 3], [1, 1])

    fairness.returned("acme", "leveret.spill.00")
    desk.observe.tenants_hold({}, fairness.around)
    assert (shown("in_flight_deliveries"), shown("rerouted")) == ([0, 0], [0, 1])


def test_the_view_of_each_tenant() -> None:
    """S1-9: last processed, rounds without, priority, total and batch; unknown tenants are in other."""
    desk = ObserverDesk()
    desk.observe.tenants_known(["acme", "beta"])
    desk.observe.event_matched(event())

    desk.observe.tenants_wait(
        {
            "acme": Standing(waiting=7, rounds=0, consecutive=2),
            "x": Standing(waiting=1, rounds=3, consecutive=0),
            "y": Standing(waiting=2, rounds=1, consecutive=0),
        },
        START + 0.9,
    )

    def shown(tenant: str) -> list[float | None]:
        names = ("waiting_messages", "rounds_waited", "priority", "consecutive_jobs", "jobs_total")
        return [desk.count(f"tenant_{name}", tenant=tenant) for name in names]

    assert shown("acme") == [7, 0, 5, 2, 1]
    assert shown("beta") == [0, 0, 5, 0, 0]
    assert shown("other") == [3, 3, 2, 0, 0]
    assert desk.count("tenant_last_job_timestamp_seconds", tenant="acme") == START
    assert desk.count("tenant_last_job_timestamp_seconds", tenant="beta") == 0


def test_a_tenant_that_is_served_no_more_keeps_its_last_time() -> None:
    """S1-9: last processed stays while nothing is processed; an ended backlog counts as waiting no longer."""
    desk = ObserverDesk()
    desk.observe.event_matched(event())
    desk.observe.tenants_wait({"acme": Standing(1, 2, 0)}, START)

    desk.observe.tenants_wait({}, START + 60)

    assert desk.count("tenant_last_job_timestamp_seconds", tenant="acme") == START
    assert desk.count("tenant_waiting_messages", tenant="acme") == 0
    assert desk.count("tenant_priority", tenant="acme") == 5


def test_the_tenants_of_an_instance_are_bounded_in_metrics() -> None:
    """100 tenants have a series, the rest share one and are counted; no job is lost (fault 78)."""
    desk = ObserverDesk()

    for number in range(1000):
        desk.observe.event_matched(event(tenant=f"tenant-{number}"))
    desk.observe.event_matched(event(tenant="tenant-0"))
    desk.observe.event_matched(event(tenant="tenant-999"))

    [family] = [f for f in desk.series.registry.collect() if f.name == "leveret_tenant_jobs"]
    values = {sample.labels["tenant"]: sample.value for sample in family.samples}
    assert len(values) == 101
    assert values["tenant-0"] == 2
    assert values["other"] == 901
    assert sum(values.values()) == 1002
    assert len(desk.observe._tenant_jobs) == 101  # and the rest
    assert (desk.count("tenants", series="own"), desk.count("tenants", series="other")) == (100, 900)


def test_the_busiest_tenants_have_series_of_their_own() -> None:
    """S1-9: a flooding tenant has a name within a minute; one that lost its place is in other, all of it."""
    desk = ObserverDesk(tenants=2)
    desk.observe.tenants_known(["acme", "beta", "flood"])
    desk.observe.tenants_wait({}, START)
    families = {family.name for family in desk.series.registry.collect()}

    def jobs(**counts: int) -> None:
        for tenant, count in counts.items():
            for _ in range(count):
                desk.observe.tenant_job(tenant)

    jobs(acme=100, flood=500)
    desk.observe.tenants_wait({}, START + 59)
    assert desk.count("tenant_jobs_total", tenant="flood") is None
    desk.observe.tenants_wait({"flood": Standing(7, 1, 0)}, START + 60)
    jobs(acme=1, beta=2, flood=3)
    desk.observe.tenants_wait({"flood": Standing(5, 1, 0)}, START + 61)

    assert desk.count("tenant_jobs_total", tenant="flood") == 3
    assert desk.count("tenant_jobs_total", tenant="acme") == 101
    assert desk.count("tenant_jobs_total", tenant="other") == 502
    assert desk.count("tenant_waiting_messages", tenant="flood") == 5
    samples = [sample for family in desk.series.registry.collect() for sample in family.samples]
    assert [sample for sample in samples if sample.labels.get("tenant") == "beta"] == []
    assert {family.name for family in desk.series.registry.collect()} == families
    assert (desk.count("tenants", series="own"), desk.count("tenants", series="other")) == (2, 1)


def test_a_tenant_with_parked_entries_keeps_its_series() -> None:
    """S1-10: the count of the alert stays with its tenant, until it is replayed or a day is over."""
    desk = ObserverDesk(tenants=1)
    desk.observe.tenants_known(["down", "busy"])
    desk.observe.tenants_wait({}, START)

    def minute(now: float) -> bool:
        for _ in range(100):
            desk.observe.tenant_job("busy")
        desk.observe.tenants_wait({}, now)
        return desk.count("tenant_jobs_total", tenant="down") is not None

    desk.observe.parked(ParkReason.EXHAUSTED, "HTTP 503", subscription_id="sub_1", tenant="down")
    assert minute(START + 60)
    assert minute(START - 3600)  # the clock was set back: no reason to wait for an hour
    assert minute(START - 3540)
    desk.observe.replayed("down", None)
    assert not minute(START - 3480)
    assert desk.count("tenant_parked_total", tenant="busy") == 0


def test_a_tenant_named_other_is_not_counted_as_the_rest() -> None:
    """Its series are its own, with or without a place, and so are those of `=other`."""
    desk = ObserverDesk(tenants=2)
    desk.observe.tenants_known(["other", "=other", "third"])
    desk.observe.tenants_wait({}, START - 1)
    for tenant, count in {"other": 3, "=other": 5, "third": 200}.items():
        for _ in range(count):
            desk.observe.tenant_job(tenant)
    desk.observe.parked(ParkReason.EXHAUSTED, "x", subscription_id="sub_1", tenant="other")
    desk.observe.tenants_wait({"other": Standing(4, 1, 0), "third": Standing(9, 1, 0)}, START)

    def jobs(label: str) -> float | None:
        return desk.count("tenant_jobs_total", tenant=label)

    assert [jobs(label) for label in ("=other", "==other", "other")] == [3, 5, 200]
    assert desk.count("tenant_parked_total", tenant="=other") == 1
    assert desk.count("tenant_parked_total", tenant="other") == 0
    assert desk.count("tenant_waiting_messages", tenant="=other") == 4
    assert desk.count("tenant_waiting_messages", tenant="other") == 9

    for _ in range(300):
        desk.observe.tenant_job("third")
    desk.observe.tenants_wait({}, START + 61)  # the busiest tenant gets the place of one that parked nothing
    for tenant in ("third", "=other", "other"):
        desk.observe.tenant_job(tenant)

    assert [jobs(label) for label in ("third", "=other", "other")] == [1, 4, 501]


@given(
    st.sampled_from(["other", "=other", "==other", "another", "acme", "=", "other="]) | st.text(max_size=8)
)
def test_no_tenant_has_the_label_of_the_rest_or_of_another(tenant: str) -> None:
    """A label contains its tenant."""
    assert own_label(tenant) != OTHER
    assert tenant_of(own_label(tenant)) == tenant
