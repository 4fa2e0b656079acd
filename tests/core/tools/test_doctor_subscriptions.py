"""`leveret doctor` finds subscriptions that can match nothing, and those that matched nothing so far."""

from __future__ import annotations

from collections.abc import Iterable

from consumer.core.message.operator_events import OperatorEventType
from consumer.core.model import OPERATORS
from consumer.core.subscription.brief import SubscriptionBrief
from consumer.core.tools.doctor.finding import Finding, Level
from consumer.core.tools.doctor.subscriptions import Seen, never_matching, off_findings, unmatched_so_far

TYPES = [each.value for each in OperatorEventType]


def brief(tenant: str = "acme", *events: str, **more: object) -> SubscriptionBrief:
    """Return a subscription."""
    fields: dict[str, object] = {
        "id": f"sub_{tenant}",
        "name": "shop",
        "events": events or ("order.*",),
        **more,
    }
    return SubscriptionBrief(tenant=tenant, **fields)  # type: ignore[arg-type]  # a test names the fields


def seen(*, is_whole: bool = True, matched: Iterable[str] = (), **types: set[str]) -> Seen:
    """Return events of some tenants."""
    return Seen(types=types, matched=set(matched), is_whole=is_whole, reach="24 h")


def texts(findings: Iterable[Finding]) -> list[str]:
    """Return the texts of the warnings."""
    return [each.text for each in findings if each.level is Level.WARNING]


def test_operators_get_only_operational_events() -> None:
    """The reserved tenant has a closed set of types, so a pattern outside it can never match."""
    assert texts(never_matching([brief(OPERATORS, "#")], OPERATORS, TYPES)) == []
    assert texts(never_matching([brief(OPERATORS, "x", "breaker.*")], OPERATORS, TYPES)) == []
    assert texts(never_matching([brief("acme", "nothing")], OPERATORS, TYPES)) == []
    [found] = never_matching([brief(OPERATORS, "order.*")], OPERATORS, TYPES)
    assert "order.* matches no type of operational event" in found.text
    assert "#" in found.remedy


def test_a_disabled_subscription_is_not_judged_by_its_patterns() -> None:
    """It gets nothing anyway."""
    off = brief(OPERATORS, "order.*", enabled=False)

    assert list(never_matching([off], OPERATORS, TYPES)) == []
    assert list(unmatched_so_far([brief("acme", enabled=False)], seen(acme={"x"}), OPERATORS)) == []


def test_a_tenant_without_events_is_named_with_a_similar_one() -> None:
    """A typing error in the tenant, or other case, is the usual reason."""
    [found] = texts(unmatched_so_far([brief("Acme")], seen(acme={"order.created"}), OPERATORS))
    assert found == "no event of the tenant Acme came within 24 h; events came for acme"
    [found] = texts(unmatched_so_far([brief("globex")], seen(acme={"order.created"}), OPERATORS))
    assert found == "no event of the tenant globex came within 24 h"


def test_a_history_that_was_not_read_to_its_end_shows_no_absence() -> None:
    """A quiet tenant may have events in the rows that were left out."""
    found = seen(is_whole=False, acme={"order.created"})

    assert texts(unmatched_so_far([brief("globex")], found, OPERATORS)) == []


def test_a_pattern_that_matches_none_of_the_types() -> None:
    """The types that came are named, at most three."""
    came = seen(acme={"orders.created", "orders.paid", "orders.sent", "orders.gone"})

    [found] = texts(unmatched_so_far([brief("acme", "order.*")], came, OPERATORS))
    assert found == (
        "order.* matches none of the types that came within 24 h: orders.created, orders.gone, orders.paid, …"
    )
    assert texts(unmatched_so_far([brief("acme", "order.*", "orders.#")], came, OPERATORS)) == []


def test_a_subscription_with_a_delivery_matches() -> None:
    """Its types may be older than the rows that were read."""
    came = seen(acme={"invoice.paid"}, matched=["sub_acme"])

    assert texts(unmatched_so_far([brief("acme")], came, OPERATORS)) == []


def test_without_any_event_nothing_is_claimed() -> None:
    """A fresh installation has no events yet."""
    assert list(unmatched_so_far([brief()], seen(), OPERATORS)) == []


def test_disabled_and_paused_subscriptions_are_warnings() -> None:
    """The reason of the daemon is shown; a subscription that a file disables is as it should be."""
    assert texts(off_findings([brief(disabled_reason="410", enabled=False)])) == ["is disabled: 410"]
    assert texts(off_findings([brief(enabled=False)])) == []
    assert texts(off_findings([brief(paused=True)])) == ["deliveries wait, as it is paused"]
    assert len(texts(off_findings([]))) == 1


def test_a_subscription_to_notices_waits_for_rare_events() -> None:
    """What Leveret itself sends to a tenant comes once many entries are parked; silence is no fault."""
    came = seen(acme={"invoice.paid"})
    notices = ["leveret.parked.many"]

    assert texts(unmatched_so_far([brief("acme", "leveret.#")], came, OPERATORS, notices)) == []
    assert len(texts(unmatched_so_far([brief("acme", "order.#")], came, OPERATORS, notices))) == 1
