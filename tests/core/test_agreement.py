"""Workers agree whatever becomes of their messages, and count who lives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core import agreement, breaker
from consumer.core.agreement import ALIVE_S, RANK, Kind, News, Said, Workers
from consumer.core.breaker import Answer, BreakerPolicy, Closed, Open, Probing, State

EAGER = BreakerPolicy(failures=1, cooldown_s=1.0, cooldown_max_s=1.0, probe_timeout_s=1.0)
NEWS = News(subscription="sub_1", endpoint="e1", state="open", epoch=3, rest_s=10.0, openings=2, held_s=1.5)


def told(state: State, now: float) -> News:
    """Say of one endpoint what a worker thinks of it."""
    if isinstance(state, Closed):
        return replace(NEWS, state="closed", epoch=state.epoch, rest_s=0.0, openings=1)
    name = agreement.state_name(state)
    return replace(
        NEWS, state=name, epoch=state.epoch, rest_s=max(state.until - now, 0.0), openings=state.openings
    )


def hear(state: State, news: News, now: float) -> State:
    """Take news over if they are better."""
    return agreement.adopted(news, now, 0.5) if agreement.outranks(news, state) else state


def mind(state: State) -> tuple[int, str]:
    """What is agreed on."""
    return state.epoch, agreement.state_name(state)


def test_a_message_comes_back_as_it_was_said() -> None:
    """Whatever is said is heard the same (issue 5, item 5)."""
    said = Said(Kind.STATE, "w1", [NEWS, replace(NEWS, state="closed", openings=1)])

    assert agreement.decode(orjson.loads(agreement.encode(said))) == said


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"kind": "reload"},
        {"kind": "beat"},
        {"kind": "beat", "worker": 7},
        {"kind": "beat", "worker": "a b"},
        {"kind": "beat", "worker": "w", "news": 5},
        {"kind": ["beat"], "worker": "w"},
    ],
)
def test_what_is_none_of_ours_is_passed_by(message: dict[str, Any]) -> None:
    """Nobody who may publish there can make a worker fall (FAULTS: hostile input on control)."""
    assert agreement.decode(message) is None


@pytest.mark.parametrize(
    "row",
    [
        [],
        5,
        ["s", "e", "ajar", 1, 0, 1, 0],
        ["s", "e", "open", -1, 0, 1, 0],
        ["s", "e", "open", 1e300, 0, 1, 0],
        ["s", "e", "open", 1, float("nan"), 1, 0],
        ["s", "e", "open", 1, 1e9, 1, 0],
        ["s", "e", "open", 1, 0, 0, 0],
        ["s", "e", "open", 1, 0, 1, -2],
        ["s", "e", "open", None, 0, 1, 0],
    ],
)
def test_a_wrong_row_is_left_out_and_the_others_count(row: object) -> None:
    """One wrong row spoils nothing else."""
    good = ["s", "e", "open", 1, 0, 1, 0]

    said = agreement.decode({"kind": "beat", "worker": "w", "news": [row, good]})

    assert said is not None
    assert [news.state for news in said.news] == ["open"]


def test_a_lower_epoch_is_ignored_and_in_one_epoch_care_wins() -> None:
    """ARCHITECTURE "Breaker": late messages change nothing; of two workers that disagree one is right."""
    order = [(1, "closed"), (1, "probing"), (1, "open"), (2, "closed"), (2, "open"), (3, "closed")]

    for (epoch, state), (later, higher) in pairwise(order):
        low, high = replace(NEWS, epoch=epoch, state=state), replace(NEWS, epoch=later, state=higher)
        assert agreement.outranks(high, agreement.adopted(low, 0.0, 0.0))
        assert not agreement.outranks(low, agreement.adopted(high, 0.0, 0.0))
        assert not agreement.outranks(high, agreement.adopted(high, 0.0, 0.0))
        assert agreement.outdoes(high, low)
        assert not agreement.outdoes(low, high)


def test_who_opened_it_probes_first() -> None:
    """One probe in all but a race: whoever was told waits longer, each by a jitter of its own."""
    news = told(Open(until=30.0, epoch=1), 0.0)

    first, second = (agreement.adopted(news, 0.0, sample) for sample in (0.0, 0.9))

    assert isinstance(first, Open)
    assert isinstance(second, Open)
    assert 30.0 < first.until < second.until


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from(["request", "ok", "fail", "tell", "wait"]), st.integers(0, 3)
        ),
        max_size=60,
    )
)
def test_lost_late_and_doubled_messages_end_in_agreement(steps: list[tuple[int, str, int]]) -> None:
    """Four workers, any order, any loss: once all have told all, they are of one mind, and none is wedged.

    Issue 5, item 5: epochs, lost and late messages, two that disagree.
    """
    states: list[State] = [Closed() for _ in range(4)]
    sent: list[int | None] = [None] * 4  # epoch of the request in flight
    mail: list[News] = []
    now = 0.0
    for worker, step, other in steps:
        if step == "wait":
            now += 0.7
        elif step == "request":
            states[worker], goes = breaker.admit(states[worker], now, EAGER)
            sent[worker] = states[worker].epoch if goes else sent[worker]
        elif step == "tell":
            mail.append(told(states[worker], now))
            states[other] = hear(states[other], mail[(worker * 7 + other) % len(mail)], now)
        elif (epoch := sent[worker]) is not None:
            answer = Answer(ok=step == "ok", epoch=epoch)
            states[worker], _ = breaker.settle(states[worker], answer, now, EAGER, 0.5)
            sent[worker] = None
    best = max((mind(state) for state in states), key=lambda m: (m[0], RANK[m[1]]))

    for news in [told(state, now) for state in states]:
        states = [hear(state, news, now) for state in states]

    assert {mind(state) for state in states} == {best}
    assert all(breaker.admit(state, now + 10.0, EAGER)[1] for state in states)


def test_an_answer_from_before_the_news_does_not_count() -> None:
    """What was sent under an old epoch can neither close nor reopen what others decided."""
    state = hear(Closed(epoch=4), told(Open(until=9.0, epoch=5), 0.0), 0.0)

    after, change = breaker.settle(state, Answer(ok=True, epoch=4), 1.0, EAGER, 0.0)

    assert after is state
    assert change is breaker.Change.NONE


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("closed", 4), Closed(epoch=4)),
        (("open", 5), Open(until=101.0, epoch=5)),
        (("probing", 6), Open(until=101.0, epoch=6)),
        (("disabled", 7), None),
        (("closed", 0), None),
    ],
)
def test_a_late_worker_begins_with_what_the_store_says(row: tuple[str, int], expected: State | None) -> None:
    """An open breaker stays open over a restart for the rest of its cooldown, and epochs go on."""
    assert agreement.remembered(*row, 100.0, EAGER) == expected


def test_workers_are_counted_while_they_are_heard() -> None:
    """Oneself, and who was heard within three beats; a goodbye counts at once."""
    workers = Workers()
    counts = [workers.count(0.0)]
    for name in ("a", "b", "c"):
        workers.hear(name, 0.0)
    counts.append(workers.count(ALIVE_S))
    workers.leave("a")
    counts.append(workers.count(ALIVE_S))
    workers.hear("b", ALIVE_S)
    counts.append(workers.count(ALIVE_S + 0.1))
    counts.append(workers.count(2 * ALIVE_S + 0.1))

    assert counts == [1, 4, 3, 2, 1]


def test_made_up_workers_do_not_fill_the_memory() -> None:
    """The table is bounded."""
    workers = Workers()
    for number in range(agreement.WORKERS_MAX + 50):
        workers.hear(f"w{number}", 0.0)

    assert workers.count(0.0) == agreement.WORKERS_MAX + 1


def test_long_news_are_cut_into_messages() -> None:
    """Thousands of endpoints are told in messages of bounded size; none at all is still one beat."""
    assert [len(p) for p in agreement.pieces([NEWS] * 7, 3)] == [3, 3, 1]
    assert [len(p) for p in agreement.pieces([], 3)] == [0]


def test_probing_is_told_with_its_rest() -> None:
    """A probe whose worker dies is replaced by another worker after its time-out."""
    state = agreement.adopted(told(Probing(until=5.0, epoch=2), 1.0), 1.0, 0.0)

    assert isinstance(state, Probing)
    assert not breaker.admit(state, 4.9, EAGER)[1]
    assert breaker.admit(state, 6.0, EAGER)[1]
