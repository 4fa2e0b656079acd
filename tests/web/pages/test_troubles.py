"""The overview names everything that is wrong, with its number, and nothing else."""

from __future__ import annotations

from consumer.web.pages.troubles import Facts, troubles
from consumer.web.pages.views.overview import OverviewPage, ParkedCounts, Pressure, Rerouted
from consumer.web.pages.views.parts import Condition, EndpointLine, LastError, Shell, State, Tone

NOW = 1_780_747_200.0  #: 2026-06-06 12:00:00 UTC


def failing(name: str, state: State = State.OPEN) -> EndpointLine:
    """Return an endpoint that answers 503."""
    return EndpointLine(
        subscription_id=f"sub_{name}",
        tenant="acme",
        name=name,
        url="https://a.example",
        condition=Condition(state=state, since=NOW - 60),
        success_ratio=0.5,
        waiting=2_310,
        parked=212,
        last_error=LastError(at=NOW - 9, code="503", answer=b"no database"),
    )


def headlines(facts: Facts) -> list[str]:
    """Return the sentences."""
    return [each.headline for each in troubles(facts)]


def test_nothing_is_wrong() -> None:
    """Without a trouble there is no sentence, and the page is calm."""
    page = OverviewPage(shell=Shell(now=NOW), troubles=troubles(Facts(now=NOW)))

    assert page.headline == "All is well"
    assert page.tone is Tone.GOOD


def test_a_failing_endpoint_has_its_own_answer() -> None:
    """The overview shows code, backlog and answer of a failing endpoint, and leads to it."""
    (trouble,) = troubles(Facts(now=NOW, endpoints=[failing("orders")]))

    assert trouble.headline == "acme/orders fails with 503 since 11:59:00."
    assert trouble.detail == "2,310 deliveries wait, 212 parked, last answer 9 s ago."
    assert trouble.href == "/endpoints/sub_orders"
    assert trouble.answer == b"no database"


def test_many_failing_endpoints_share_a_sentence() -> None:
    """Three have sentences of their own; the others are counted."""
    found = headlines(Facts(now=NOW, endpoints=[failing(f"e{index}") for index in range(9)]))

    assert len(found) == 4
    assert found[-1] == "6 further endpoints fail."


def test_everything_at_once() -> None:
    """Serious troubles come first; each kind has one sentence with its number."""
    facts = Facts(
        now=NOW,
        endpoints=[failing("slow", State.DEGRADED), failing("rest", State.RESTING)],
        rerouted=[Rerouted(tenant="globex", since=NOW - 340, waiting=12_400, reason="it took too much")],
        parked=ParkedCounts(count=249, added_hour=212, left_hour=3, top_reason="exhausted"),
        pressure=Pressure(since=NOW - 90, reason="the broker blocks publishers: memory"),
        workers=0,
        not_ready=("the store is another one",),
        oldest_due_s=300.0,
    )

    assert headlines(facts) == [
        "No worker is running: nothing is delivered.",
        "A worker is not ready.",
        "The broker holds back: workers have started nothing new for 2 min.",
        "1 endpoint is degraded.",
        "The oldest delivery in a worker's hands is 5 min old.",
        "The parked queue grows: 212 more in the last hour.",
        "1 tenant is rerouted.",
    ]
    page = OverviewPage(shell=Shell(now=NOW), troubles=troubles(facts))
    assert page.headline == "3 things are wrong, 4 more to look at"


def test_a_parked_queue_that_shrinks_is_no_trouble() -> None:
    """Entries that leave faster than they come need no sentence."""
    assert headlines(Facts(now=NOW, parked=ParkedCounts(count=249, added_hour=2, left_hour=3))) == []
