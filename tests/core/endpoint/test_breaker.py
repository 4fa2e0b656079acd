"""The breaker: opens when it should, lets one probe through, and never wedges."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.breaker import (
    BREAKERS,
    Answer,
    BreakerPolicy,
    Change,
    Closed,
    Open,
    Probing,
    State,
    admit,
    cooldown_s,
    due_at,
    force,
    outlasting,
    recovered,
    reset,
    settle,
)
from consumer.core.errors import ConfigError

POLICY = BreakerPolicy()
samples = st.floats(0, 1, exclude_max=True)


def fail(state: State, times: int, now: float = 0.0, policy: BreakerPolicy = POLICY) -> State:
    """Return the state after *times* failures in a row."""
    for _ in range(times):
        state, _ = settle(state, Answer(False, state.epoch), now, policy, 0.0)
    return state


def opened() -> Open:
    """Return a breaker that opened at 0, with the default policy and no jitter."""
    return opened_at(0.0)


def opened_at(now: float) -> Open:
    """Return a breaker that opened then, with the default policy and no jitter."""
    state = fail(Closed(), 5, now)
    assert isinstance(state, Open)
    return state


@given(st.integers(1, 30), st.lists(st.booleans(), max_size=60))
def test_opens_exactly_at_the_limit(limit: int, answers: list[bool]) -> None:
    """S0-7, S3-1: it opens at the first moment with *limit* failures in a row, and only then."""
    policy = BreakerPolicy(failures=limit)
    state: State = Closed()
    in_a_row = 0
    for ok in answers:
        in_a_row = 0 if ok else in_a_row + 1

        state, change = settle(state, Answer(ok, state.epoch), 0.0, policy, 0.5)

        assert (change is Change.OPENED) == (in_a_row == limit)
        assert isinstance(state, Open) == (in_a_row == limit)
        if in_a_row == limit:
            return


def test_lets_one_probe_through_after_the_cooldown() -> None:
    """S3-1, faults 54, 55: nothing for 30 s, then one request, the others wait for it."""
    state: State = opened()

    state, sent = admit(state, 29.999, POLICY)
    assert not sent
    assert isinstance(state, Open)
    assert due_at(state, POLICY) == 30.0
    state, sent = admit(state, 30.0, POLICY)
    assert sent
    state, sent = admit(state, 30.0, POLICY)
    assert not sent
    assert isinstance(state, Probing)
    assert due_at(state, POLICY) == 70.0


def test_probe_that_succeeds_closes_with_slow_start() -> None:
    """S3-1: success closes and is reported; all requests go again, from a count of zero."""
    state, _ = admit(opened(), 30.0, POLICY)

    state, change = settle(state, Answer(True, state.epoch), 31.0, POLICY, 0.0)

    assert isinstance(state, Closed)
    assert (change, state.failures) == (Change.CLOSED, 0)
    assert admit(state, 31.0, POLICY) == (state, True)


def test_probe_that_fails_reopens_for_longer() -> None:
    """S3-1: failure reopens; cooldowns of 30, 60, 120, 240 s and then 5 min at most."""
    state: State = opened()
    now, cooldowns = 30.0, []
    for _ in range(6):
        state, sent = admit(state, now, POLICY)
        assert sent
        state, change = settle(state, Answer(False, state.epoch), now, POLICY, 0.0)
        assert change is Change.OPENED
        assert isinstance(state, Open)
        cooldowns.append(state.until - now)
        now = state.until

    assert cooldowns[:3] == [60.0, 120.0, 240.0]
    assert all(270.0 < cooldown <= 300.0 for cooldown in cooldowns[3:])


def test_growth_is_forgotten_after_success() -> None:
    """S3-1: an endpoint that took one more than the probe, or came through its slow start, begins at 30 s."""
    closed, _ = settle(Probing(100.0, epoch=9, openings=6), Answer(True, 9), 50.0, POLICY, 0.0)
    assert isinstance(closed, Closed)
    proven, _ = settle(closed, Answer(True, 10), 51.0, POLICY, 0.0)

    for state in (proven, recovered(closed)):
        assert isinstance(fail(state, 4, now=60.0), Closed)
        assert fail(state, 5, now=60.0) == Open(90.0, epoch=11, openings=1, since=60.0)


def test_an_endpoint_that_takes_only_probes_does_not_swing() -> None:
    """200 to the probe and 503 to the rest: two requests a cooldown, and cooldowns grow."""
    state: State = opened()
    now, cooldowns = 30.0, []
    for _ in range(6):
        state, sent = admit(state, now, POLICY)
        assert sent
        state, change = settle(state, Answer(True, state.epoch), now, POLICY, 0.0)
        assert change is Change.CLOSED
        state = fail(state, 1, now)
        assert isinstance(state, Closed)
        state = fail(state, 1, now)
        assert isinstance(state, Open)
        cooldowns.append(state.until - now)
        now = state.until

    assert cooldowns[:3] == [60.0, 120.0, 240.0]
    assert all(270.0 < cooldown <= 300.0 for cooldown in cooldowns[3:])


RATIO = BreakerPolicy(failures=10_000, failure_ratio=0.5, window_s=10.0, min_requests=10)


@given(st.lists(st.tuples(st.floats(0, 3), st.booleans()), max_size=120))
def test_a_ratio_opens_by_its_window(history: list[tuple[float, bool]]) -> None:
    """S3-1: it opens when of the last answers, enough of them, too large a share failed."""
    state: State = Closed()
    now = 0.0
    seen: list[tuple[float, bool]] = []
    for pause, ok in history:
        now += pause
        seen.append((now, ok))
        state, change = settle(state, Answer(ok, state.epoch), now, RATIO, 0.0)

        whole = [each for at, each in seen if now - at < 10.0]
        if change is Change.OPENED:
            assert not ok
            assert len(whole) >= 10
            return
        half = [each for at, each in seen if now - at < 5.0]
        if not ok and len(whole) == len(half) >= 10:  # both views agree
            assert sum(not each for each in half) < 0.5 * len(half)


def test_a_ratio_sees_failures_that_are_never_five_in_a_row() -> None:
    """S3-1: every second request fails; the count in a row never opens it, the ratio does."""
    plain, state = BreakerPolicy(), Closed()
    counted: State = state
    ratio: State = state
    opened_after = 0
    for n in range(40):
        ok, now = n % 2 == 0, n / 10
        counted, _ = settle(counted, Answer(ok, counted.epoch), now, plain, 0.0)
        if isinstance(ratio, Closed):
            ratio, _ = settle(ratio, Answer(ok, ratio.epoch), now, RATIO, 0.0)
            opened_after = n + 1

    assert isinstance(counted, Closed)
    assert isinstance(ratio, Open)
    assert opened_after == 10


def test_old_answers_leave_the_window() -> None:
    """Nine failures, a quiet minute, one failure: two of ten in a window that holds one."""
    state: State = Closed()
    for n in range(10):
        state, change = settle(state, Answer(False, 0), 60.0 if n == 9 else 0.0, RATIO, 0.0)

    assert change is Change.NONE


def test_an_operator_resets() -> None:
    """S3-3: closed from every state, without failures on record; old answers do not count."""
    states: list[State] = [Open(1e9, epoch=7, openings=9), Probing(1e9, epoch=7), Closed(failures=4, epoch=7)]
    for state in states:
        assert reset(state) == Closed(epoch=1000)
        assert settle(reset(state), Answer(False, 7), 0.0, POLICY, 0.0) == (Closed(epoch=1000), Change.NONE)


def test_forced_open_stays_until_a_reset() -> None:
    """By an operator; no probe, no time and no setting closes it, a reset does."""
    states: list[State] = [Closed(failures=4, epoch=7), opened(), Probing(1e9, epoch=7)]
    for state in states:
        forced = force(state)
        assert forced.epoch == 1000, "far beyond what a worker comes to that missed it"
        assert force(forced) is forced
        for policy in (POLICY, BreakerPolicy(failures=0)):
            assert admit(forced, 1e12, policy) == (forced, False)
            assert due_at(forced, policy) == math.inf
        assert settle(forced, Answer(True, forced.epoch), 0.0, POLICY, 0.0) == (forced, Change.NONE)
        assert reset(forced) == Closed(epoch=2000)


def test_a_shorter_cooldown_counts_at_once() -> None:
    """S3-2: an open breaker does not sit out a cooldown that an operator has shortened."""
    state = Open(1000.0, epoch=4, openings=9, since=700.0)
    short = BreakerPolicy(cooldown_s=5.0, cooldown_max_s=5.0)

    assert admit(state, 710.0, POLICY)[1] is False
    assert admit(state, 704.9, short)[1] is False
    assert admit(state, 705.0, short)[1] is True


def test_a_clock_that_steps_back_does_not_hold_the_endpoint() -> None:
    """The wall clock is set back by an hour while it is open, or probes: the next request is the probe."""
    states: list[State] = [opened_at(7200.0), Open(7230.0, epoch=3), Probing(7240.0, epoch=3)]
    for state in states:
        assert admit(state, 7201.0, POLICY)[1] is False
        assert admit(state, 7199.0, POLICY)[1] is False, "clocks differ by that much"
        probing, sent = admit(state, 3600.0, POLICY)
        assert sent
        assert isinstance(probing, Probing)


@given(st.integers(1, 10_000), samples, st.floats(0.001, 86_400), st.floats(0.001, 86_400))
def test_cooldown_stays_within_its_bounds(
    openings: int, sample: float, first_s: float, longest_s: float
) -> None:
    """S3-1: never shorter than configured, never longer than the limit, for every jitter."""
    policy = BreakerPolicy(cooldown_s=first_s, cooldown_max_s=longest_s)

    assert first_s <= cooldown_s(policy, openings, sample) <= max(first_s, longest_s)


def test_cooldowns_are_spread_also_at_the_limit() -> None:
    """Endpoints that fell together are not probed together."""
    for openings in (1, 3, 50):
        waits = {cooldown_s(POLICY, openings, n / 10) for n in range(10)}

        assert len(waits) == 10


def test_a_probe_is_not_given_up_while_it_may_be_answered() -> None:
    """S3-1: an endpoint that answers late, but within its deadline, is not shut out for ever."""
    policy = outlasting(BreakerPolicy(failures=1, cooldown_s=1.0, probe_timeout_s=0.5), timeout_s=30.0)
    probing, sent = admit(fail(Closed(), 1, policy=policy), 2.0, policy)
    assert sent

    _, again = admit(probing, 31.9, policy)
    _, change = settle(probing, Answer(True, probing.epoch), 31.9, policy, 0.0)

    assert (again, change) == (False, Change.CLOSED)
    assert outlasting(POLICY, 30.0) is POLICY


def test_stale_answers_change_nothing() -> None:
    """S3-1: a request from before the breaker opened neither closes nor reopens it, then or ever."""
    before = Closed(failures=4)
    state: State = opened()
    for ok in (True, False):
        assert settle(state, Answer(ok, before.epoch), 1.0, POLICY, 0.0) == (state, Change.NONE)
    state, _ = admit(state, 30.0, POLICY)
    for ok in (True, False):
        assert settle(state, Answer(ok, before.epoch), 31.0, POLICY, 0.0) == (state, Change.NONE)
    state, _ = settle(state, Answer(True, state.epoch), 31.0, POLICY, 0.0)
    for _ in range(10):
        assert settle(state, Answer(False, before.epoch), 32.0, POLICY, 0.0) == (state, Change.NONE)


def test_lost_probe_is_replaced_and_its_late_answer_ignored() -> None:
    """S3-1: a silent probe is given up after its timeout; the next one alone decides."""
    lost, _ = admit(opened(), 30.0, POLICY)
    state, sent = admit(lost, 70.0, POLICY)

    assert sent
    assert settle(state, Answer(False, lost.epoch), 71.0, POLICY, 0.0) == (state, Change.NONE)
    assert settle(state, Answer(True, state.epoch), 71.0, POLICY, 0.0)[1] is Change.CLOSED


def test_zero_switches_it_off() -> None:
    """S3-1: ``failures: 0`` never opens, and frees a breaker that was open when the setting changed."""
    off = BreakerPolicy(failures=0)

    assert isinstance(fail(Closed(), 1000, policy=off), Closed)
    state, sent = admit(opened(), 1.0, off)
    assert sent
    assert isinstance(state, Closed)


def test_presets() -> None:
    """S3-6: threshold and cooldown of the three presets; S3-1: 5 and 30 s by default."""
    shown = {name: (policy.failures, policy.cooldown_s) for name, policy in BREAKERS.items()}

    assert shown == {
        "default": (5, 30.0),
        "high-traffic": (10, 60.0),
        "low-traffic": (3, 10.0),
        "critical": (20, 120.0),
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("failures", -1),
        ("failure_ratio", 1.1),
        ("min_requests", 0),
        ("window_s", 0.0),
        ("cooldown_s", 0.0),
        ("cooldown_s", float("nan")),
        ("cooldown_max_s", 1e9),
        ("probe_timeout_s", -1.0),
    ],
)
def test_bad_policies_are_refused_by_field(field: str, value: float) -> None:
    """Settings: a value that could wedge the breaker is an error that names its field."""
    with pytest.raises(ConfigError, match=f"breaker.{field}"):
        BreakerPolicy(**{field: value})  # type: ignore[arg-type]  # the wrong values are the point
