"""Workers agree even when messages are lost, and count the living workers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint import agreement, breaker
from consumer.core.endpoint.agreement import ALIVE_S, RANK, News, NewsKind, NewsMessage, Workers
from consumer.core.endpoint.breaker import Answer, BreakerPolicy, Closed, Open, Probing, State
from consumer.core.endpoint.health import Failing, Health

EAGER = BreakerPolicy(failures=1, cooldown_s=1.0, cooldown_max_s=1.0, probe_timeout_s=1.0)
NEWS = News(subscription="sub_1", endpoint="e1", state="open", epoch=3, rest_s=10.0, openings=2, held_s=1.5)


def told(state: State, now: float) -> News:
    """Return the state of one endpoint as a worker would announce it."""
    return agreement.news_of(("sub_1", "e1"), state, 0.0, now)


def hear(state: State, news: News, now: float) -> State:
    """Take news over if they are better."""
    return agreement.adopted(news, now, 0.5) if agreement.outranks(news, state) else state


def mind(state: State) -> tuple[int, str]:
    """The parts of a state that workers agree on."""
    return state.epoch, agreement.state_name(state)


def test_a_message_is_read_as_it_was_written() -> None:
    """Every message is read as it was written."""
    well = replace(NEWS, state="closed", openings=0, failing_s=7.5, taken_s=9.0)
    said = NewsMessage(NewsKind.STATE, "w1", [NEWS, well])

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
def test_foreign_messages_are_passed_by(message: dict[str, Any]) -> None:
    """No message of another publisher can make a worker fail."""
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
        ["s", "e", "open", 1, 0, 1, 0, -1, False, -1],
        ["s", "e", "open", 1, 0, 1, 0, 0, False, -2],
        ["s", "e", "open", 1, 0, 1, 0, "x", False, -1],
    ],
)
def test_a_wrong_row_is_left_out_and_the_others_count(row: object) -> None:
    """One wrong row spoils nothing else."""
    good = ["s", "e", "open", 1, 0, 1, 0]

    said = agreement.decode({"kind": "beat", "worker": "w", "news": [row, good]})

    assert said is not None
    assert [news.state for news in said.news] == ["open"]


def test_a_lower_epoch_is_ignored_and_in_one_epoch_care_wins() -> None:
    """Late messages change nothing; of two workers that disagree one is right."""
    low_epoch = [(1, state) for state in RANK]
    order = [*low_epoch, (2, "closed"), (2, "open"), (3, "closed")]

    for (epoch, state), (later, higher) in pairwise(order):
        low, high = replace(NEWS, epoch=epoch, state=state), replace(NEWS, epoch=later, state=higher)
        assert agreement.outranks(high, agreement.adopted(low, 0.0, 0.0))
        assert not agreement.outranks(low, agreement.adopted(high, 0.0, 0.0))
        assert not agreement.outranks(high, agreement.adopted(high, 0.0, 0.0))
        assert agreement.outdoes(high, low)
        assert not agreement.outdoes(low, high)


def test_the_worker_that_opened_it_probes_first() -> None:
    """One probe in all but a race: each worker that hears of it waits longer, with a jitter of its own."""
    news = told(Open(until=30.0, epoch=1), 0.0)

    first, second = (agreement.adopted(news, 0.0, sample) for sample in (0.0, 0.9))

    assert isinstance(first, Open)
    assert isinstance(second, Open)
    assert 30.0 < first.until < second.until


@given(st.floats(-3, 3), st.floats(0, 1, exclude_max=True), st.lists(st.floats(0, 1), max_size=5))
def test_of_two_that_opened_together_one_goes_first(
    apart_s: float, sample: float, beats: list[float]
) -> None:
    """One probe, even if no worker heard of it; a repeated message makes no wait longer."""
    first, second = Open(until=30.0, epoch=1, since=0.0), Open(until=30.0 + apart_s, epoch=1, since=0.0)
    now = 0.0
    for step in (0.0, *beats):
        now += step
        after = agreement.behind(second, told(first, now), now, sample)
        second = after if isinstance(after, Open) else second

    assert abs(second.until - first.until) >= agreement.HEAD_START_S - 1e-6
    assert second.until <= max(30.0 + apart_s, first.until + 2 * agreement.HEAD_START_S)
    assert agreement.behind(Open(30.0, epoch=2), told(first, 0.0), 0.0, sample) == Open(30.0, epoch=2)
    assert agreement.behind(Closed(epoch=1), told(first, 0.0), 0.0, sample) == Closed(epoch=1)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from(["request", "ok", "fail", "tell", "wait"]), st.integers(0, 3)
        ),
        max_size=60,
    )
)
def test_lost_late_and_doubled_messages_end_in_agreement(steps: list[tuple[int, str, int]]) -> None:
    """Four workers, any order, any loss: once all have heard all, they agree, and each can still send.

    : epochs, lost and late messages, two that disagree.
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


@pytest.mark.parametrize(
    ("state", "taken_s", "expected"),
    [
        (Closed(epoch=1), 0.5, True),
        (Closed(epoch=1), 2.5, False),
        (Closed(epoch=1), -1.0, False),
        (Closed(epoch=1, failures=1), 0.5, False),
        (Closed(epoch=1, openings=1), 0.5, False),
        (Closed(epoch=1, openings=1, proven=True), 0.5, True),
        (Open(until=9.0, epoch=1), 0.5, False),
    ],
)
def test_a_worker_with_a_recent_success_knows_better(state: State, taken_s: float, expected: bool) -> None:
    """Decision 15: its own success counts if no failure followed and it was not only a probe."""
    heard = {name: agreement.contradicts(state, taken_s, replace(NEWS, state=name)) for name in RANK}

    assert heard == {"closed": False, "probing": expected, "open": expected, "forced": False}


@given(st.floats(0, 5), st.floats(0, 1, exclude_max=True), st.lists(st.booleans(), max_size=8))
def test_a_worker_whose_probe_failed_goes_last_once(apart_s: float, sample: float, turns: list[bool]) -> None:
    """Decision 15: it waits behind one that heard of it; two failed ones never wait for each other."""
    probers = [Open(until=30.0 + n * apart_s, epoch=5, openings=2, since=0.0) for n in range(2)]
    told_one = agreement.adopted(told(probers[0], 0.0), 0.0, sample)

    after = agreement.yielding(probers[0], told(told_one, 0.0), 0.0, sample)

    assert isinstance(after, Open)
    assert isinstance(told_one, Open)
    assert told_one.until < after.until <= told_one.until + 2 * agreement.HEAD_START_S
    assert agreement.yielding(told_one, told(after, 0.0), 0.0, sample) is told_one
    for second in turns:
        heard = agreement.yielding(probers[second], told(probers[not second], 0.0), 0.0, sample)
        assert isinstance(heard, Open)
        probers[second] = heard
    assert max(one.until for one in probers) <= 30.0 + apart_s + 4 * agreement.HEAD_START_S
    first = Open(until=30.0, epoch=5, since=0.0)
    assert agreement.yielding(first, told(told_one, 0.0), 0.0, sample) is first


def test_an_answer_from_before_the_news_does_not_count() -> None:
    """A message of an old epoch can neither close nor reopen a breaker that others decided on."""
    state = hear(Closed(epoch=4), told(Open(until=9.0, epoch=5), 0.0), 0.0)

    after, change = breaker.settle(state, Answer(ok=True, epoch=4), 1.0, EAGER, 0.0)

    assert after is state
    assert change is breaker.Change.NONE


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("closed", 4), Closed(epoch=4)),
        (("open", 5), Open(until=101.0, epoch=5, since=100.0)),
        (("probing", 6), Open(until=101.0, epoch=6, since=100.0)),
        (("disabled", 7), None),
        (("closed", 0), None),
    ],
)
def test_a_late_worker_begins_with_the_state_of_the_store(
    row: tuple[str, int], expected: State | None
) -> None:
    """An open breaker stays open over a restart for the rest of its cooldown, and epochs go on."""
    assert agreement.remembered(*row, 100.0, EAGER) == expected


def test_known_failures_travel_with_the_breaker() -> None:
    """Decision 16: news carry the ages of first failure and last success; older workers omit both."""
    own = Health(Failing(100.0, counts=True), taken_at=40.0)
    news = agreement.with_health(NEWS, own, 1000.0)
    heard = agreement.decode(orjson.loads(agreement.encode(NewsMessage(NewsKind.BEAT, "w1", [news]))))
    assert heard is not None

    assert agreement.health_of(heard.news[0], 1000.0) == own
    assert agreement.health_of(heard.news[0], 5.0) == Health(Failing(-895.0, counts=True), -955.0)
    old_row = ["s", "e", "open", 1, 0, 1, 0]
    [before] = (agreement.decode({"kind": "beat", "worker": "w", "news": [old_row]}) or heard).news
    assert agreement.health_of(before, 1000.0) == Health(None)
    assert agreement.health_of(agreement.with_health(NEWS, Health(None), 1000.0), 1000.0) == Health(None)


def test_a_breaker_closed_by_another_worker_counts_as_unproven() -> None:
    """An endpoint that takes probes only gets two failures of each worker, not five."""
    closed, _ = breaker.settle(Probing(9.0, epoch=3, openings=2), Answer(ok=True, epoch=3), 0.0, EAGER, 0.0)

    heard = agreement.adopted(agreement.news_of(("sub_1", "e1"), closed, 0.0, 0.0), 0.0, 0.5)

    assert heard == closed == Closed(epoch=4, openings=2)
    well = agreement.news_of(("sub_1", "e1"), Closed(epoch=4), 0.0, 0.0)
    assert agreement.decode(
        orjson.loads(agreement.encode(NewsMessage(NewsKind.BEAT, "w1", [well])))
    ) == NewsMessage(NewsKind.BEAT, "w1", [well])


def test_forced_open_travels_and_outranks_open() -> None:
    """Forced open by an operator, it stays so in every worker, and over a restart."""
    forced = breaker.force(Closed(epoch=4))

    news = agreement.news_of(("sub_1", "e1"), forced, 0.0, 100.0)

    assert agreement.adopted(news, 100.0, 0.5) == forced
    assert agreement.outranks(news, Open(until=9.0, epoch=5))
    assert not agreement.outranks(news, breaker.reset(forced))
    assert agreement.remembered("forced", forced.epoch, 100.0, EAGER) == replace(forced, since=100.0)


def test_one_of_all_leads() -> None:
    """One worker does the tasks of which one is enough; another one does them when it is gone."""
    crew = {name: Workers() for name in "abc"}
    for name, workers in crew.items():
        for other in set(crew) - {name}:
            workers.hear(other, 0.0)

    assert [crew[name].leads(name, 1.0) for name in "abc"] == [True, False, False]
    crew["b"].leave("a")
    crew["c"].hear("b", ALIVE_S)
    assert crew["b"].leads("b", 1.0)
    assert not crew["c"].leads("c", ALIVE_S + 1.0)


def test_workers_are_counted_while_they_are_heard() -> None:
    """The worker itself, and those heard within three beats; a goodbye counts at once."""
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
    """Thousands of endpoints are announced in messages of bounded size; no endpoints at all are one beat."""
    assert [len(p) for p in agreement.batches([NEWS] * 7, 3)] == [3, 3, 1]
    assert [len(p) for p in agreement.batches(list[News](), 3)] == [0]


def test_probing_is_announced_with_its_rest() -> None:
    """A probe whose worker dies is replaced by another worker after its time-out."""
    state = agreement.adopted(told(Probing(until=5.0, epoch=2), 1.0), 1.0, 0.0)

    assert isinstance(state, Probing)
    assert not breaker.admit(state, 4.9, EAGER)[1]
    assert breaker.admit(state, 6.0, EAGER)[1]
