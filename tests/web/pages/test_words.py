"""States are sentences, and endpoints are in the order of their trouble."""

from __future__ import annotations

import pytest

from consumer.web.pages.views.parts import Condition, EndpointLine, State, Tone
from consumer.web.pages.words import badge, by_trouble, sentence, tone_of

NOW = 1_780_747_200.0  #: 2026-06-06 12:00:00 UTC


@pytest.mark.parametrize("state", State)
def test_each_state_has_a_word_and_a_sentence(state: State) -> None:
    """No state is shown by its colour alone."""
    condition = Condition(state=state, since=NOW - 60, until=NOW + 60, reason="by hand")

    assert badge(condition).word
    assert sentence(condition, NOW).endswith(".")


@pytest.mark.parametrize(
    ("until", "words"),
    [
        (NOW + 51, "the next probe goes in 51 s"),
        (NOW - 1, "the next delivery is the probe"),
        (None, "the time of the next probe is not known"),
    ],
)
def test_an_open_breaker_names_its_next_probe(until: float | None, words: str) -> None:
    """The sentence gives the time that is left."""
    condition = Condition(state=State.OPEN, since=NOW - 60, until=until)

    assert sentence(condition, NOW) == f"Nothing is sent since 11:59:00. The breaker is open; {words}."


def line(name: str, state: State, ratio: float | None = None, waiting: int = 0) -> EndpointLine:
    """Return an endpoint in *state*."""
    return EndpointLine(
        subscription_id=name,
        tenant="acme",
        name=name,
        url="https://a.example",
        condition=Condition(state=state),
        success_ratio=ratio,
        waiting=waiting,
    )


def test_the_most_serious_trouble_is_first() -> None:
    """Failing before degraded before paused before well; then the success, then the backlog."""
    lines = [
        line("well", State.WELL, 1.0),
        line("paused", State.PAUSED),
        line("degraded", State.DEGRADED, 0.8),
        line("failing", State.OPEN, 0.4, 5),
        line("worse", State.OPEN, 0.2),
        line("longer", State.OPEN, 0.4, 50),
    ]

    assert [each.name for each in by_trouble(lines)] == [
        *("worse", "longer", "failing", "degraded", "paused", "well")
    ]


def test_an_unknown_word_is_plain() -> None:
    """A state of a later release has no colour."""
    assert tone_of("something new") is Tone.PLAIN
    assert tone_of("parked") is Tone.BAD
