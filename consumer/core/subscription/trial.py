"""A webhook without an event, sent by ``subscriptions test`` and by the slow probe.

Data flow: Subscription -> trial_event -> build_body -> (sign) Trial -> sender -> Outcome -> advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from consumer.core.model import Event, Outcome, OutcomeKind, SignedRequest
from consumer.core.retry.outcomes import StatusRule, is_success, meaning_of, rule_for
from consumer.core.retry.verdict import describe
from consumer.core.subscription.subscription import Subscription
from consumer.core.text.ids import uuid7
from consumer.core.text.rfc3339 import from_ms
from consumer.core.webhook.body import build_body
from consumer.core.webhook.signing import ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign

TRIAL_TYPE: Final = "leveret.test"
TEXT: Final = "A test that an operator sent; it belongs to no event."

_EFFECTS: Final = {
    StatusRule.RETRY: "a delivery would be retried",
    StatusRule.PARK: "a delivery would be parked",
    StatusRule.DISABLE: "a delivery would disable the endpoint",
    StatusRule.DROP: "a delivery would be dropped",
}
_REMEDIES: Final[Mapping[OutcomeKind, str]] = {
    OutcomeKind.BLOCKED: "to allow that network set egress.allow",
    OutcomeKind.DNS: "check the host of the URL",
    OutcomeKind.REFUSED: "check that the endpoint is up and the port right",
    OutcomeKind.TIMEOUT_CONNECT: "check that the endpoint is up, and that no firewall blocks the connection",
    OutcomeKind.TLS: "check the endpoint's certificate",
    OutcomeKind.LOCAL: "raise this machine's limit of open files, or check its memory and name servers",
    OutcomeKind.PROXY: "check egress.proxy, and that the proxy is up",
    OutcomeKind.CLIENT_ERROR: "check this side or the token endpoint, not the endpoint",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One signed webhook and the signed values."""

    request: SignedRequest
    event_id: str
    timestamp: int  #: Unix seconds
    signature: str
    body: bytes


def make_trial(
    subscription: Subscription, user_agent: str, now: float, random: bytes, text: str = TEXT
) -> Trial:
    """Return one webhook ``leveret.test`` for *subscription*.

    Args:
        subscription: The endpoint and the signing keys.
        user_agent: Leveret's user agent, with its version.
        now: Unix seconds.
        random: 10 random bytes for the id.
        text: The message in the webhook's data.
    """
    event_id, timestamp = uuid7(int(now * 1000), random), int(now)
    data = {"message": text, "subscription": subscription.id, "name": subscription.name}
    event = Event(
        id=event_id,
        tenant=subscription.tenant,
        type=TRIAL_TYPE,
        timestamp=from_ms(int(now * 1000)),
        arrived_at=now,
        body=orjson.dumps(data),
    )
    body = build_body(event)
    signature = sign(subscription.keys_at(now), event_id, timestamp, body)
    headers = (
        ("content-type", "application/json"),
        ("user-agent", user_agent),
        *subscription.headers,
        (ID_HEADER, event_id),
        (TIMESTAMP_HEADER, str(timestamp)),
        (SIGNATURE_HEADER, signature),
    )
    request = SignedRequest(subscription.url, headers, body, subscription.timeout_s, subscription.access)
    return Trial(request, event_id, timestamp, signature, body)


def advice(outcome: Outcome, rules: Mapping[str, StatusRule]) -> str | None:
    """Explain a failed outcome: its meaning, the result for a delivery, and the remedy; None for a success.

    Args:
        outcome: The outcome of the trial.
        rules: ``on_status`` of the subscription.
    """
    if is_success(outcome):
        return None
    effect = _EFFECTS[rule_for(outcome, rules)]
    remedy = _REMEDIES.get(outcome.kind, "look for the cause in the endpoint's own log")
    return f"{describe(outcome)} ({meaning_of(outcome).why}): {effect}; {remedy}"
