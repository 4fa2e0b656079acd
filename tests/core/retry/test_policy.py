"""Waits: the source documents' numbers, spread, Retry-After, and what decide makes of an outcome."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import ConfigError
from consumer.core.model import Control, Defer, Delivered, Drop, Outcome, OutcomeKind, Park, ParkReason, Retry
from consumer.core.retry.outcomes import StatusRule
from consumer.core.retry.policy import (
    POLICIES,
    Growth,
    Jitter,
    RetryPolicy,
    Situation,
    deadline,
    decide,
    delay_s,
    max_age_s,
    parse_retry_after,
    planned_delays_s,
    total_delay_s,
    wait_bounds_s,
)
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


def failure(
    status: int | None = 503, *, retry_after: str | None = None, location: str | None = None
) -> Outcome:
    """Return a failed outcome with this status, or a refused connection."""
    kind = OutcomeKind.REFUSED if status is None else OutcomeKind(f"http_{status // 100}xx")
    return Outcome(kind=kind, status=status, duration_s=0.1, retry_after=retry_after, location=location)


def situation(policy: RetryPolicy = POLICIES["default"], **changed: Any) -> Situation:
    """Return the situation after a first attempt at NOW, in the middle of the jitter."""
    first: dict[str, Any] = {"attempt": 1, "arrived_at": NOW, "now": NOW, "sample": 0.5, "policy": policy}
    return Situation(**(first | changed))


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
    """S0-3, S1-1, S3-4, S4-1: each named policy plans what its document says."""
    name = OUR_NAMES.get(row["name"], row["name"])
    if name.startswith("s0-"):  # examples of the formula, not policies
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


def test_jitter_is_even_over_the_whole_range() -> None:
    """S4-3: even samples give even waits, from -10 % to +10 %, in whole milliseconds."""
    waits = [delay_s(POLICIES["default"], 1, n / 200) for n in range(200)]

    assert waits == pytest.approx([0.9 + n / 1000 for n in range(200)], abs=0.0005)


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
    """S1-1: whatever the policy and however late the attempt, the wait is within its jittered cap."""
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
    """S0-10: each wait of a chain lies where its policy says, and within the cap."""
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


def test_a_status_may_have_waits_of_its_own() -> None:
    """S4-2: 429 waits longer than 500; the exact status goes before its class, no status takes none."""
    slow = RetryPolicy(base_s=30.0, jitter_ratio=0.0)
    long = RetryPolicy(schedule_s=(100.0,), jitter_ratio=0.0)
    policy = RetryPolicy(jitter_ratio=0.0, by_status=(("429", slow), ("5xx", long)))

    waits = [decide(failure(status), situation(policy)) for status in (429, 500, 503, 404, None)]

    assert waits == [Retry(30.0), Retry(100.0), Retry(100.0), Retry(1.0), Retry(1.0)]
    patient = replace(policy, by_status=(("5xx", RetryPolicy(schedule_s=(86_400.0,), max_attempts=9)),))
    assert max_age_s(patient) == pytest.approx(1.2 * 8 * 86_400)


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
    """S1-15: 24 h at least, 1.2 x the schedule when longer, what is set when set, expiration if sooner."""
    long = RetryPolicy(max_attempts=2, schedule_s=(100 * HOUR,))
    short = RetryPolicy(max_age_s=30.0)

    assert max_age_s(POLICIES["default"]) == 24 * HOUR
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
    """Fault 39: whatever the header says, the answer is none or within a day, never an error."""
    wait_s = parse_retry_after(value, NOW)

    assert wait_s is None or 0 <= wait_s <= 86_400


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
@pytest.mark.parametrize(
    "kind",
    [
        OutcomeKind.OK,
        OutcomeKind.RESET,
        OutcomeKind.TIMEOUT_TOTAL,
        OutcomeKind.TOO_LARGE,
        OutcomeKind.PROTOCOL,
    ],
)
def test_any_2xx_is_delivered(status: int, kind: OutcomeKind) -> None:
    """SW-35, fault 34: the status decides, also when the body broke off, and no rule changes it."""
    outcome = Outcome(kind=kind, status=status, duration_s=0.1)

    assert decide(outcome, situation(attempt=5, rules={"200": StatusRule.PARK})) == Delivered()


def test_retry_waits_by_the_schedule() -> None:
    """S0-1: the attempt that failed gives the wait."""
    waits = [decide(failure(), situation(attempt=n)) for n in (1, 2, 3, 4)]

    assert waits == [Retry(1.0), Retry(2.0), Retry(4.0), Retry(8.0)]


def test_last_attempt_parks_exhausted() -> None:
    """S1-2, S1-3: after the last attempt it is parked, with the reason."""
    for outcome, detail in ((failure(503), "HTTP 503"), (failure(None), "refused")):
        assert decide(outcome, situation(attempt=5)) == Park(ParkReason.EXHAUSTED, detail)


@pytest.mark.parametrize(
    ("retry_after", "verdict"),
    [
        ("7", Retry(7.0, exact=True)),
        ("1e12", Retry(1.0)),
        ("0", Retry(1.0)),
        ("-5", Retry(1.0)),
        ("nonsense", Retry(1.0)),
        ("999999999", Retry(86_400.0, exact=True)),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_can_only_lengthen(status: int, retry_after: str, verdict: Retry) -> None:
    """SW-38 to SW-40, fault 39: the wait is the longer of the two; exact when the endpoint named it."""
    policy = RetryPolicy(max_age_s=1e6)

    assert decide(failure(status, retry_after=retry_after), situation(policy)) == verdict


def test_schedule_is_exact_only_when_the_endpoint_decided() -> None:
    """Fault 39: a Retry-After within the schedule changes nothing."""
    assert decide(failure(retry_after="3"), situation(attempt=3)) == Retry(4.0, exact=False)
    assert decide(failure(retry_after="5"), situation(attempt=3)) == Retry(5.0, exact=True)


def test_wait_never_passes_the_age_limit() -> None:
    """Fault 39: a wait past the limit ends at the limit, where the delivery is parked."""
    policy = RetryPolicy(max_age_s=30.0)

    late = decide(failure(retry_after="3600"), situation(policy, now=NOW + 10))
    over = decide(failure(), situation(policy, now=NOW + 30))
    expired = decide(failure(), situation(policy, expires_at=NOW - 1))

    assert late == Retry(20.0, exact=True)
    assert over == expired == Park(ParkReason.EXPIRED, "HTTP 503")


@pytest.mark.parametrize("status", [400, 406, 411, 413, 414, 415, 422, 431, 501, 505])
def test_hopeless_requests_park_at_once(status: int) -> None:
    """S1-2, S1-7, fault 37: what can never succeed is not tried again."""
    assert decide(failure(status), situation()) == Park(ParkReason.PERMANENT, f"HTTP {status}")


@pytest.mark.parametrize(
    "status", [401, 403, 404, 405, 407, 408, 418, 421, 425, 429, 500, 502, 503, 504, 599]
)
def test_what_may_pass_is_retried(status: int) -> None:
    """S1-7, faults 37, 40: a deploy, a throttle or a fault of the server passes."""
    assert decide(failure(status), situation()) == Retry(1.0)


@pytest.mark.parametrize(
    "kind",
    [
        k
        for k in OutcomeKind
        if k not in (OutcomeKind.OK, OutcomeKind.PROXY, OutcomeKind.LOCAL) and not k.value.startswith("http_")
    ],
)
def test_transport_failures_are_retried(kind: OutcomeKind) -> None:
    """S1-7, S3-4, faults 42-44: no answer is always worth another try, under every policy."""
    outcome = Outcome(kind=kind, duration_s=0.1)

    assert decide(outcome, situation()) == Retry(1.0)
    assert decide(outcome, situation(POLICIES["transport-only"])) == Retry(1.0)


@pytest.mark.parametrize("kind", [OutcomeKind.PROXY, OutcomeKind.LOCAL])
def test_a_fault_of_our_own_side_spends_no_attempt(kind: OutcomeKind) -> None:
    """Fault 87: it is waited out, on the last attempt too; age still ends it."""
    outcome = Outcome(kind=kind, duration_s=0.1)
    last = situation(attempt=POLICIES["default"].max_attempts)
    old = situation(now=NOW + 86_399)

    assert decide(outcome, last) == Defer(last.now + 5.0 + 10.0 * last.sample)
    assert decide(outcome, old) == Defer(old.now + 1)


@pytest.mark.parametrize("status", [200, 202, 400, 404, 503])
def test_an_endpoint_may_ask_for_silence(status: int) -> None:
    """Fault 52: ``disable`` ends the endpoint, even after a success; ``abort-message`` a failed delivery."""
    success = status < 300
    kind = OutcomeKind.OK if success else OutcomeKind.HTTP_4XX
    disable = Outcome(kind=kind, status=status, duration_s=0.1, control=Control.DISABLE)
    abort = disable._replace(control=Control.ABORT_MESSAGE)

    if success:
        assert decide(disable, situation()) == Delivered(disables=True)
        assert decide(abort, situation()) == Delivered()
    else:
        text = f"webhook-delivery: disable; HTTP {status}"
        assert decide(disable, situation()) == Park(ParkReason.DISABLED, text, disables=True)
        text = f"webhook-delivery: abort-message; HTTP {status}"
        assert decide(abort, situation()) == Park(ParkReason.PERMANENT, text)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_parks_with_its_location(status: int) -> None:
    """S1-7, SW-36: the URL is wrong; the operator reads where it points now."""
    verdict = decide(failure(status, location="https://new.example/"), situation())

    assert verdict == Park(ParkReason.PERMANENT, f"HTTP {status}; Location: https://new.example/")


def test_gone_disables() -> None:
    """SW-37, fault 38: 410 parks this one and disables the endpoint."""
    assert decide(failure(410), situation()) == Park(ParkReason.DISABLED, "HTTP 410", disables=True)


def test_transport_only_takes_a_status_as_result() -> None:
    """S3-4: an HTTP status parks at once, unless the subscription names it."""
    policy = POLICIES["transport-only"]

    assert decide(failure(503), situation(policy)) == Park(ParkReason.PERMANENT, "HTTP 503")
    named = situation(policy, rules={"5xx": StatusRule.RETRY})
    assert decide(failure(503), named) == Retry(1.0)


def test_status_rules_of_the_subscription_win() -> None:
    """Fault 37: on_status changes each kind, an exact status before its class."""
    rules = {
        "404": StatusRule.PARK,
        "4xx": StatusRule.DROP,
        "5xx": StatusRule.DISABLE,
        "503": StatusRule.RETRY,
        "3xx": StatusRule.RETRY,
    }
    verdicts = {s: decide(failure(s), situation(rules=rules)) for s in (404, 400, 500, 503, 302)}

    assert verdicts == {
        404: Park(ParkReason.PERMANENT, "HTTP 404"),
        400: Drop("HTTP 400"),
        500: Park(ParkReason.DISABLED, "HTTP 500", disables=True),
        503: Retry(1.0),
        302: Retry(1.0),
    }
    assert decide(failure(None), situation(rules=rules)) == Retry(1.0)
