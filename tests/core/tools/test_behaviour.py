"""Promises of consumer.core.tools.behaviour: a trial endpoint behaves as its user chose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import ConfigError
from consumer.core.tools.behaviour import (
    PRESETS,
    REMEMBERED,
    Answer,
    Behaviour,
    Endpoint,
    behaviour_of,
    fails,
)

NOW = 1_700_000_000.0


def ask(endpoint: Endpoint, behaviour: Behaviour, event_id: str = "e", now: float = NOW) -> Answer:
    """Send one request."""
    return endpoint.answer(behaviour, event_id, endpoint.count(event_id), now)


def statuses(behaviour: Behaviour, requests: int) -> list[int]:
    """Answers to so many requests of different events at one moment."""
    endpoint = Endpoint()
    return [ask(endpoint, behaviour, f"e{n}").status for n in range(requests)]


def test_the_presets_do_what_they_are_called() -> None:
    """Each by its path: healthy, slow, flaky, failing, gone, holding, with Retry-After."""
    found = {name: ask(Endpoint(), behaviour_of(f"/{name}", {}, Behaviour())) for name in PRESETS}

    assert found["healthy"] == Answer(status=200)
    assert found["slow"] == Answer(status=200, delay_s=2.0)
    assert found["dead"] == Answer(status=503)
    assert found["gone"] == Answer(status=410)
    assert found["busy"] == Answer(status=429, retry_after_s=5)
    assert found["hold"] == Answer(status=200, held=True)
    assert {a.status for a in [ask(Endpoint(), PRESETS["flaky"], f"e{n}") for n in range(50)]} == {200, 503}


def test_the_query_changes_a_preset_and_any_other_path_the_base() -> None:
    """The options stand in the query by their names; a token of the user's is let pass."""
    base = Behaviour(status=201)

    assert behaviour_of("/slow/a", {"delay": "0.5", "token": "x"}, base) == Behaviour(delay_s=0.5)
    assert behaviour_of("/hooks", {"fail-ratio": "1"}, base) == Behaviour(status=201, fail_ratio=1.0)
    assert behaviour_of("/slowly", {}, base) == base
    assert behaviour_of("/busy", {"retry-after": "3", "every": "30"}, base) == Behaviour(
        retry_after_s=3, every=30
    )


@pytest.mark.parametrize(
    "query",
    [
        {"status": "99"},
        {"status": "nine"},
        {"delay": "-1"},
        {"delay": "nan"},
        {"delay": "inf"},
        {"fail-ratio": "1.1"},
        {"every": "1"},
        {"hold": "-1"},
        {"retry-after": "1.5"},
    ],
)
def test_a_number_out_of_its_range_is_refused_by_name(query: dict[str, str]) -> None:
    """A typing mistake in a path is told, and by the name of the option."""
    with pytest.raises(ConfigError, match=f"^--{next(iter(query))}: "):
        behaviour_of("/healthy", query, Behaviour())


@given(st.text(max_size=40), st.integers(1, 10))
def test_flaky_is_the_same_on_every_run(event_id: str, attempt: int) -> None:
    """By hash of id and attempt; 0 never fails, 1 always."""
    assert fails(event_id, attempt, 0.3) == fails(event_id, attempt, 0.3)
    assert not fails(event_id, attempt, 0.0)
    assert fails(event_id, attempt, 1.0)


def test_flaky_fails_its_part_and_a_retry_has_a_new_chance() -> None:
    """Of 2,000 first attempts about 3 of 10 fail; of these, about 3 of 10 fail again."""
    first = [n for n in range(2_000) if fails(f"e{n}", 1, 0.3)]
    again = [n for n in first if fails(f"e{n}", 2, 0.3)]

    assert 500 < len(first) < 700
    assert 0.2 < len(again) / len(first) < 0.4


def test_gone_after_so_many() -> None:
    """SW-37: 410 from the request after the last that is taken."""
    assert statuses(Behaviour(gone_after=2), 4) == [200, 200, 410, 410]


def test_busy_says_how_long_and_means_it() -> None:
    """SW-40: the first of each *every* makes it busy; until that is over every request gets what is left."""
    endpoint, behaviour = Endpoint(), Behaviour(retry_after_s=3, every=3)

    answers = [ask(endpoint, behaviour, f"e{at}", NOW + at) for at in (0, 0.5, 2.9, 3, 4, 5, 7.9)]

    assert [(a.status, a.retry_after_s) for a in answers] == [
        (429, 3),
        (429, 3),
        (429, 1),
        (200, None),
        (200, None),
        (429, 3),
        (429, 1),
    ]


def test_hold_answers_all_together_with_the_last() -> None:
    """Holds until all are there; what comes later is answered at once."""
    endpoint, behaviour = Endpoint(), Behaviour(hold=2, status=202)

    answers = [ask(endpoint, behaviour, f"e{n}") for n in range(3)]

    assert [(a.status, a.held, a.released) for a in answers] == [
        (202, True, False),
        (202, True, True),
        (202, False, False),
    ]


def test_attempts_are_counted_per_event_and_forgotten_oldest_first() -> None:
    """The count of an event's attempts is its own, and the memory for them is bounded."""
    endpoint = Endpoint()

    counts = [endpoint.count(event_id) for event_id in ("a", "b", "a")]
    for number in range(REMEMBERED):
        endpoint.count(f"x{number}")

    assert counts == [1, 1, 2]
    assert endpoint.count("a") == 1
    assert endpoint.count(f"x{REMEMBERED - 1}") == 2
