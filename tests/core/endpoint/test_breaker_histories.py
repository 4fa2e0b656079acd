"""No history of answers, losses and restarts leaves a breaker stuck."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from consumer.core.endpoint.breaker import (
    Answer,
    BreakerPolicy,
    Change,
    Closed,
    Open,
    Probing,
    State,
    admit,
    settle,
)

samples = st.floats(0, 1, exclude_max=True)


#: Reaches every state, and every timer ends within a second.
EAGER = BreakerPolicy(failures=1, cooldown_s=1.0, cooldown_max_s=1.0, probe_timeout_s=1.0)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([True, False, None]), samples)))
def test_no_history_wedges_the_breaker(history: list[tuple[int, bool | None, float]]) -> None:
    """After every history of answers and losses (None), waiting out every timer admits a request."""
    state: State = Closed()
    now = 0.0
    for pause, ok, sample in history:
        now += pause
        state, sent = admit(state, now, EAGER)
        if sent and ok is not None:
            state, _ = settle(state, Answer(ok, state.epoch), now, EAGER, sample)

    _, sent = admit(state, now + 1.0, EAGER)

    assert sent


class Traffic(RuleBasedStateMachine):
    """Any interleaving of requests, late answers and passing time against one breaker."""

    policy = BreakerPolicy(failures=3, cooldown_s=4.0, cooldown_max_s=16.0, probe_timeout_s=5.0)

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.state: State = Closed()
        self.out: list[int] = []  # epochs of requests without an answer
        self.probes: list[float] = []  # when probes began

    @rule(seconds=st.integers(1, 6))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.now += seconds

    @rule()
    def request(self) -> None:
        """Ask to send; only a closed breaker or a due timer may admit it."""
        before = self.state
        self.state, sent = admit(before, self.now, self.policy)
        assert sent == (isinstance(before, Closed) or self.now >= before.until)
        if sent:
            self.out.append(self.state.epoch)
            if isinstance(self.state, Probing):
                self.probes.append(self.now)

    @precondition(lambda self: self.out)
    @rule(ok=st.booleans(), sample=samples, data=st.data())
    def answer(self, ok: bool, sample: float, data: st.DataObject) -> None:
        """Let any request that is out be answered, however late."""
        epoch = self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))
        before = self.state
        self.state, change = settle(before, Answer(ok, epoch), self.now, self.policy, sample)
        if change is Change.CLOSED:
            assert ok
            assert isinstance(before, Probing)
            self.probes.clear()
        if change is Change.OPENED:
            assert not ok
            assert isinstance(self.state, Open)
            assert self.state.until >= self.now + self.policy.cooldown_s
            self.probes.clear()

    @invariant()
    def one_probe_at_a_time(self) -> None:
        """No two probes within one probe timeout, unless the first was answered."""
        for first, second in zip(self.probes, self.probes[1:], strict=False):
            assert second - first >= self.policy.probe_timeout_s

    @invariant()
    def closed_counts_below_the_limit(self) -> None:
        """A breaker at its limit is not closed."""
        if isinstance(self.state, Closed):
            assert self.state.failures < self.policy.failures


TestTraffic = Traffic.TestCase
