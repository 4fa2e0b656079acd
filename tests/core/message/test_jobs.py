"""Replay jobs: which entries belong to one, how it is written, and when the settings make one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.message.attempt_headers import Earlier
from consumer.core.message.jobs import (
    BATCH_MAX,
    STEERS,
    AutoReplay,
    JobRow,
    JobState,
    LastMade,
    Origin,
    ReplayJob,
    due_jobs,
    job_as_dict,
    job_id,
    read_spec,
    write_spec,
)
from consumer.core.message.parked import ParkedEntry
from consumer.core.message.parked_filter import Filter
from consumer.core.model import ParkReason
from tests.support.builders.parked import AT, delivery

FILTERS = st.builds(
    Filter,
    ids=st.none() | st.frozensets(st.text(max_size=5), max_size=3),
    tenant=st.none() | st.text(max_size=5),
    reason=st.none() | st.sampled_from([each.value for each in ParkReason]),
    since=st.none() | st.floats(0, 4e9),
)
JOBS = st.builds(
    ReplayJob,
    id=st.just("job_0123456789ab"),
    chosen=FILTERS,
    created=st.floats(0, 4e9),
    rate_per_s=st.none() | st.floats(0.01, 1e5),
    to=st.none() | st.just("sub_1"),
    origin=st.sampled_from(Origin),
    reasons=st.frozensets(st.sampled_from([each.value for each in ParkReason])),
    replays_below=st.none() | st.integers(1, 9),
    closed_only=st.booleans(),
)


def job(**more: Any) -> ReplayJob:
    """A job over all entries."""
    fields: dict[str, Any] = {"id": "job_0123456789ab", "chosen": Filter(), "created": AT + 1}
    return ReplayJob(**fields | more)


def entry(**more: Any) -> ParkedEntry:
    """A parked delivery of acme."""
    fields: dict[str, Any] = {
        "id": "prk_1",
        "reason": ParkReason.EXHAUSTED,
        "detail": "HTTP 503",
        "parked_at": AT,
        "ttl_s": 60.0,
        "body": b"{}",
        "delivery": delivery(),
    }
    return ParkedEntry(**fields | more)


@given(JOBS)
def test_a_job_comes_back_as_it_was_stored(stored: ReplayJob) -> None:
    """S1-5: a worker that takes it over replays the same entries, at the same rate, to the same target."""
    again = ReplayJob(
        id=stored.id, created=stored.created, state=stored.state, **read_spec(write_spec(stored))
    )

    assert again == stored
    assert 1 <= stored.batch <= BATCH_MAX
    assert job_as_dict(JobRow(job=stored))["id"] == stored.id


def test_entries_parked_again_are_not_part_of_the_job() -> None:
    """S1-5: an endpoint that fails for ever does not make a job endless."""
    assert job().wants(entry())
    assert not job().wants(entry(parked_at=AT + 1))
    assert not job().wants(entry(parked_at=AT + 2))


def test_a_job_takes_only_its_reasons_and_entries_that_were_rarely_replayed() -> None:
    """S1-16: an entry that would fail again, or that failed often enough, is left to an operator."""
    earlier = Earlier(replays=3, first_arrived_at=AT)
    often = entry(delivery=delivery(earlier=earlier))
    automatic = job(reasons=frozenset({"exhausted", "expired"}), replays_below=3)

    assert automatic.wants(entry())
    assert not automatic.wants(entry(reason=ParkReason.PERMANENT))
    assert not automatic.wants(often)
    assert replace(automatic, replays_below=4).wants(often)
    assert not automatic.wants(entry(delivery=None))
    assert not job(chosen=Filter(tenant="beta")).wants(entry())


def test_the_settings_make_a_job_when_it_is_due_and_none_by_default() -> None:
    """S0-8, S1-16: off by default; after the cooldown, and each time between two passes."""
    ids = iter("abcdef")
    rules = AutoReplay(cooldown_s=600, scheduled_s=3_600, max_replays=2, rate_per_s=5)

    assert due_jobs(AutoReplay(), {}, AT, lambda: next(ids)) == ()
    automatic, scheduled = due_jobs(rules, {}, AT, lambda: next(ids))
    assert (automatic.origin, automatic.chosen.until) == (Origin.AUTOMATIC, AT - 600)
    assert (scheduled.origin, scheduled.chosen.until) == (Origin.SCHEDULE, None)
    assert all(each.closed_only and each.replays_below == 2 for each in (automatic, scheduled))
    made = LastMade(AT, is_pending=False)
    last = {Origin.AUTOMATIC: made, Origin.SCHEDULE: made}
    assert due_jobs(rules, last, AT + 599, lambda: next(ids)) == ()
    assert [each.origin for each in due_jobs(rules, last, AT + 600, lambda: next(ids))] == [Origin.AUTOMATIC]
    assert (
        len(due_jobs(rules, {Origin.SCHEDULE: LastMade(AT + 9_999, is_pending=False)}, AT, lambda: next(ids)))
        == 2
    )  # set back


def test_an_entry_that_cannot_be_compared_stops_no_job() -> None:
    """Fault 57: it is left parked."""
    assert job().may_want(entry()) is True
    assert job().may_want(entry(parked_at=AT + 1)) is False
    assert job().may_want(entry(parked_at=None)) is None


def test_no_job_is_made_while_one_of_its_kind_is_pending() -> None:
    """S0-8: a pass that takes longer than the time between two passes makes no second one."""
    rules = AutoReplay(cooldown_s=600, scheduled_s=600)
    last = {
        Origin.AUTOMATIC: LastMade(AT - 9_999, is_pending=True),
        Origin.SCHEDULE: LastMade(AT - 9_999, False),
    }

    assert [each.origin for each in due_jobs(rules, last, AT, lambda: "job_1")] == [Origin.SCHEDULE]


@pytest.mark.parametrize("step", STEERS)
def test_a_job_that_is_done_stays_done(step: Any) -> None:
    """No step of an operator begins it anew."""
    before, after = STEERS[step]

    assert JobState.DONE not in before
    assert after not in before


def test_ids_of_jobs_differ() -> None:
    """They come from random bytes."""
    assert job_id(b"a") != job_id(b"b")
    assert len(job_id(b"a")) == len("job_") + 12
