"""Every policy keeps to its plan, no history wedges a breaker, and the checks fail on broken code.

For each policy, built-in and of each kind, deliveries fail in random ways until they are parked: attempts and
waits are held against the policy. For each named breaker, and a ratio, random answers come and go. Each check
is then run on code that was broken on purpose; one that does not fail there makes the figure invalid.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.endpoint import breaker
from consumer.core.endpoint.breaker import BREAKERS, Answer, BreakerPolicy, Closed, Probing, State
from consumer.core.model import Outcome, OutcomeKind, Park, ParkReason, Retry, Verdict
from consumer.core.retry.policy import POLICIES, Growth, Jitter, RetryPolicy, wait_bounds_s
from consumer.core.retry.verdict import Situation, decide

Decide: TypeAlias = Callable[[Outcome, Situation], Verdict]
Admit: TypeAlias = Callable[[State, float, BreakerPolicy], tuple[State, bool]]

WALKS = 300  #: deliveries per policy
HISTORIES = 300  #: per breaker
ANSWERS = 200  #: per history
ROUNDING_S = 0.001


def policies() -> Mapping[str, RetryPolicy]:
    """Return every named policy, and one of each kind of growth and jitter."""
    kinds = {
        f"{growth.value}-{jitter.value}": RetryPolicy(growth=growth, jitter_kind=jitter, max_attempts=12)
        for growth in Growth
        for jitter in Jitter
    }
    adaptive = RetryPolicy(adaptive=True, max_attempts=9)
    return {**POLICIES, **kinds, "adaptive": adaptive}


RATIO = BreakerPolicy(failures=10_000, failure_ratio=0.5, window_s=3_600.0, min_requests=5)
CHECKED = len(policies()) + len(BREAKERS) + 1

GOALS = (Goal(name="policies_checked", text=f"{CHECKED}", unit="policies", n=CHECKED),)


def walk(policy: RetryPolicy, chance: random.Random, decide_one: Decide) -> Iterator[Verdict]:
    """Let one delivery fail until it is parked; yield each verdict."""
    now, previous_s = 1_700_000_000.0, 0.0
    arrived_at = now
    for attempt in range(1, 2_000):
        verdict = decide_one(
            Outcome(
                kind=chance.choice([OutcomeKind.REFUSED, OutcomeKind.TIMEOUT_TOTAL, OutcomeKind.DNS]),
                duration_s=0.1,
            ),
            Situation(
                attempt=attempt,
                policy=policy,
                arrived_at=arrived_at,
                now=now,
                sample=chance.random(),
                previous_s=previous_s,
                success_ratio=chance.random(),
            ),
        )
        yield verdict
        if not isinstance(verdict, Retry):
            return
        previous_s = verdict.wait_s
        now += verdict.wait_s + 0.1


def keeps_to_its_plan(policy: RetryPolicy, chance: random.Random, decide_one: Decide) -> bool:
    """Return whether every delivery got all its attempts, and each wait was within the policy's bounds."""
    for _ in range(WALKS):
        *waits, last = walk(policy, chance, decide_one)
        if len(waits) != policy.max_attempts - 1:
            return False
        if not isinstance(last, Park) or last.reason is not ParkReason.EXHAUSTED:
            return False
        for failed, verdict in enumerate(waits, start=1):
            low, high = wait_bounds_s(policy, failed)
            if not isinstance(verdict, Retry) or not low - ROUNDING_S <= verdict.wait_s <= high + ROUNDING_S:
                return False
    return True


def never_wedges(policy: BreakerPolicy, chance: random.Random, admit: Admit) -> bool:
    """Return whether a request goes after every history, once all its timers have run out."""
    longest_s = 2 * max(policy.cooldown_max_s, policy.cooldown_s) + policy.probe_timeout_s
    for _ in range(HISTORIES):
        state: State = Closed()
        now, out = 0.0, list[int]()
        for _ in range(ANSWERS):
            now += chance.choice((0.0, 0.1, policy.cooldown_s, longest_s))
            state, sent = admit(state, now, policy)
            if sent:
                out.append(state.epoch)
            if out and chance.random() < 0.8:  # else it is late, or lost
                epoch = out.pop(chance.randrange(len(out)))
                answer = Answer(chance.random() < 0.3, epoch)
                state, _ = breaker.settle(state, answer, now, policy, chance.random())
        if not admit(state, now + longest_s, policy)[1]:
            return False
    return True


def one_too_many(outcome: Outcome, situation: Situation) -> Verdict:
    """Decide wrongly: one attempt more than the policy has."""
    policy = situation.policy
    return decide(outcome, replace(situation, policy=replace(policy, max_attempts=policy.max_attempts + 1)))


def too_late(outcome: Outcome, situation: Situation) -> Verdict:
    """Decide wrongly: every wait is twice and a second longer."""
    verdict = decide(outcome, situation)
    return replace(verdict, wait_s=2 * verdict.wait_s + 1) if isinstance(verdict, Retry) else verdict


def one_too_few(outcome: Outcome, situation: Situation) -> Verdict:
    """Decide wrongly: one attempt less than the policy has."""
    policy = situation.policy
    return decide(outcome, replace(situation, policy=replace(policy, max_attempts=policy.max_attempts - 1)))


def too_early(outcome: Outcome, situation: Situation) -> Verdict:
    """Decide wrongly: every wait is half as long, and a second less."""
    verdict = decide(outcome, situation)
    return replace(verdict, wait_s=verdict.wait_s / 2 - 1) if isinstance(verdict, Retry) else verdict


def no_probe(state: State, now: float, policy: BreakerPolicy) -> tuple[State, bool]:
    """Admit wrongly: an open breaker stays so."""
    return (state, True) if isinstance(state, Closed) else (state, False)


def no_second_probe(state: State, now: float, policy: BreakerPolicy) -> tuple[State, bool]:
    """Admit wrongly: a probe that is lost is waited for."""
    return (state, False) if isinstance(state, Probing) else breaker.admit(state, now, policy)


#: Code that was broken on purpose, with the test that has to fail for it.
BROKEN_DECISIONS: Sequence[Decide] = (one_too_many, one_too_few, too_late, too_early)
BROKEN_ADMISSIONS: Sequence[Admit] = (no_probe, no_second_probe)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Check all of them, and the checks themselves."""
    chance = random.Random(5)
    breakers = {**BREAKERS, "ratio": RATIO}
    good = [name for name, each in policies().items() if keeps_to_its_plan(each, chance, decide)]
    good += [name for name, each in breakers.items() if never_wedges(each, chance, breaker.admit)]
    unseen = [
        f"{name} {broken.__name__}"
        for name, each in policies().items()
        for broken in BROKEN_DECISIONS
        if keeps_to_its_plan(each, chance, broken)
    ]
    unseen += [
        f"{name} {broken.__name__}"
        for name, each in breakers.items()
        for broken in BROKEN_ADMISSIONS
        if never_wedges(each, chance, broken)
    ]
    bench.note("policies_faults_not_seen", unseen)
    return [Measured(name="policies_checked", value=len(good), n=CHECKED, valid=not unseen)]


PROOF = Proof("policies", GOALS, prove)
