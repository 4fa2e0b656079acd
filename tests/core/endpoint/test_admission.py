"""Admission to one endpoint: no history lets a request go too early, or holds the endpoint for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.endpoint.admission import AdmissionControl, Hold, Limits, Send, Wait
from consumer.core.endpoint.breaker import Answer, BreakerPolicy, Closed, Open, State
from consumer.core.endpoint.latency import Latency

NOW = 1_700_000_000.0
POLICY = BreakerPolicy(failures=3, cooldown_s=10.0, cooldown_max_s=60.0)
LIMITS = Limits(breaker=POLICY, concurrency=2)


@dataclass
class FakeSlots:
    """Slots that only count."""

    capacity: int = 2
    free: int = 2
    waiting: int = 0


def control(limits: Limits = LIMITS) -> tuple[AdmissionControl, FakeSlots]:
    """Return the control of an endpoint that nothing is known of yet, and its slots."""
    slots = FakeSlots(limits.concurrency, limits.concurrency)
    return AdmissionControl(limits, slots, Latency(1.0), 0.25), slots


def ask(admission: AdmissionControl, now: float, **more: Any) -> Send | Wait | Hold:
    """Ask for one request of a delivery message."""
    return admission.admit(now, **{"fresh": False, "reserved": False} | more)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ok", "fail", "pause", "force", "reset", "set back", "by hand", "resume"]),
        st.floats(0, 30),
    ),
    max_size=60,
)


@dataclass
class History:
    """An endpoint to which one thing after the other happens."""

    limits: Limits
    now: float = NOW
    held_until: float = 0.0  #: the latest pause since the last reset

    def __post_init__(self) -> None:
        self.admission, self.slots = control(self.limits)

    def ask(self) -> None:
        """Ask for one request: it goes no earlier than the pause, and never past an open breaker."""
        answer = ask(self.admission, self.now)
        if not isinstance(answer, Hold):
            assert self.now >= self.held_until
            assert not isinstance(self.admission.breaker, Open)
            assert self.admission.recall(answer.epoch, self.now) is None
        elif answer.reason != "paused":
            assert answer.defer.until >= max(self.now, self.held_until) - 1e-6
        assert self.slots.free == self.slots.capacity, "admission only looks at the slots"

    def happen(self, what: str, number: float) -> None:
        """Let something else happen."""
        admission, now = self.admission, self.now
        match what:
            case "pause":
                admission.pause(now + number)
                self.held_until = max(self.held_until, now + number)
            case "force":
                admission.force()
            case "reset":
                admission.reset(now)
                self.held_until = 0.0
            case "set back":
                admission.set_back(number)
                self.now, self.held_until = now - number, self.held_until - number
            case "by hand" | "resume":
                admission.change(self.limits._replace(paused=what == "by hand"), now)
            case _:
                admission.learn(Answer(what == "ok", admission.breaker.epoch), now, 0.0)


@settings(max_examples=200)
@given(STEPS, st.sampled_from([None, 5.0, 100.0]))
def test_no_request_goes_too_early_and_none_waits_for_ever(
    steps: list[tuple[str, float]], rate_per_s: float | None
) -> None:
    """S3-1, S1-11, fault 39: in every history holds are kept, and once all is well a request goes soon."""
    history = History(LIMITS._replace(rate_per_s=rate_per_s))
    for what, number in steps:
        history.now += number / 10
        history.ask() if what == "ask" else history.happen(what, number)

    admission, now = history.admission, history.now
    admission.change(history.limits, now)
    if isinstance(admission.breaker, Open) and admission.breaker.forced:
        admission.reset(now)
    for _ in range(60):
        answer = ask(admission, now, reserved=True)
        if isinstance(answer, Hold):
            now = max(answer.defer.until, now + 0.001)
            continue
        admission.learn(Answer(ok=True, epoch=answer.epoch), now, 0.0)
        if isinstance(admission.breaker, Closed) and admission.pace.slow is None:
            return
    raise AssertionError(admission.breaker)


def test_a_request_waits_for_a_slot_only_where_one_is_expected_soon() -> None:
    """A tenth of a second for each answer: the next of two slots is 50 ms away, the sixth 300 ms."""
    admission, slots = control()
    slots.free = 0

    assert isinstance(ask(admission, NOW), Wait)
    slots.waiting = 5
    held = ask(admission, NOW)

    assert isinstance(held, Hold)
    assert held.reason == "saturated"
    assert held.defer.until > NOW + 0.25


def test_a_locked_or_paused_subscription_is_sent_nothing() -> None:
    """Fault 69: neither with a closed breaker nor as a probe, and a waiter is recalled."""
    states: list[State] = [Closed(), Open(NOW - 1.0, 1)]
    for limits in (LIMITS._replace(locked=True), LIMITS._replace(paused=True)):
        admission, _ = control(limits)
        for state in states:
            admission.adopt(state, NOW)
            held = ask(admission, NOW)
            assert isinstance(held, Hold)
            assert held.reason == ("locked" if limits.locked else "paused")
            assert held.by_hand is limits.paused
            assert admission.recall(state.epoch, NOW) is not None


def test_a_breaker_that_was_opened_by_hand_holds_by_hand() -> None:
    """A breaker that opened by itself does not: its delivery is late."""
    admission, _ = control()
    for state in (Open(NOW + 9.0, 1), Open(NOW + 9.0, 2, forced=True)):
        admission.adopt(state, NOW)
        held = ask(admission, NOW)
        assert isinstance(held, Hold)
        assert (held.reason, held.by_hand) == ("breaker", state.forced)


def test_a_setting_that_changes_the_speed_frees_the_reservations() -> None:
    """Decision 13: another rate, concurrency or breaker, or the end of a pause; not a lock, not a pause."""
    for after, frees in (
        (LIMITS._replace(rate_per_s=5.0), True),
        (LIMITS._replace(concurrency=9), True),
        (LIMITS._replace(breaker=BreakerPolicy()), True),
        (LIMITS._replace(paused=True), False),
        (LIMITS._replace(locked=True), False),
        (LIMITS, False),
    ):
        admission, _ = control()
        admission.change(after, NOW)
        assert admission.reservations.is_void(NOW) is frees
    admission, _ = control(LIMITS._replace(paused=True))
    admission.change(LIMITS, NOW)
    assert admission.reservations.is_void(NOW)
