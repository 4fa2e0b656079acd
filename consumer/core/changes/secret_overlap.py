"""The overlap in which a replaced secret still signs beside the new one, and when it may end.

Data flow: secrets before + secrets after + time -> the times of replacement -> StoredEntry. A change that
drops a secret within its grace is refused, because receivers that still use it would reject every webhook.

Source: SW-32 (grace 24 h, at most 10 secrets).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from consumer.core.errors import ConfigError
from consumer.core.subscription.entry import SECRETS_MAX
from consumer.core.text.durations import format_duration

GRACE_S: Final = 86_400.0
"""The time that receivers have to change over to the new secret."""

ALWAYS: Final = math.inf
"""A time after every grace, for callers that ignore the grace."""


def replaced_at(
    before: Sequence[str], times: Sequence[int], after: Sequence[str], now: float
) -> tuple[int, ...]:
    """Return when each secret of *after* was replaced, in Unix seconds; 0 for the newest and if unknown.

    Args:
        before: The secrets until now, newest first.
        times: When each secret of *before* was replaced.
        after: The secrets from now on, newest first.
        now: Unix seconds.
    """
    known = {secret: time for secret, time in zip(before, times, strict=False) if time}
    older = set(before[1:])
    at = 0 if now == ALWAYS else int(now)
    replaced = tuple(
        0 if not place else known.get(secret, 0 if secret in older else at)
        for place, secret in enumerate(after)
    )
    return replaced if any(replaced) else ()


def ends_at(before: Sequence[str], ends: Sequence[int], after: Sequence[str]) -> tuple[int, ...]:
    """Return when each secret of *after* signs no more, in Unix seconds; 0 is never, as for the newest.

    Args:
        before: The secrets until now, newest first.
        ends: The end of each secret of *before*.
        after: The secrets from now on, newest first.
    """
    known = dict(zip(before, ends, strict=False))
    kept = tuple(known.get(secret, 0) if place else 0 for place, secret in enumerate(after))
    return kept if any(kept) else ()


def still_signing(secrets: Sequence[str], ends: Sequence[int], now: float) -> list[str]:
    """Return the secrets without those that ended before *now* (Unix seconds)."""
    over = {secret for secret, end in zip(secrets, ends, strict=False) if end and end <= now}
    return [secret for secret in secrets if secret not in over]


def refuse_early_end(before: Sequence[str], times: Sequence[int], after: Sequence[str], now: float) -> None:
    """Check that a new secret displaces no other one that receivers may still need.

    A secret that is removed without a replacement is allowed: somebody ended its overlap on purpose.

    Args:
        before: The secrets until now, newest first.
        times: When each secret of *before* was replaced.
        after: The secrets from now on, newest first; may be more than the limit.
        now: Unix seconds.

    Raises:
        ConfigError: a secret would be displaced; the text names the end of the oldest one's grace.
    """
    if now == ALWAYS or not set(after) - set(before):
        return
    time_of = dict(zip(before, times, strict=False))
    given_up = [secret for secret in before if secret not in after[:SECRETS_MAX]]
    needed = [secret for secret in given_up if _ends(time_of.get(secret, 0)) > now]
    if not needed or len({*after, *needed}) <= SECRETS_MAX:
        return
    since = time_of.get(needed[-1], 0)
    when = f"at {_text(_ends(since))}, 24 h after it was replaced" if since else "at an unknown time"
    raise ConfigError(
        f"secrets: {SECRETS_MAX} sign already, and the grace of the oldest ends {when}; wait until then, "
        "or end the overlap now with `leveret subscriptions rotate-secret --drop-old`"
    )


def describe_secrets(times: Sequence[int], ends: Sequence[int], count: int, now: float) -> Sequence[str]:
    """Describe the age and the end of each signing secret for people, newest first.

    Args:
        times: When each secret was replaced, Unix seconds; 0 for the newest, and if the time is unknown.
        ends: When each secret stops to sign, Unix seconds; 0 is never.
        count: The number of secrets.
        now: Unix seconds.
    """
    times, ends = times or (0,) * count, ends or (0,) * count
    since = [*times[1:], 0]  # a secret began when the one behind it was replaced
    rows = []
    for place in range(count):
        age = f"{_span(now - since[place])} old" if since[place] else "of unknown age"
        replaced = f", replaced {_span(now - times[place])} ago" if times[place] else ""
        end = f", {'ended' if ends[place] <= now else 'ends'} {_text(ends[place])}" if ends[place] else ""
        rows.append(f"{'older' if place else 'newest'}: {age}{replaced}{end}")
    return rows


def _span(seconds: float) -> str:
    """Return a duration in whole minutes, or in seconds under a minute; the clock may have been set back."""
    whole = max(int(seconds), 0)
    return format_duration(whole if whole < 60 else whole // 60 * 60)


def _ends(since: int) -> float:
    return since + GRACE_S if since else ALWAYS


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
