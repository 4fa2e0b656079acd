"""Define the meaning of each answer in one table: the rule for the delivery, and the signal for the breaker.

Data flow: Outcome (edges.http), the subscription's status rules -> Meaning -> core.retry.verdict.
No other module classifies answers; :func:`classification_table` prints the table for the docs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from consumer.core.errors import ConfigError
from consumer.core.model import Outcome, OutcomeKind

_T = TypeVar("_T")


class StatusRule(StrEnum):
    """What to do after a failed attempt; also the values of ``on_status`` in a subscription."""

    RETRY = "retry"
    PARK = "park"
    DISABLE = "disable"
    DROP = "drop"


class Signal(StrEnum):
    """The effect of an outcome on the breaker."""

    ALIVE = "alive"  #: the endpoint answered, if only to refuse this webhook: a success for the breaker
    FAILING = "failing"  #: a failure that counts
    UNKNOWN = "unknown"  #: the endpoint was never reached: the breaker learns nothing


@dataclass(frozen=True, slots=True)
class Meaning:
    """One row of the table."""

    rule: StatusRule
    signal: Signal
    why: str


#: HTTP statuses with a meaning of their own.
#: Source: S1-7 (the mail codes mapped to HTTP); SW-36..40; faults 36-40.
STATUSES: Final[Mapping[int, Meaning]] = {
    **dict.fromkeys(
        (400, 406, 411, 413, 414, 415, 422, 431, 501, 505),
        Meaning(StatusRule.PARK, Signal.ALIVE, "this request can never succeed"),
    ),
    **dict.fromkeys(
        (401, 403, 404, 405, 407),
        Meaning(StatusRule.RETRY, Signal.ALIVE, "may be a deploy or a setting that is put right soon"),
    ),
    **dict.fromkeys(
        (408, 425),
        Meaning(StatusRule.RETRY, Signal.FAILING, "the server ran out of time or was not ready"),
    ),
    410: Meaning(StatusRule.DISABLE, Signal.ALIVE, "gone for good: the endpoint asks us to stop"),
    421: Meaning(StatusRule.RETRY, Signal.FAILING, "the answering server does not serve this host now"),
    429: Meaning(StatusRule.RETRY, Signal.ALIVE, "throttled: the endpoint's pace slows, its health is fine"),
}

#: The meaning of the first digit where the status has no row of its own.
#: A 3xx is parked at once (S1-7), although fault 36 asks for a retry: a redirect is never followed, so a
#: retry would meet the same redirect again.
CLASSES: Final[Mapping[int, Meaning]] = {
    3: Meaning(StatusRule.PARK, Signal.ALIVE, "moved: redirects are not followed, change the URL"),
    4: Meaning(StatusRule.RETRY, Signal.ALIVE, "refused, without saying that it is for good"),
    5: Meaning(StatusRule.RETRY, Signal.FAILING, "the server failed or is overloaded"),
}

#: A status outside 200..599 is not a valid HTTP answer.
ODD_STATUS: Final = Meaning(StatusRule.RETRY, Signal.FAILING, "not a final HTTP status")

#: The meaning of each kind of failure without a status. Source: S1-7, S3-4; faults 42-49.
KINDS: Final[Mapping[OutcomeKind, Meaning]] = {
    OutcomeKind.TIMEOUT_CONNECT: Meaning(
        StatusRule.RETRY, Signal.FAILING, "the connection was not accepted in time"
    ),
    OutcomeKind.TIMEOUT_TOTAL: Meaning(
        StatusRule.RETRY, Signal.FAILING, "no full answer within the deadline"
    ),
    OutcomeKind.DNS: Meaning(
        StatusRule.RETRY, Signal.FAILING, "the name did not resolve, or has more than 32 addresses"
    ),
    OutcomeKind.REFUSED: Meaning(StatusRule.RETRY, Signal.FAILING, "the connection was refused"),
    OutcomeKind.RESET: Meaning(StatusRule.RETRY, Signal.FAILING, "the connection broke before an answer"),
    OutcomeKind.TLS: Meaning(StatusRule.RETRY, Signal.FAILING, "no trusted TLS session; never downgraded"),
    OutcomeKind.PROTOCOL: Meaning(StatusRule.RETRY, Signal.FAILING, "the answer was not HTTP"),
    OutcomeKind.TOO_LARGE: Meaning(
        StatusRule.RETRY, Signal.FAILING, "the answer's head was larger than we read"
    ),
    OutcomeKind.BLOCKED: Meaning(StatusRule.RETRY, Signal.UNKNOWN, "the address guard let nothing through"),
    OutcomeKind.PROXY: Meaning(
        StatusRule.RETRY, Signal.UNKNOWN, "our proxy failed, not the endpoint; no attempt is spent"
    ),
    OutcomeKind.LOCAL: Meaning(
        StatusRule.RETRY,
        Signal.UNKNOWN,
        "this machine has no handle, memory or port left, or no name server; no attempt is spent",
    ),
    OutcomeKind.CLIENT_ERROR: Meaning(
        StatusRule.RETRY, Signal.UNKNOWN, "our own side could not send it, or had no token to send"
    ),
    # A kind that implies a status, without one, is a broken answer.
    **dict.fromkeys(
        (OutcomeKind.OK, OutcomeKind.HTTP_3XX, OutcomeKind.HTTP_4XX, OutcomeKind.HTTP_5XX),
        Meaning(StatusRule.RETRY, Signal.FAILING, "the answer carried no status"),
    ),
}

#: Faults of this side, before the endpoint was reached: the delivery is deferred and spends no attempt.
OUR_FAULTS: Final = frozenset((OutcomeKind.PROXY, OutcomeKind.LOCAL))

#: Keys of ``on_status`` that name a whole class.
_CLASS_KEYS: Final = ("3xx", "4xx", "5xx")


def is_success(outcome: Outcome) -> bool:
    """Return whether the endpoint took the webhook: any 2xx, even when the response body broke off.

    Source: Standard Webhooks 1.0.0 (SW-35); fault 34.
    """
    return outcome.status is not None and 200 <= outcome.status < 300


def meaning_of(outcome: Outcome) -> Meaning:
    """Look a failed outcome up in the table: exact status, then its class, then the kind of error."""
    status = outcome.status
    if status is None:
        return KINDS[outcome.kind]
    return STATUSES.get(status) or CLASSES.get(status // 100, ODD_STATUS)


def rule_for(outcome: Outcome, overrides: Mapping[str, StatusRule]) -> StatusRule:
    """Return the rule for a failure: the subscription's rule, or else the rule of the table.

    Args:
        outcome: A failure; a success has no rule.
        overrides: ``on_status`` of the subscription; an exact status goes before its class.
    """
    if overrides and outcome.status is not None:
        override = overrides.get(str(outcome.status)) or overrides.get(f"{outcome.status // 100}xx")
        if override is not None:
            return override
    return meaning_of(outcome).rule


def throttles(outcome: Outcome, *, failed_before: bool) -> bool:
    """Return whether the answer asks for fewer requests, with or without a time.

    Args:
        outcome: A failure.
        failed_before: The endpoint's attempt before it failed too. A single 502 among good answers does not
            ask for fewer requests.

    Source: SW-38 (429), SW-39 (502, 504); fault 40.
    """
    return outcome.status == 429 or (failed_before and outcome.status in (502, 504))


def breaker_signal(outcome: Outcome) -> Signal:
    """Return the effect of *outcome* on the breaker."""
    return Signal.ALIVE if is_success(outcome) else meaning_of(outcome).signal


def parse_status_rules(rules: Mapping[str, str]) -> dict[str, StatusRule]:
    """Check an ``on_status`` mapping, such as ``{"404": "park", "5xx": "retry"}``.

    Raises:
        ConfigError: a key is not a failing status or class, or a value is not a rule; names the key.
    """
    parsed = {}
    for key, value in parse_statuses(rules).items():
        if value not in list(StatusRule):
            raise ConfigError(f"{key}: {value!r} is not one of {', '.join(StatusRule)}")
        parsed[key] = StatusRule(value)
    return parsed


def parse_statuses(values: Mapping[str, _T]) -> dict[str, _T]:
    """Return *values* with checked keys: failing statuses, or classes of them in lower case.

    Raises:
        ConfigError: a key is not one of these; names the key.
    """
    parsed = {}
    for key, value in values.items():
        name = str(key).lower()
        exact = name.isascii() and name.isdigit() and len(name) == 3 and 300 <= int(name) <= 599
        if not exact and name not in _CLASS_KEYS:
            raise ConfigError(f"{key!r} is not a status from 300 to 599, nor 3xx, 4xx or 5xx")
        parsed[name] = value
    return parsed


def classification_table() -> Sequence[tuple[str, StatusRule, Signal, str]]:
    """Return the table in reading order: (answers, rule, signal for the breaker, reason)."""
    by_meaning: dict[Meaning, list[str]] = {}
    for status, meaning in STATUSES.items():
        by_meaning.setdefault(meaning, []).append(str(status))
    for digit, meaning in CLASSES.items():
        by_meaning.setdefault(meaning, []).append(f"other {digit}xx")
    by_meaning.setdefault(ODD_STATUS, []).append("other status")
    for kind, meaning in KINDS.items():
        by_meaning.setdefault(meaning, []).append(kind.value)
    return [(", ".join(what), m.rule, m.signal, m.why) for m, what in by_meaning.items()]


def kind_table() -> Sequence[tuple[str, str, str, str]]:
    """Return the meaning of each kind: (kind, reason, rule, whether the breaker counts it).

    Where statuses of a kind differ, the last two name the usual value first, then each exception with its
    statuses.
    """
    rows = [(OutcomeKind.OK.value, "any 2xx, even one whose body broke off", "delivered", "no")]
    for kind, digit in ((OutcomeKind.HTTP_3XX, 3), (OutcomeKind.HTTP_4XX, 4), (OutcomeKind.HTTP_5XX, 5)):
        meaning = CLASSES[digit]
        own = {status: each for status, each in sorted(STATUSES.items()) if status // 100 == digit}
        does = {status: each.rule.value for status, each in own.items()}
        counts = {status: _yes(each) for status, each in own.items()}
        rows.append(
            (kind.value, meaning.why, _but(meaning.rule.value, does), _but(_yes(meaning), counts)),
        )
    for kind in OutcomeKind:
        if kind not in (OutcomeKind.OK, OutcomeKind.HTTP_3XX, OutcomeKind.HTTP_4XX, OutcomeKind.HTTP_5XX):
            meaning = KINDS[kind]
            rule = "put off" if kind in OUR_FAULTS else meaning.rule.value
            rows.append((kind.value, meaning.why, rule, _yes(meaning)))
    return rows


def _yes(meaning: Meaning) -> str:
    return "yes" if meaning.signal is Signal.FAILING else "no"


def _but(usual: str, by_status: Mapping[int, str]) -> str:
    """Return the usual value and the exceptions with their statuses, such as ``retry; park: 400, 413``."""
    others = sorted({text for text in by_status.values() if text != usual})
    named = (f"{text}: {', '.join(str(s) for s, t in by_status.items() if t == text)}" for text in others)
    return "; ".join((usual, *named))
