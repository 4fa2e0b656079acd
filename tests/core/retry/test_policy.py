"""Waits: the numbers of the source documents, their spread, and Retry-After."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import ConfigError
from consumer.core.retry.policy import (
    POLICIES,
    Growth,
    Jitter,
    RetryPolicy,
    deadline,
    delay_s,
    max_age_s,
    planned_delays_s,
    total_delay_s,
    wait_bounds_s,
)
from consumer.core.text.retry_after import parse_retry_after
from tests.support.data import DATA

BACKOFF: list[dict[str, Any]] = json.loads((DATA / "backoff.json").read_text())
RETRY_AFTER: list[dict[str, Any]] = json.loads((DATA / "retry_after.json").read_text())["rows"]
#: Where the source's name for a row is not the name of our policy.
OUR_NAMES = {"moodle": "transport-only"}
JUST_BELOW_ONE = math.nextafter(1.0, 0.0)
NOW = 1_700_000_000.0
HOUR = 3600.0


def policy_of(row: dict[str, Any]) -> RetryPolicy:
    """Build the policy that a row of backoff.json describes."""
    return RetryPolicy(
        max_attempts=row["max_attempts"],
        base_s=row["base_ms"] / 1000,
        multiplier=row["multiplier"],
        max_s=row["max_ms"] / 1000,
        jitter_ratio=row["jitter"],
    )


@pytest.mark.parametrize("row", BACKOFF, ids=[r["name"] for r in BACKOFF])
def test_formula_gives_the_documents_sequences(row: dict[str, Any]) -> None:
    """S0-1, S0-2: delays, their sum, and both ends of the jitter, for every row of the documents."""
    policy = policy_of(row)

    assert planned_delays_s(policy) == tuple(ms / 1000 for ms in row["delays_ms"])
    assert total_delay_s(policy) == pytest.approx(row["total_ms"] / 1000)
    for failed, (low_ms, high_ms) in enumerate(row["ranges_ms"], start=1):
        assert delay_s(policy, failed, 0.0) == pytest.approx(low_ms / 1000)
        assert delay_s(policy, failed, JUST_BELOW_ONE) == pytest.approx(high_ms / 1000)


@pytest.mark.parametrize("row", BACKOFF, ids=[r["name"] for r in BACKOFF])
def test_named_policies_have_the_documents_numbers(row: dict[str, Any]) -> None:
    """S0-3, S1-1, S3-4, S4-1: each named policy plans the waits of its document."""
    name = OUR_NAMES.get(row["name"], row["name"])
    if name.startswith(("s0-", "s1-")):  # examples of the formula, not policies
        assert name not in POLICIES
        return
    policy = POLICIES[name]

    assert policy.name == name
    assert planned_delays_s(policy) == tuple(ms / 1000 for ms in row["delays_ms"])
    assert policy.max_attempts == row["max_attempts"]
    assert policy.jitter_ratio == row["jitter"]
    assert policy.max_s == row["max_ms"] / 1000


@pytest.mark.parametrize(
    ("name", "delays_s"),
    [
        ("production", (1, 2, 4, 8)),
        ("development", (0.5, 1)),
        ("high-traffic", (1, 2)),
        ("low-traffic", (1, 2, 4)),
        ("critical", (2, 4, 8, 16, 32)),
        ("standard-webhooks", (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)),
    ],
)
def test_other_named_policies(name: str, delays_s: tuple[float, ...]) -> None:
    """S2-1, S2-2, S3-6, SW-34: profiles, presets and the specification's schedule."""
    assert planned_delays_s(POLICIES[name]) == delays_s


def test_specification_schedule_lasts_as_printed() -> None:
    """SW-34: ten attempts over 75:35:05, and its age limit follows from that."""
    policy = POLICIES["standard-webhooks"]

    assert policy.max_attempts == 10
    assert total_delay_s(policy) == 75 * HOUR + 35 * 60 + 5
    assert max_age_s(policy) == pytest.approx(1.2 * total_delay_s(policy))


def test_cap_before_or_inside_jitter() -> None:
    """S1-1, S4-1 against S2-1: jitter may pass the cap in the first, never in the second."""
    before = RetryPolicy(base_s=100.0, max_s=60.0, jitter_ratio=0.25)
    inside = RetryPolicy(base_s=100.0, max_s=60.0, jitter_ratio=0.25, jitter_in_cap=True)

    assert delay_s(before, 1, JUST_BELOW_ONE) == 75.0
    assert delay_s(inside, 1, JUST_BELOW_ONE) == 60.0
    assert delay_s(before, 1, 0.0) == delay_s(inside, 1, 0.0) == 45.0
    assert all(POLICIES[name].jitter_in_cap for name in ("production", "development"))
    assert not POLICIES["email-gateway"].jitter_in_cap


def test_the_email_gateway_gives_up_after_five_failures_and_may_be_asked_for_more() -> None:
    """S1-1, S1-2: five attempts; with more of them the seventh failure and each later one wait 45 to 75 s."""
    policy = POLICIES["email-gateway"]
    longer = replace(policy, max_attempts=10)

    assert policy.max_attempts == 5
    assert [wait_bounds_s(longer, failed) for failed in (1, 6, 7, 8, 9)] == [
        (0.75, 1.25),
        (24.0, 40.0),
        *[(45.0, 75.0)] * 3,
    ]


def test_jitter_is_even_over_the_whole_range() -> None:
    """S4-3: even samples give even waits, from -10 % to +10 %, in whole milliseconds."""
    waits = [delay_s(POLICIES["default"], 1, n / 200) for n in range(200)]

    assert waits == pytest.approx([0.9 + n / 1000 for n in range(200)], abs=0.0005)


def test_a_thousand_events_that_fail_at_once_do_not_return_as_a_spike() -> None:
    """S4-3: 1,000 waits spread over the 200 ms of the first one; the busiest 10 ms have a tenth at most."""
    random = Random(1)
    waits = [delay_s(POLICIES["adr"], 1, random.random()) for _ in range(1000)]

    assert max(Counter(int(wait * 100) for wait in waits).values()) <= 100
    assert min(waits) < 0.91
    assert max(waits) > 1.09


@given(
    st.integers(1, 1000),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1e6),
    st.floats(1, 1000),
    st.floats(0, 1e6),
)
def test_no_wait_is_negative_or_out_of_range(
    failed: int, sample: float, base_s: float, multiplier: float, max_s: float
) -> None:
    """S1-1: for every policy and every late attempt, the wait is within its jittered cap."""
    policy = RetryPolicy(base_s=base_s, multiplier=multiplier, max_s=max_s, jitter_ratio=0.25)

    assert 0 <= delay_s(policy, failed, sample) <= max_s * 1.25 + 0.001


@pytest.mark.parametrize("name", sorted(POLICIES))
@given(
    st.lists(st.floats(0, 604_800), min_size=1, max_size=5),
    st.integers(1, 20),
    st.floats(0, 1, exclude_max=True),
)
def test_a_wait_keeps_to_its_plan(name: str, schedule_s: list[float], failed: int, sample: float) -> None:
    """S0-1, S2-1: planned x (1 ± jitter) for every policy, with its own waits and with a schedule."""
    for policy in (POLICIES[name], replace(POLICIES[name], schedule_s=tuple(schedule_s))):
        planned_s = planned_delays_s(replace(policy, max_attempts=failed + 1))[-1]
        low_s, high_s = (planned_s * (1 + sign * policy.jitter_ratio) for sign in (-1, 1))

        assert low_s - 0.001 <= delay_s(policy, failed, sample) <= high_s + 0.001


def test_a_schedule_is_not_capped() -> None:
    """S2-1: the cap inside the jitter is the formula's; a day in a schedule stays a day."""
    policy = replace(POLICIES["production"], schedule_s=(86_400.0,), jitter_ratio=0.0)

    assert delay_s(policy, 1, 0.5) == 86_400.0


@given(
    st.tuples(st.sampled_from([*Growth]), st.sampled_from([*Jitter]), st.booleans()),
    st.floats(0, 1000),
    st.floats(0, 5000),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.floats(0, 1)), min_size=1, max_size=30),
)
def test_every_kind_of_wait_keeps_to_its_bounds(
    kind: tuple[Growth, Jitter, bool],
    base_s: float,
    max_s: float,
    samples: list[tuple[float, float]],
) -> None:
    """S0-10: each wait of a chain is within the bounds of its policy, and within the cap."""
    growth, jitter, adaptive = kind
    policy = RetryPolicy(
        growth=growth, jitter_kind=jitter, adaptive=adaptive, base_s=base_s, max_s=max_s, max_attempts=31
    )
    previous_s = 0.0
    for failed, (sample, ratio) in enumerate(samples, start=1):
        wait_s = delay_s(policy, failed, sample, previous_s=previous_s, success_ratio=ratio)
        low, high = wait_bounds_s(policy, failed)

        assert low - 0.001 <= wait_s <= high + 0.001
        assert 0 <= low <= high <= max_s * 1.1 + 0.001
        if jitter is Jitter.DECORRELATED:
            assert wait_s <= max(base_s, 3 * max(previous_s, base_s)) + 0.002
        previous_s = wait_s


def test_linear_waits_grow_by_the_base() -> None:
    """Linear growth, capped."""
    policy = RetryPolicy(growth=Growth.LINEAR, base_s=5.0, max_s=18.0, max_attempts=6)

    assert planned_delays_s(policy) == (5.0, 10.0, 15.0, 18.0, 18.0)


def test_full_jitter_is_even_from_nothing_to_the_wait() -> None:
    """Uniform over [0, planned]."""
    policy = RetryPolicy(jitter_kind=Jitter.FULL)

    assert [delay_s(policy, 3, n / 4) for n in range(4)] == [0.0, 1.0, 2.0, 3.0]


def test_decorrelated_jitter_is_the_documents_formula() -> None:
    """S0-10: min(max, random(base, 3 * previous)), beginning with the base."""
    policy = RetryPolicy(jitter_kind=Jitter.DECORRELATED, base_s=2.0, max_s=20.0)

    assert [delay_s(policy, 1, sample) for sample in (0.0, 0.5)] == [2.0, 4.0]
    assert delay_s(policy, 2, 0.5, previous_s=5.0) == 2 + 0.5 * (15 - 2)
    assert delay_s(policy, 3, JUST_BELOW_ONE, previous_s=15.0) == 20.0
    assert delay_s(policy, 1, JUST_BELOW_ONE, previous_s=9999.0) == 6.0, "a deferral is no longer wait"


def test_the_adaptive_multiplier_follows_recent_successes() -> None:
    """S0-10: 1.5 over 80 % of successes, else 2.5."""
    policy = RetryPolicy(adaptive=True, jitter_ratio=0.0)

    assert [delay_s(policy, n, 0.5, success_ratio=0.81) for n in (1, 2, 3)] == [1.0, 1.5, 2.25]
    assert [delay_s(policy, n, 0.5, success_ratio=0.8) for n in (1, 2, 3)] == [1.0, 2.5, 6.25]


def test_a_schedule_has_no_decorrelated_waits() -> None:
    """Settings: two fields that contradict each other are an error with the remedy."""
    with pytest.raises(ConfigError, match="remove one of them"):
        RetryPolicy(schedule_s=(1.0,), jitter_kind=Jitter.DECORRELATED)


def test_growth_past_all_numbers_ends_at_the_cap() -> None:
    """S0-1: a thousand attempts neither overflow nor turn a base of zero into a wait."""
    assert delay_s(RetryPolicy(multiplier=1000.0, jitter_ratio=0.0), 1000, 0.5) == 60.0
    assert delay_s(RetryPolicy(multiplier=1000.0, base_s=0.0), 1000, 0.5) == 0.0


def test_schedule_repeats_its_last_wait() -> None:
    """S0-2: N attempts have N-1 waits also when the schedule is shorter or longer."""
    assert planned_delays_s(RetryPolicy(max_attempts=4, schedule_s=(1.0, 7.0))) == (1.0, 7.0, 7.0)
    assert planned_delays_s(RetryPolicy(max_attempts=2, schedule_s=(90.0, 7.0))) == (90.0,)
    assert planned_delays_s(RetryPolicy(max_attempts=1)) == ()


def test_attempts_count_from_one() -> None:
    """S0-2: there is no wait after attempt 0."""
    with pytest.raises(ValueError, match="from 1"):
        delay_s(POLICIES["default"], 0, 0.5)


def test_age_limit_is_a_day_or_the_schedule_and_a_fifth() -> None:
    """S1-15: 24 h at least, 1.2 x the schedule when longer, the setting when set, expiration if sooner."""
    long = RetryPolicy(max_attempts=2, schedule_s=(100 * HOUR,))
    short = RetryPolicy(max_age_s=30.0)

    assert max_age_s(POLICIES["default"]) == 24 * HOUR == 86_400.0
    assert max_age_s(long) == pytest.approx(120 * HOUR)
    assert max_age_s(short) == 30.0
    assert deadline(short, 1000.0) == 1030.0
    assert deadline(short, 1000.0, expires_at=1010.0) == 1010.0
    assert deadline(short, 1000.0, expires_at=2000.0) == 1030.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", 1001),
        ("base_s", -1.0),
        ("base_s", math.nan),
        ("base_s", math.inf),
        ("multiplier", 0.5),
        ("max_s", -1.0),
        ("jitter_ratio", 1.1),
        ("jitter_ratio", -0.1),
        ("max_age_s", -1.0),
        ("schedule_s", ()),
        ("schedule_s", (1.0, -1.0)),
    ],
)
def test_bad_policies_are_refused_by_field(field: str, value: object) -> None:
    """Settings: a value out of bounds is an error that names its field."""
    with pytest.raises(ConfigError, match=f"retry.{field}"):
        RetryPolicy(**{field: value})  # type: ignore[arg-type]  # the wrong values are the point


@pytest.mark.parametrize("row", RETRY_AFTER, ids=[repr(r["value"]) for r in RETRY_AFTER])
def test_retry_after_vectors(row: dict[str, Any]) -> None:
    """SW-40, fault 39: seconds and dates, rounded up, clamped to a day; garbage is ignored."""
    now = datetime.fromisoformat(row["now"]).timestamp()

    assert parse_retry_after(row["value"], now) == row["seconds"]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("Wednesday, 21-Oct-15 07:28:00 GMT", 60),
        ("Wed Oct 21 07:28:00 2015", 60),
        ("Wed, 21 Oct 2015 09:28:00 +0200", 60),
        ("120, 60", 120),
        ("60, 120", 120),
        ("garbage, 7", 7),
        ("7, -5", 7),
        ("Wed, 21 Oct 2015 07:28:00 GMT, 30", 60),
        ("90, Wed, 21 Oct 2015 07:28:00 GMT", 90),
        ("Wed, 21 Oct 2015 07:28:00 GMT, Wed, 21 Oct 2015 07:29:00 GMT", 120),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
        ("Wed, 21 Oct 99999999 07:28:00 GMT", None),
        ("1" * 5000, 86400),
        (",", None),
        ("１２", None),
        ("1_0", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86400),
        (None, None),
    ],
)
def test_retry_after_in_odd_forms(value: str | None, seconds: float | None) -> None:
    """Fault 39: all three date forms, several headers (the longest wait counts), overlong digits."""
    now = datetime.fromisoformat("2015-10-21T07:27:00Z").timestamp()

    assert parse_retry_after(value, now) == seconds


def test_only_so_many_parts_of_retry_after_are_read() -> None:
    """Fault 86: a head of 64 KiB holds 32,000 of them; the longest wait of the first 32 counts."""
    assert parse_retry_after("1, " * 31 + "120" + ", 9" * 20_000, 0.0) == 120
    assert parse_retry_after("1, " * 32 + "120", 0.0) == 1


def test_dates_are_gmt_wherever_we_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 39: the date form without a zone is GMT too, not the machine's time."""
    now = datetime.fromisoformat("2015-10-21T07:27:00Z").timestamp()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert parse_retry_after("Wed Oct 21 07:28:00 2015", now) == 60
    finally:
        monkeypatch.undo()
        time.tzset()


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, [0-9 A-Za-z:+-]{0,40}", fullmatch=True))
def test_no_retry_after_breaks_us(value: str) -> None:
    """Fault 39: every header gives no wait or one within a day, never an error."""
    wait_s = parse_retry_after(value, NOW)

    assert wait_s is None or 0 <= wait_s <= 86_400
