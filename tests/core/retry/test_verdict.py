"""The verdict after one attempt: delivered, tried again, deferred, parked or dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.model import Control, Defer, Delivered, Drop, Outcome, OutcomeKind, Park, ParkReason, Retry
from consumer.core.retry.outcomes import StatusRule
from consumer.core.retry.policy import POLICIES, RetryPolicy, deadline, max_age_s
from consumer.core.retry.verdict import Situation, decide

NOW = 1_700_000_000.0


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


@pytest.mark.parametrize("status", [200, 201, 299, 300])
def test_a_status_under_300_is_a_success(status: int) -> None:
    """S0-7: 299 is a success, 300 is an error."""
    outcome = Outcome(kind=OutcomeKind.OK, status=status, duration_s=0.1)

    assert (decide(outcome, situation()) == Delivered()) is (status < 300)


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


def test_a_status_may_have_waits_of_its_own() -> None:
    """S4-2: 429 waits longer than 500; the exact status goes before its class, no status takes none."""
    slow = RetryPolicy(base_s=30.0, jitter_ratio=0.0)
    long = RetryPolicy(schedule_s=(100.0,), jitter_ratio=0.0)
    policy = RetryPolicy(jitter_ratio=0.0, by_status=(("429", slow), ("5xx", long)))

    waits = [decide(failure(status), situation(policy)) for status in (429, 500, 503, 404, None)]

    assert waits == [Retry(30.0), Retry(100.0), Retry(100.0), Retry(1.0), Retry(1.0)]
    patient = replace(policy, by_status=(("5xx", RetryPolicy(schedule_s=(86_400.0,), max_attempts=9)),))
    assert max_age_s(patient) == pytest.approx(1.2 * 8 * 86_400)


@pytest.mark.parametrize("status", [400, 406, 411, 413, 414, 415, 422, 431, 501, 505])
def test_hopeless_requests_park_at_once(status: int) -> None:
    """S1-2, S1-7, fault 37: a delivery that can never succeed is not tried again."""
    assert decide(failure(status), situation()) == Park(ParkReason.PERMANENT, f"HTTP {status}")


@pytest.mark.parametrize(
    "status", [401, 403, 404, 405, 407, 408, 418, 421, 425, 429, 500, 502, 503, 504, 599]
)
def test_temporary_failures_are_retried(status: int) -> None:
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
    """S1-7, SW-37, fault 38: 410 parks this one and disables the endpoint."""
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


#: Failures of every kind, with and without a status.
FAILURES = st.one_of(
    st.integers(300, 599).map(failure),
    st.sampled_from(OutcomeKind).map(lambda kind: Outcome(kind=kind, duration_s=0.1)),
)


@given(FAILURES, st.integers(1, 6), st.floats(0, 90_000), st.floats(0, 90_000))
def test_a_budget_only_postpones_a_retry(
    outcome: Outcome, attempt: int, age_s: float, postponed_s: float
) -> None:
    """S0-10: a budget lengthens a wait, at most to the deadline, and changes nothing else."""
    at = situation(attempt=attempt, now=NOW + age_s)
    usual, verdict = decide(outcome, at), decide(outcome, replace(at, postponed_s=postponed_s))

    if not isinstance(usual, Retry):
        assert verdict == usual
        return
    left_s = deadline(at.policy, at.arrived_at) - at.now
    assert verdict == Retry(min(usual.wait_s + postponed_s, left_s), usual.exact)


@given(FAILURES, st.integers(1, 6), st.sampled_from([None, *Control]))
def test_a_failure_of_an_endpoint_that_is_gone_disables_it(
    outcome: Outcome, attempt: int, control: Control | None
) -> None:
    """SW-41: instead of a retry it is parked as disabled; a deferral and a drop stay."""
    outcome = outcome._replace(control=control)
    at = situation(attempt=attempt, rules={"404": StatusRule.DROP})
    usual, verdict = decide(outcome, at), decide(outcome, replace(at, gone="failed for 5 days"))

    if isinstance(usual, Defer | Drop):
        assert verdict == usual
        return
    assert isinstance(verdict, Park)
    assert (verdict.reason, verdict.disables) == (ParkReason.DISABLED, True)
    assert verdict.detail.startswith("failed for 5 days: ")


def test_a_success_of_an_endpoint_that_was_gone_is_delivered() -> None:
    """SW-41: only a failure disables."""
    taken = Outcome(kind=OutcomeKind.OK, status=204, duration_s=0.1)

    assert decide(taken, situation(gone="failed for 5 days", postponed_s=60.0)) == Delivered()
